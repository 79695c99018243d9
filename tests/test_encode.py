"""Examples become the arrays they should: tokens, links, truncation, and a bar for slow work."""

from dataclasses import replace

import numpy as np
import pytest

from mednli_jax.data import encode
from mednli_jax.data.encode import SIDES, Encoding, encode_corpus, encode_links, encode_sentences
from mednli_jax.examples import LABELS, NLIExample, Split
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology, is_a_matrix
from mednli_jax.text import PAD, UNK

ENCODING = Encoding(
    lowercase=True,
    max_length=10,
    hypothesis_only=False,
    vectors_path=None,
    vectors_dim=4,
    vectors_seed=0,
    direction="either",
    max_path=0,
    max_links=8,
)

# systolic heart failure is-a heart failure is-a heart disease; asthma stands alone.
NAMES = ("heart disease", "heart failure", "systolic heart failure", "asthma")
HEART = Ontology(
    "heart",
    "1",
    ("C0", "C1", "C2", "C3"),
    NAMES,
    tuple((name, index) for index, name in enumerate(NAMES)),
    is_a_matrix([(1, 0), (2, 1)], 4),
    "0" * 64,
)
LINKER = Linker(HEART)


def pair(premise, hypothesis, label="neutral", uid="u", tags=()):
    return NLIExample(uid, premise, hypothesis, label, tuple(premise.split()), tuple(hypothesis.split()), tags=tags)


SPLITS = {
    "train": Split(
        "train",
        (
            pair("Known Asthma .", "She wheezes .", "entailment", "t0"),
            pair("qqq systolic heart failure", "has heart disease", "entailment", "t1", ("rare",)),
            pair("Chest pain", "No pain", "contradiction", "t2"),
        ),
    ),
    "dev": Split("dev", (pair("Asthma", "asthma since childhood", "neutral", "d0"),)),
    "test": Split("test", (pair("", "left early", "", "e0"), pair("Asthma", "well", "neutral", "e1", ("rare", "x")))),
}


def words_of(numbers, vocab):
    return [vocab.words[number] for number in numbers]


# ---- sentences ----


def test_tokens_become_numbers_and_back():
    arrays, vocab, vectors, facts = encode_corpus(SPLITS, None, ENCODING)
    assert words_of(arrays["premise"][0], vocab) == ["known", "asthma", ".", "<pad>"]
    assert words_of(arrays["hypothesis"][1], vocab) == ["has", "heart", "disease"]
    assert arrays["premise_length"].tolist() == [3, 4, 2, 1, 0, 1]
    assert arrays["hypothesis_length"].tolist() == [3, 3, 2, 3, 2, 1]
    for side in SIDES:
        beyond = np.arange(arrays[side].shape[1]) >= arrays[f"{side}_length"][:, None]
        assert ((arrays[side] == PAD) == beyond).all()
    labels = [LABELS[number] if number >= 0 else "" for number in arrays["label"]]
    assert labels == [e.label for split in SPLITS.values() for e in split.examples]
    assert len(vectors) == len(vocab)
    assert {name: (s["first"], s["rows"]) for name, s in facts["splits"].items()} == {
        "train": (0, 3),
        "dev": (3, 1),
        "test": (4, 2),
    }


def test_case_is_kept_unless_lowered():
    def premise(lowercase):
        arrays, vocab, _, _ = encode_corpus(SPLITS, None, replace(ENCODING, lowercase=lowercase))
        return words_of(arrays["premise"][0][:2], vocab), words_of(arrays["hypothesis"][3][:1], vocab)

    assert premise(True) == (["known", "asthma"], ["asthma"])
    assert premise(False) == (["Known", "Asthma"], ["asthma"])


def test_truncation_keeps_the_head_and_is_counted():
    arrays, vocab, _, facts = encode_corpus(SPLITS, None, replace(ENCODING, max_length=2))
    assert words_of(arrays["premise"][0], vocab) == ["known", "asthma"]
    assert words_of(arrays["hypothesis"][1], vocab) == ["has", "heart"]
    assert max(arrays["premise_length"].max(), arrays["hypothesis_length"].max()) == 2
    assert facts["truncated"] == {"premise": 2, "hypothesis": 3}
    assert "disease" not in vocab


@pytest.fixture
def few_vectors(tmp_path):
    """A vectors file that lacks most words, "qqq" and "systolic" among them."""
    known = {"heart": 1.0, "failure": 2.0, "disease": 3.0, "asthma": 4.0, "has": 5.0}
    path = tmp_path / "few.txt"
    path.write_text("".join(f"{word} {value} 0 0 1\n" for word, value in known.items()))
    return path


