"""The demo cloze corpus resembles CliCR, and its queries are answered by reading alone.

test_prepared_content.py pins the queries by a hash.
"""

import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from mednli_jax.answers import exact_match
from mednli_jax.corpora.cloze.query_builder import repeats_passage
from mednli_jax.corpora.cloze.views import candidates, gold_candidate, seen_answers
from mednli_jax.corpora.demo.cloze import SIZES, Terms, load_demo_cloze
from mednli_jax.corpora.demo.words import concept_named, table
from mednli_jax.examples import PLACEHOLDER
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import permuted
from mednli_jax.knowledge.readers.mesh import read_mesh

WORDS, NAMES = table("cloze_words"), table("cloze_names")
CIRCUMSTANCES = [value for values in WORDS["circumstances"].values() for value in values]


@pytest.fixture(scope="module")
def linker():
    return Linker(read_mesh())


@pytest.fixture(scope="module")
def splits(linker):
    return load_demo_cloze(linker=linker)


@pytest.fixture(scope="module")
def examples(splits):
    return [example for split in splits.values() for example in split.examples]


@pytest.fixture(scope="module")
def passages(examples):
    return list({example.passage.uid: example.passage for example in examples}.values())


def phrases(tokens, entities):
    return [" ".join(tokens[entity.start : entity.end]).lower() for entity in entities]


def sentences(passage):
    """(lower-cased tokens, marked phrases) of each sentence."""
    for start, end in zip((0, *passage.sentences), passage.sentences, strict=False):
        inside = [entity for entity in passage.entities if start <= entity.start < end]
        yield [token.lower() for token in passage.tokens[start:end]], phrases(passage.tokens, inside)


def score(examples, answer):
    """Exact match of `answer(example)` in per cent."""
    return 100 * np.mean([exact_match(answer(e), [given.text for given in e.answers]) for e in examples])


# ---- Shape ---------------------------------------------------------------------------------------------------------


def test_sizes(splits, passages):
    assert {name: len(split) for name, split in splits.items()} == {"train": 1400, "dev": 300, "test": 300}
    assert len(passages) == sum(SIZES.values())
    for split in splits.values():
        assert split.facts["rows"] == len(split)
        assert "not comparable" in split.facts["note"]
    assert len({example.uid for split in splits.values() for example in split.examples}) == 2000
    for split in splits.values():  # all queries of a report share one passage object
        assert len({id(example.passage) for example in split.examples}) == split.facts["passages"]


def test_passages_have_the_shape_of_reports(passages):
    for passage in passages:
        assert 200 <= len(passage.tokens) <= 600, passage.uid
        assert passage.sentences[-1] == len(passage.tokens)
        assert all(passage.tokens[end - 1] == "." for end in passage.sentences)
        assert all(passage.tokens[start][0].isupper() for start in (0, *passage.sentences[:-1])), passage.uid
        ends = [0, *(entity.end for entity in passage.entities)]
        assert all(end <= e.start < e.end for e, end in zip(passage.entities, ends, strict=False))
        assert passage.specialty
        assert passage.title
    assert len({passage.specialty for passage in passages}) >= 15


def test_queries_have_one_blank_and_an_answer_among_ten_candidates(examples):
    for example in examples:
        assert [place for place, token in enumerate(example.query) if token == PLACEHOLDER] == [example.blank]
        found = candidates(example)
        assert len(found) >= 10
        assert gold_candidate(example, {phrase: number for number, phrase in enumerate(found)}) >= 0, example.uid
        assert example.tags in (("name",), ("circumstance",))
        asked = " ".join(example.query).lower()
        assert not any(f" {answer.text.lower()} " in f" {asked} " for answer in example.answers), example.uid


