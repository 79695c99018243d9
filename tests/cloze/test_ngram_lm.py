"""The language model against numbers worked out by hand and a small implementation of the published
formulas."""

from collections import Counter

import numpy as np
import pytest
from support.cloze import cloze, passage

from mednli_jax.cloze.ngram_lm import FALLBACK, START, continuations, estimate, training_text


class Reference:
    """Interpolated modified Kneser-Ney with dictionaries, computing one probability at a time."""

    def __init__(self, sentences, order):
        padded = [("<s>", *sentence, "</s>") for sentence in sentences]
        grams = [
            Counter(s[i : i + n] for s in padded for i in range(len(s) - n + 1))
            for n in range(1, order + 1)
        ]
        self.grams = [found for found in grams if found]
        self.words = {gram[0] for gram in self.grams[0]} - {"<s>"} | {"<unk>"}
        self.adjusted = []
        for n, found in enumerate(self.grams):
            counts = dict(found)
            if n + 1 < len(self.grams):
                for gram in found:
                    if gram[0] != "<s>":
                        counts[gram] = len(
                            {longer[0] for longer in self.grams[n + 1] if longer[1:] == gram}
                        )
            if n == 0:
                del counts[("<s>",)]
            self.adjusted.append(counts)
        self.discounts = [self.discount(counts.values()) for counts in self.adjusted]

    @staticmethod
    def discount(counts):
        n = Counter(counts)
        if n[1] and n[2] and n[3]:
            y = n[1] / (n[1] + 2 * n[2])
            found = (1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3])
            if all(0 < d <= k for d, k in zip(found, (1, 2, 3), strict=True)):
                return (0.0, *found)
        return 0.0, 0.5, 1.0, 1.5

    def p(self, word, history):
        known = [w if w in self.words or w == "<s>" else "<unk>" for w in history]
        word = word if word in self.words else "<unk>"
        return self._p(word, tuple(known[max(0, len(known) - len(self.grams) + 1) :]))

    def _p(self, word, context):
        lower = self._p(word, context[1:]) if context else 1 / len(self.words)
        counts, discount = self.adjusted[len(context)], self.discounts[len(context)]
        after = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == context}
        total = sum(after.values())
        if not total:
            return lower
        taken = sum(discount[min(count, 3)] for count in after.values())
        own = after.get(word, 0)
        return (own - discount[min(own, 3)] + taken * lower) / total


def text(seed, sentences=120, words=9):
    """Sentences in which each word tends to follow certain words, so that every order of n-gram
    matters."""
    rng = np.random.default_rng(seed)
    names = [f"w{i}" for i in range(words)]
    result = []
    for _ in range(sentences):
        sentence = [names[int(rng.zipf(1.6)) % words]]
        while len(sentence) < 9 and rng.random() < 0.85:
            habit = (3 * int(sentence[-1][1:]) + len(sentence)) % words
            sentence.append(names[habit if rng.random() < 0.5 else int(rng.zipf(1.4)) % words])
        result.append(sentence)
    return result


HISTORIES = (
    [],
    ["w1"],
    ["w1", "w3"],
    ["w2", "w8", "w1"],
    ["w1", "zebra"],
    ["zebra", "w1"],
    ["w0"] * 7,
    ["w5", "w4"],
)


@pytest.mark.parametrize(
    ("seed", "order", "sentences"), [(0, 4, 120), (1, 3, 300), (2, 2, 40), (3, 6, 2), (4, 1, 50)]
)
def test_probabilities_equal_those_of_the_formulas(seed, order, sentences):
    corpus = text(seed, sentences)
    model, reference = estimate(corpus, order=order), Reference(corpus, order)
    for level, expected in zip(model.levels, reference.discounts, strict=True):
        assert level.discounts == pytest.approx(expected[1:])
    if sentences >= 120:
        assert FALLBACK not in [level.discounts for level in model.levels[1:]]
    for history in HISTORIES:
        found = model.distribution(history)
        assert found.sum() == pytest.approx(1, abs=1e-12)
        assert found[START] == 0
        for word, probability in zip(model.words, found, strict=True):
            if word != "<s>":
                assert probability == pytest.approx(
                    reference.p(word, ("<s>", *history)), rel=1e-10
                ), (history, word)


def test_the_text_a_model_is_trained_on():
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


def test_continuations_of_queries():
    text, query = "the [fever] of the patient rose", "we gave [aspirin] for _ ."
    model = estimate(training_text([cloze(f"t{i}", text, query, "chest pain") for i in range(3)]))
    asked = [
        cloze("a", "x", "they gave [aspirin] for _ today", "chest pain"),
        cloze("b", "x", "the _", "patient"),
    ]
    assert continuations(model, asked) == {"a": "chest pain", "b": "fever"}
    model = estimate([["the", "patient"], ["the", "patient"], ["the", "@entityfever"]])
    assert continuations(model, asked[1:]) == {"b": "patient"}
    assert continuations(model, asked[1:], entities_only=True) == {"b": "fever"}
    assert continuations(estimate([["the", "patient"]]), asked, entities_only=True) == {}