def test_unknown_words_become_unk_and_keep_their_place(few_vectors):
    arrays, vocab, vectors, facts = encode_corpus(SPLITS, LINKER, replace(ENCODING, vectors_path=few_vectors))
    assert words_of(arrays["premise"][1], vocab) == ["<unk>", "<unk>", "heart", "failure"]
    assert arrays["premise_length"].tolist() == [3, 4, 2, 1, 0, 1]  # as without a vectors file: nothing is deleted
    assert [float(vectors[vocab.encode([word])[0], 0]) for word in ("heart", "asthma")] == [1.0, 4.0]
    assert not vectors[PAD].any()
    assert vectors[UNK].any()
    assert facts["unknown_tokens"] == {side: int((arrays[side] == UNK).sum()) for side in SIDES}
    assert facts["vocabulary"]["with_vector"] == len(vocab) - 2 == 5
    # The concept of row 1 stands at tokens 1 to 3, with or without vectors for its words.
    links = links_of(arrays, 1)
    assert {premise for premise, _, _ in links} == {1, 2, 3}


def test_new_sentences_are_encoded_as_the_corpus_was():
    arrays, vocab, _, _ = encode_corpus(SPLITS, None, ENCODING)
    again = encode_sentences(SPLITS["train"].examples, vocab, ENCODING, width={"premise": 6, "hypothesis": 5})
    assert (again["premise"].shape, again["hypothesis"].shape) == ((3, 6), (3, 5))
    for side in SIDES:
        width = arrays[side].shape[1]
        np.testing.assert_array_equal(again[side][:, :width], arrays[side][:3])
        assert not again[side][:, width:].any()
        np.testing.assert_array_equal(again[f"{side}_length"], arrays[f"{side}_length"][:3])
    unknown = encode_sentences([pair("Known unheard .", "<pad>")], vocab, ENCODING)
    assert words_of(unknown["premise"][0], vocab) == ["known", "<unk>", "."]
    assert unknown["hypothesis"].tolist() == [[UNK]]  # text cannot spell padding


def test_hypothesis_only_leaves_premises_empty():
    arrays, vocab, _, facts = encode_corpus(SPLITS, LINKER, replace(ENCODING, hypothesis_only=True))
    assert not arrays["premise_length"].any()
    assert (arrays["premise"] == PAD).all()
    assert arrays["premise"].shape[1] >= 1
    assert arrays["hypothesis_length"].tolist() == [3, 3, 2, 3, 2, 1]
    assert "qqq" not in vocab  # nor do words of premises reach the vocabulary
    assert (arrays["link_distance"] == -1).all()
    assert facts["knowledge"]["links"] == 0


# ---- links ----


def links_of(arrays, row):
    filled = arrays["link_distance"][row] >= 0
    fields = (arrays[name][row][filled].tolist() for name in ("link_premise", "link_hypothesis", "link_distance"))
    return sorted(zip(*fields, strict=True))


def test_links_by_hand():
    examples = [
        pair("Admitted with Systolic Heart Failure and asthma", "Has heart disease , no asthma"),
        pair("nothing to link", "asthma"),
        pair("heart failure", "heart failure"),
    ]
    arrays, facts = encode_links(examples, LINKER, replace(ENCODING, max_links=16))
    # Two steps up from systolic heart failure (tokens 2-4) to heart disease (tokens 1-2); asthma (6) is asthma (5).
    expected = [(i, j, 2) for i in (2, 3, 4) for j in (1, 2)] + [(6, 5, 0)]
    assert links_of(arrays, 0) == sorted(expected)
    assert links_of(arrays, 1) == []
    assert links_of(arrays, 2) == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert arrays["link_distance"].shape[1] == 7  # no wider than the fullest pair
    assert (facts["longest_path"], facts["links"], facts["pairs_with_links"]) == (2, 11, 2)
    assert facts["links_per_length"] == {"0": 5, "2": 6}
    assert facts["dropped_links"] == 0