def test_answers_are_names_of_one_mesh_concept(linker, examples):
    ontology = linker.ontology
    names = defaultdict(set)
    for name, index in ontology.names:
        names[ontology.ids[index]].add(name.lower())
    kinds = Counter()
    for example in examples:
        first, *others = example.answers
        assert first.origin == "dataset"
        assert {other.origin for other in others} <= {"UMLS"}
        assert len({(answer.concept, answer.semantic_type) for answer in example.answers}) == 1
        texts = [answer.text.lower() for answer in example.answers]
        assert len(texts) == len(set(texts))
        assert names[first.concept] <= set(texts)
        kinds[first.semantic_type] += 1
    shares = {kind: count / len(examples) for kind, count in kinds.items()}
    assert set(shares) == {"problem", "treatment", "test"}
    assert shares["problem"] > shares["treatment"] > shares["test"] > 0.08  # the order in CliCR


def test_names_in_a_passage_are_of_different_concepts(linker, passages):
    for passage in passages:
        words = [set(phrase.split()) for phrase in {*phrases(passage.tokens, passage.entities)}]
        for one in words:
            assert sum(one <= other for other in words) == 1, passage.uid


def test_every_name_in_the_tables_is_one_of_mesh(linker):
    terms = Terms(linker)
    assert len(terms.diseases) == len(terms.conditions) + len(NAMES["further_diseases"])
    for specialty, row in NAMES["specialties"].items():
        assert len(terms.tests[specialty]) == len(row["tests"]) + len(NAMES["general_tests"]), specialty
    known = {term.names[0]: term for term in known_terms(linker)}
    assert known.keys() >= {name for names in NAMES["only_of"].values() for name in names}
    for name, others in NAMES["other_names"].items():
        assert {concept_named(linker, other) for other in others} == {known[name].concept}, name


def test_nothing_else_is_a_name(linker):
    """No word outside the slots links to a concept, so no candidate occurs unmarked in a passage."""

    def texts(value):
        inner = value.values() if isinstance(value, dict) else value
        return [value] if isinstance(value, str) else [text for one in inner for text in texts(one)]

    told = texts({name: value for name, value in WORDS.items() if name != "about"})
    assert [text for text in told if linker.link(re.sub(r"\{\w+\}", "|", text).lower().split())] == []


def test_patients_have_what_their_sex_can_have(passages):
    sexes, sex_of = Counter(), {name: sex for sex, names in NAMES["only_of"].items() for name in names}
    for passage in passages:
        (sex,) = {"man", "woman"} & {*passage.tokens[:15]}
        sexes[sex] += 1
        for phrase in phrases(passage.tokens, passage.entities):
            assert sex_of.get(phrase, sex) == sex, passage.uid
    assert min(sexes.values()) > len(passages) / 3


def test_another_ontology_is_refused(linker):
    with pytest.raises(ValueError, match="MeSH"):
        load_demo_cloze(linker=Linker(permuted(linker.ontology, 1)))


# ---- The answer is there to be read --------------------------------------------------------------------------------


def anchors(example):
    """The names in the query or, if it has none, its words that are circumstances."""
    names = phrases(example.query, example.query_entities)
    values = {value.lower() for value in CIRCUMSTANCES}
    return names or [token.lower() for token in example.query if token.lower() in values]


def test_the_fact_is_told_within_two_sentences(examples):
    for example in examples:
        (anchor,) = anchors(example)
        answers = {answer.text.lower() for answer in example.answers}
        told = [(f" {' '.join(tokens)} ", names) for tokens, names in sentences(example.passage)]
        found = False
        for one, other in zip(told, [*told[1:], ("", [])], strict=True):
            text, names = one[0] + other[0], {*one[1], *other[1]}
            found |= f" {anchor} " in text and not answers.isdisjoint(names)
        assert found, example.uid


def test_a_circumstance_is_told_once(examples):
    for example in examples:
        if example.tags == ("circumstance",):
            (anchor,) = anchors(example)
            assert [token.lower() for token in example.passage.tokens].count(anchor) == 1, example.uid


