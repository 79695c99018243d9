"""The language model against a small implementation of the published formulas, and its answers."""

from collections import Counter
from itertools import zip_longest

import numpy as np
import pytest
from support.cloze import cloze, passage

from mednli_jax.cloze.ngram_lm import FALLBACK, START, continuations, estimate, training_text


class Reference:
    """Interpolated modified Kneser-Ney with dictionaries, computing one probability at a time."""

    def __init__(self, sentences, order):
        padded = [("<s>", *sentence, "</s>") for sentence in sentences]
        occurrences = []  # of n-grams, for each n that occurs
        for n in range(1, min(order, max(map(len, padded))) + 1):
            grams = Counter()
            for sentence in padded:
                grams.update(sentence[at : at + n] for at in range(len(sentence) - n + 1))
            occurrences.append(grams)
        self.words = {word for (word,) in occurrences[0]} - {"<s>"} | {"<unk>"}
        levels = zip_longest(occurrences, occurrences[1:], fillvalue={})
        self.counts = [self.adjusted(grams, longer) for grams, longer in levels]
        del self.counts[0][("<s>",)]
        self.discounts = [self.discount(Counter(counts.values())) for counts in self.counts]

    @staticmethod
    def adjusted(grams, longer):
        """The number of distinct words before an n-gram; the occurrences of those that begin a
        sentence, and of the longest."""
        before = Counter(gram[1:] for gram in longer)
        return {
            gram: count if gram[0] == "<s>" or not longer else before[gram]
            for gram, count in grams.items()
        }

    @staticmethod
    def discount(n):
        """n: the number of n-grams of each count."""
        if n[1] and n[2] and n[3]:
            y = n[1] / (n[1] + 2 * n[2])
            of_counts = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
            if all(0 < of_count <= k for k, of_count in enumerate(of_counts, start=1)):
                return (0.0, *of_counts)
        return 0.0, 0.5, 1.0, 1.5

    def probability(self, word, history):
        tokens = [word, *history]
        for place, token in enumerate(tokens):
            if token not in self.words | {"<s>"}:
                tokens[place] = "<unk>"
        word, *context = tokens
        skipped = max(len(context) - len(self.counts) + 1, 0)
        return self.interpolated(word, tuple(context[skipped:]))

    def interpolated(self, word, context):
        lower = self.interpolated(word, context[1:]) if context else 1 / len(self.words)
        counts = self.counts[len(context)]
        discount = self.discounts[len(context)]
        after = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == context}
        if not any(after.values()):
            return lower
        taken = sum(discount[min(count, 3)] for count in after.values())
        own = after.get(word, 0)
        return (own - discount[min(own, 3)] + taken * lower) / sum(after.values())


def random_text(seed, sentences):
    """Sentences in which each word tends to follow certain words, so that every order of n-gram
    matters."""
    rng = np.random.default_rng(seed)
    text = []
    for _ in range(sentences):
        numbers = [int(rng.zipf(1.6)) % 9]
        while len(numbers) < 9 and rng.random() < 0.85:
            habit = 3 * numbers[-1] + len(numbers)
            numbers.append((habit if rng.random() < 0.5 else int(rng.zipf(1.4))) % 9)
        text.append([f"w{number}" for number in numbers])
    return text


HISTORIES = ("", "w1", "w1 w3", "w2 w8 w1", "w1 zebra", "zebra w1", "w0 w0 w0 w0 w0 w0 w0", "w5 w4")


@pytest.mark.parametrize(
    "seed, order, sentences",
    [
        (0, 4, 120),
        (1, 3, 300),
        (2, 2, 40),
        (3, 6, 2),
        (4, 1, 50),
    ],
)
def test_probabilities_of_the_language_model_equal_those_of_the_published_formulas(
    seed, order, sentences
):
    text = random_text(seed, sentences)

    model = estimate(text, order=order)
    reference = Reference(text, order)

    discounts = [level.discounts for level in model.levels]
    for of_level, expected in zip(discounts, reference.discounts, strict=True):
        assert of_level == pytest.approx(expected[1:])
    assert sentences < 120 or FALLBACK not in discounts[1:]
    for history in map(str.split, HISTORIES):
        probabilities = model.distribution(history)
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        assert probabilities[START] == 0
        for word, probability in zip(model.words, probabilities, strict=True):
            if word != "<s>":
                expected = reference.probability(word, ["<s>", *history])
                assert probability == pytest.approx(expected, rel=1e-10), (history, word)


def test_the_training_text_has_each_passage_once_and_queries_with_their_answers():
    shared = passage("he had [Chest pain] . | [Aspirin] helped .")
    examples = [
        cloze("q1", shared, "[aspirin] against _ and [fever]", "Chest  Pain"),
        cloze("q2", shared, "_ helped", "Aspirin", "ASA"),
    ]

    assert list(training_text(examples)) == [
        ["he", "had", "@entitychest pain", "."],
        ["@entityaspirin", "helped", "."],
        ["@entityaspirin", "against", "@entitychest pain", "and", "@entityfever"],
        ["@entityaspirin", "helped"],
    ]


DRUG = cloze("a", "x", "they gave [aspirin] for _ today", "chest pain")
PATIENT = cloze("b", "x", "the _", "patient")


def test_the_likeliest_word_after_the_left_side_of_a_query_is_its_answer():
    text = "the [fever] of the patient rose"
    query = "we gave [aspirin] for _ ."
    examples = [cloze(f"t{number}", text, query, "chest pain") for number in range(3)]

    model = estimate(training_text(examples))

    assert continuations(model, [DRUG, PATIENT]) == {"a": "chest pain", "b": "fever"}