def test_links_are_aligned_with_the_tokens():
    """Whatever is linked, the tokens there spell the concept: also with lower case and after words without vectors."""
    arrays, vocab, _, _ = encode_corpus(SPLITS, LINKER, ENCODING)
    named = {}
    for row in range(len(arrays["label"])):
        for i, j, distance in links_of(arrays, row):
            assert i < arrays["premise_length"][row]
            assert j < arrays["hypothesis_length"][row]
            words = (words_of(arrays["premise"][row], vocab)[i], words_of(arrays["hypothesis"][row], vocab)[j])
            named.setdefault((row, distance), set()).add(words)
    heart = {(a, b) for a in ("systolic", "heart", "failure") for b in ("heart", "disease")}
    assert named == {(1, 2): heart, (3, 0): {("asthma", "asthma")}}


def test_a_name_cut_by_truncation_is_not_linked():
    arrays, _ = encode_links([pair("a b heart failure", "heart disease")], LINKER, replace(ENCODING, max_length=3))
    assert links_of(arrays, 0) == []
    whole, _ = encode_links([pair("a b heart failure", "heart disease")], LINKER, ENCODING)
    assert links_of(whole, 0) == [(2, 0, 1), (2, 1, 1), (3, 0, 1), (3, 1, 1)]


def test_the_head_of_a_cut_name_is_not_taken_for_another_name():
    """Cut after "heart", "systolic heart failure" is no other concept; nor does what stands past the cut count."""
    heart = Ontology("h", "1", ("C0", "C1"), ("heart", "heart failure"), (), is_a_matrix([(1, 0)], 2), "0" * 64)
    long = pair("known heart failure heart", "heart failure")
    arrays, facts = encode_links([long], Linker(heart), replace(ENCODING, max_length=2))
    assert links_of(arrays, 0) == []
    assert facts["longest_path"] == 0
    arrays, facts = encode_links([long], Linker(heart), replace(ENCODING, max_length=3))
    assert links_of(arrays, 0) == [(1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)]
    assert facts["longest_path"] == 0  # the last word, "heart", would be one step from the hypothesis
    _, facts = encode_links([long], Linker(heart), ENCODING)
    assert facts["longest_path"] == 1


def test_too_many_links_keep_the_shortest_and_count_the_rest():
    example = pair("heart failure asthma", "asthma heart disease")
    arrays, facts = encode_links([example], LINKER, replace(ENCODING, max_links=2))
    assert links_of(arrays, 0) == [(0, 1, 1), (2, 0, 0)]
    assert facts["dropped_links"] == 3


# ---- progress ----


class Terminal:
    """Stands for stderr."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


@pytest.mark.parametrize(("seconds", "shown"), [(0.5, False), (9.0, True)])
def test_only_slow_work_shows_a_bar(monkeypatch, seconds, shown):
    """Two passes over 2,000 pairs that take so many seconds; the items come through whole and in order either way."""
    clock, told = iter(np.linspace(0, seconds, 20)), []
    monkeypatch.setattr(encode.time, "monotonic", lambda: float(next(clock)))

    class Bar:
        def __init__(self, title, total, *, unit):
            self.total, self.done = total, 0

        def __enter__(self):
            told.append(self.done)

        def __exit__(self, *_):
            told.append("ended")

        def advance(self, count, note):
            self.done += count
            told.append(note) if note not in told else None
            assert self.done <= self.total

    monkeypatch.setattr(encode, "Bar", Bar)
    with encode.Watch(4000) as watch:
        assert list(watch(range(2000), "numbers")) == list(range(2000))
        assert list(watch(range(2000), "links")) == list(range(2000))
        assert watch._bar.done == 4000
    if shown:
        begun = next(item for item in told if isinstance(item, int))
        assert 0 < begun < 1500  # what was done before the bar appeared is counted
        assert told == ["numbers", begun, "links", "ended"]
    else:
        assert told == ["numbers", "links"]


def test_time_before_the_encoding_counts_as_waiting(monkeypatch):
    """Reading took long: the bar appears with the first pairs."""
    from mednli_jax import progress

    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    encode_corpus(SPLITS, LINKER, ENCODING)
    assert terminal.text == ""
    encode_corpus(SPLITS, LINKER, ENCODING, encode.time.monotonic() - 10)
    assert "preparing" in terminal.text
    assert "30/30" in terminal.text  # 6 pairs: vocabulary, words of two sides, concepts of two sides
    assert "ETA" in terminal.text
    assert "concepts of hypotheses" in terminal.text


def test_slow_work_is_quiet_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(encode, "_STRIDE", 1)
    encode_corpus(SPLITS, LINKER, ENCODING, encode.time.monotonic() - 10)
    assert capsys.readouterr() == ("", "")