def test_names_of_the_same_kind_compete(linker, splits):
    """Near the name in a query stand several names of the answer's kind; the words of the query decide between them."""
    kind_of = {name: term.kind for term in known_terms(linker) for name in term.names}
    asked = [example for example in splits["test"].examples if "name" in example.tags]
    competing = 0
    for example in asked:
        (anchor,) = anchors(example)
        answers = {answer.text.lower() for answer in example.answers}
        near = {name for _, names in sentences(example.passage) if anchor in names for name in names}
        competing += example.answers[0].semantic_type in {kind_of[name] for name in near - answers - {anchor}}
    assert len(asked) > len(splits["test"]) / 2
    assert competing / len(asked) > 1 / 2


def known_terms(linker):
    terms = Terms(linker)
    told = [term for one in terms.conditions for term in (*one["symptoms"], *one["treatments"])]
    return [*terms.diseases, *told, *(term for tests in terms.tests.values() for term in tests)]


def test_no_query_repeats_its_passage(examples):
    for example in examples:
        text = f" {' '.join(example.passage.tokens).lower()} "
        assert not repeats_passage(example.query, example.blank, text), example.uid


# ---- and nothing else gives it away --------------------------------------------------------------------------------


def mentions(example):
    return Counter(phrases(example.passage.tokens, example.passage.entities))


def most_frequent(example):
    return mentions(example).most_common(1)[0][0]


def most_frequent_not_in_query(example):
    query = f" {' '.join(example.query).lower()} "
    return next(name for name, _ in mentions(example).most_common() if f" {name} " not in query)


def test_frequency_and_place_do_not_tell_the_answer(splits):
    test = splits["test"].examples
    assert score(test, most_frequent) <= 20
    assert score(test, most_frequent_not_in_query) <= 20
    assert score(test, lambda example: candidates(example)[0]) <= 15
    assert score(test, lambda example: candidates(example)[-1]) <= 15
    expected = [mentions(e)[candidates(e)[gold_of(e)]] / len(e.passage.entities) for e in test]
    assert 100 * np.mean(expected) <= 10  # the share of correct mentions if one is drawn at random


def gold_of(example):
    return gold_candidate(example, {phrase: number for number, phrase in enumerate(candidates(example))})


def test_answers_are_mentioned_as_often_as_other_names(examples):
    of_answers, of_all = [], []
    for example in examples:
        counts = mentions(example)
        of_answers.append(counts[candidates(example)[gold_of(example)]])
        of_all.append(np.mean(list(counts.values())))
    error = np.std(of_answers) / np.sqrt(len(of_answers))
    assert abs(np.mean(of_answers) - np.mean(of_all)) < 4 * error
    spread = [max(mentions(example).values()) for example in examples]
    assert np.mean(of_all) < 3
    assert np.mean(spread) >= 4  # some names are mentioned more often


def test_the_words_before_the_blank_do_not_tell_the_answer(splits):
    """The guess is the most frequent training answer after the 3 words left of the blank, or after fewer of them."""
    counts = defaultdict(Counter)
    for example in splits["train"].examples:
        for words in left_contexts(example):
            counts[words][example.answers[0].text] += 1

    def predict(example):
        return next(counts[words].most_common(1)[0][0] for words in left_contexts(example) if words in counts)

    assert score(splits["test"].examples, predict) <= 20


def left_contexts(example):
    words = tuple(token.lower() for token in example.query[: example.blank])[-3:]
    return [words[start:] for start in range(len(words) + 1)]


def test_memory_of_training_answers_does_not_tell_the_answer(splits):
    """The guess is the candidate that most often answers training queries with the same names."""
    counts = defaultdict(Counter)
    for example in splits["train"].examples:
        for name in phrases(example.query, example.query_entities):
            counts[name][example.answers[0].text.lower()] += 1

    def predict(example):
        known = sum((counts[name] for name in phrases(example.query, example.query_entities)), Counter())
        here = [name for name, _ in known.most_common() if name in candidates(example)]
        return here[0] if here else most_frequent(example)

    assert score(splits["test"].examples, predict) <= 20


def test_a_third_of_the_answers_is_unseen(splits):
    seen = seen_answers(splits["train"])
    for name in ("dev", "test"):
        unseen = np.mean([example.answers[0].text.lower() not in seen for example in splits[name].examples])
        assert 0.2 < unseen < 0.45
