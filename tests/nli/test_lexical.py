"""PMI and lengths against cases worked out by hand and slow references; the corpora whose words the command shows."""

import json
import math
import stat
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from made_up_commands import COMMON, SECRET
from made_up_runs import check_offline

from mednli_jax.data.examples import LABELS, Mention
from mednli_jax.errors import DataError, UsageError
from mednli_jax.nli import lexical
from mednli_jax.report.metrics import holm

E, N, C = LABELS


def test_tokens_of_a_mention_are_joined():
    tokens = ("No", "acute", "Brain", "Injury", ",", "chest", "pain")
    mentions = [Mention(2, 4, "a"), Mention(5, 7, "b")]
    assert lexical.merged(tokens, mentions) == ("no", "acute", "brain_injury", ",", "chest_pain")
    assert lexical.merged(tokens, [Mention(6, 7, "c")]) == tuple(token.lower() for token in tokens)
    assert lexical.merged(tokens) == lexical.merged(tokens, ())
    assert lexical.merged((), ()) == ()


# Counts by class (E, N): a 2 0, b 1 2, c 0 1. c occurs less than twice and is left out.
SENTENCES = (("a", "a", "b"), ("b", "c"), ("b",))
LABELS_OF = (E, N, N)


def test_pmi_by_hand():
    """Smoothed by 1 the counts are a 3 1, b 2 3. The total is 9, the classes have 5 and 4, the tokens 4 and 5."""
    found = lexical.pmi(SENTENCES, LABELS_OF, ("p", "p", "q"), smoothing=1, min_count=2)
    assert (found.tokens, found.classes, found.rare) == (("a", "b"), (E, N), 1)
    assert found.counts.tolist() == [[2, 0], [1, 2]]
    assert found.examples.tolist() == [[1, 0], [1, 2]]
    assert found.premises.tolist() == [1, 2]
    assert found.pairs.tolist() == [1, 2]
    by_hand = [
        [math.log2((3 / 9) / ((4 / 9) * (5 / 9))), math.log2((1 / 9) / ((4 / 9) * (4 / 9)))],
        [math.log2((2 / 9) / ((5 / 9) * (5 / 9))), math.log2((3 / 9) / ((5 / 9) * (4 / 9)))],
    ]
    np.testing.assert_allclose(found.pmi, by_hand, rtol=1e-12)
    np.testing.assert_allclose(found.pmi[0], [math.log2(27 / 20), math.log2(9 / 16)], rtol=1e-12)


def reference(sentences, labels, smoothing, min_count):
    """{(token, class): PMI} in fractions, directly from the definition."""
    counts = Counter((t, label) for s, label in zip(sentences, labels, strict=True) for t in s)
    frequency = Counter(t for s in sentences for t in s)
    tokens, classes = [t for t in frequency if frequency[t] >= min_count], set(labels)
    table = {cell: Fraction(counts[cell] + smoothing) for cell in product(tokens, classes)}
    total = sum(table.values())
    p_token = {t: sum(table[t, c] for c in classes) / total for t in tokens}
    p_class = {c: sum(table[t, c] for t in tokens) / total for c in classes}
    return {(t, c): math.log2(table[t, c] / total / (p_token[t] * p_class[c])) for t, c in table}


def random_corpus(seed, pairs=120):
    rng = np.random.default_rng(seed)
    words = [f"w{n}" for n in range(30)]
    sentences = [tuple(rng.choice(words, rng.integers(1, 9))) for _ in range(pairs)]
    return sentences, [LABELS[n] for n in rng.integers(0, 3, pairs)], [str(n) for n in rng.integers(0, 40, pairs)]


@pytest.mark.parametrize(("smoothing", "min_count"), [(50, 5), (1, 1), (100, 20)])
def test_pmi_equals_its_definition(smoothing, min_count):
    sentences, labels, premises = random_corpus(min_count)
    found = lexical.pmi(sentences, labels, premises, smoothing=smoothing, min_count=min_count)
    expected = reference(sentences, labels, smoothing, min_count)
    cells = {(t, c): found.pmi[i, j] for i, t in enumerate(found.tokens) for j, c in enumerate(found.classes)}
    assert cells == pytest.approx(expected, abs=1e-12)


def test_top_tokens_by_hand():
    sentences = [("x", "x", "y"), ("x", "z"), ("y",), ("y", "z"), ("y", "z")]
    found = lexical.pmi(sentences, (E, E, N, N, N), "aabbc", smoothing=0, min_count=1)
    rows = lexical.top(found, 2)
    # Counts by class (E, N): x 3 0, y 1 3, z 1 2. The total is 10, 5 in each class.
    first, second = rows[E]
    assert first == {
        "token": "x", "pmi": pytest.approx(1.0), "count": 3, "examples": 2,
        "share": 1.0, "p": 3 / 5, "p_smoothed": 3 / 5, "premises": 1,
    }  # fmt: skip
    assert (second["token"], second["count"], second["share"], second["premises"]) == ("z", 1, 0.5, 3)
    assert second["pmi"] == pytest.approx(math.log2(2 / 3))
    assert [row["token"] for row in rows[N]] == ["y", "z"]
    assert [row["share"] for row in rows[N]] == [1.0, pytest.approx(2 / 3)]
    # x occurs in no neutral hypothesis, so it is never listed for that class.
    assert [row["token"] for row in lexical.top(found, 9)[N]] == ["y", "z"]


def test_shares_true_and_smoothed_by_hand():
    """x is 3 of the 5 tokens of entailment; smoothed by 2 it counts 5 of 5 + 3 x 2."""
    sentences = [("x", "x", "y"), ("x", "z"), ("y",), ("y", "z"), ("y", "z")]
    row = lexical.top(lexical.pmi(sentences, (E, E, N, N, N), "aabbc", smoothing=2, min_count=1), 1)[E][0]
    assert (row["token"], row["share"], row["p"]) == ("x", 1.0, 3 / 5)
    assert row["p_smoothed"] == pytest.approx(5 / 11)


def test_stop_words_are_dropped_as_published():
    """By scikit-learn's list and pattern, which asks for two word characters in a row; merged entities stay whole."""
    tokens = ("the", "patient", "has", "no", "history_of_cancer", ",", "x-ray", "n't", "p", ".", "not", "well")
    assert lexical.content(tokens) == ("patient", "history_of_cancer", "x-ray")
    assert lexical.content(()) == ()


def test_equal_tokens_go_by_the_alphabet():
    found = lexical.pmi([("b", "a"), ("d",)], (E, N), "pq", smoothing=1, min_count=1)
    assert [row["token"] for row in lexical.top(found)[E]] == ["a", "b"]


def test_tokens_of_few_premises_can_be_left_out():
    sentences = [("rare", "often")] * 12
    labels, premises = [E, N] * 6, [str(n % 9) for n in range(12)]
    sentences += [("often",)] * 2
    found = lexical.pmi(sentences, [*labels, E, N], [*premises, "10", "11"], min_count=1)
    assert {row["token"] for row in lexical.top(found)[E]} == {"rare", "often"}
    assert {row["token"]: row["premises"] for row in lexical.top(found)[E]} == {"rare": 9, "often": 11}
    assert {row["token"] for row in lexical.top(found, min_premises=lexical.PUBLIC_PREMISES)[E]} == {"often"}


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError):
        lexical.pmi([("a",)] * 9, [N] * 9, "p" * 9)
    for labels in ([E] * 2, []):
        with pytest.raises(DataError):
            lexical.lengths([("a",)] * len(labels), labels)
    with pytest.raises(UsageError, match="--min_count"):
        lexical.pmi([("a",)] * 4, [N, E] * 2, "pppp")


# -- lengths -----------------------------------------------------------------------------------------------------------


def sentences_of(*lengths):
    return [("w",) * length for length in lengths]


def test_lengths_by_hand():
    """The ranks are 1 2 | 3 4 | 5 6, so H = 12 / 42 (9/2 + 49/2 + 121/2) - 21."""
    found = lexical.lengths(sentences_of(1, 2, 3, 4, 5, 6), (E, E, N, N, C, C))
    assert found["classes"][N] == {"pairs": 2, "mean": 3.5, "median": 3.5, "lengths": {"3": 1, "4": 1}}
    assert found["kruskal_wallis"]["statistic"] == pytest.approx(12 / 42 * 179 / 2 - 21)
    # two degrees of freedom
    assert found["kruskal_wallis"]["p_value"] == pytest.approx(math.exp(-(12 / 42 * 179 / 2 - 21) / 2))
    assert [(pair["first"], pair["second"], pair["u"]) for pair in found["comparisons"]] == [
        (E, N, 0.0), (E, C, 0.0), (N, C, 0.0),
    ]  # fmt: skip
    # U is 2 below its mean and has the variance 2 * 2 * 5 / 12; the continuity correction is 1/2
    p = math.erfc((2 - 1 / 2) / (20 / 12) ** 0.5 / 2**0.5)
    assert [(pair["p_value"], pair["p_holm"]) for pair in found["comparisons"]] == [pytest.approx((p, 3 * p))] * 3


def test_the_longer_class_is_counted_pair_by_pair():
    rng = np.random.default_rng(1)
    lengths, labels = rng.integers(1, 6, 90), [LABELS[n % 3] for n in range(90)]
    found = lexical.lengths(sentences_of(*lengths), labels)
    of = {label: [n for n, own in zip(lengths, labels, strict=True) if own == label] for label in LABELS}
    for pair in found["comparisons"]:
        wins = [(a > b) + (a == b) / 2 for a, b in product(of[pair["first"]], of[pair["second"]])]
        assert pair["longer"] == pytest.approx(np.mean(wins))
        assert pair["u"] == pytest.approx(sum(wins))
    assert [pair["p_holm"] for pair in found["comparisons"]] == holm([p["p_value"] for p in found["comparisons"]])


def test_equal_lengths_do_not_differ():
    found = lexical.lengths(sentences_of(4, 4, 4, 4), (E, N, N, C))
    assert found["kruskal_wallis"] == {"statistic": 0.0, "p_value": 1.0}
    assert {(pair["p_value"], pair["p_holm"], pair["longer"]) for pair in found["comparisons"]} == {(1.0, 1.0, 0.5)}


# -- the command -------------------------------------------------------------------------------------------------------


def test_tokens_of_an_open_corpus_are_shown(ask, tmp_path):
    code, out, _ = ask("lexical", "--corpus=snli", "--out=o", "--top=3")
    assert code == 0
    assert "brain_injury" in out
    assert SECRET in out
    found = json.loads((tmp_path / "o" / "lexical.json").read_text())
    assert {row["token"] for row in found["top"][C]} == {"patient", SECRET}  # joint_pain occurs only four times
    assert len(found["top"][E]) == 2  # patient, brain_injury
    assert ask("lexical", "--corpus=snli", "--out=kept", "--top=3", "--stop_words")[0] == 0
    kept = json.loads((tmp_path / "kept" / "lexical.json").read_text())
    assert {row["token"] for row in kept["top"][C]} >= {"no", SECRET}
    assert len(kept["top"][E]) == 3
    assert (found["stop_words"], kept["stop_words"]) == (False, True)
    assert (tmp_path / "o" / "lexical.png").read_bytes().startswith(b"\x89PNG")
    assert SECRET in (tmp_path / "o" / "report.html").read_text()
    assert not (tmp_path / "o" / "private").exists()
    code, out, _ = ask("lexical", "--corpus=snli", "--public")
    assert code == 0
    assert COMMON in out
    assert SECRET not in out


@pytest.mark.parametrize("corpus", ["own", "own/train.jsonl"])
def test_tokens_of_a_corpus_of_ones_own_stay_private(ask, tmp_path, corpus):
    code, out, err = ask("all", f"--corpus={corpus}", "--out=o", "--min_count=1")
    assert code == 0, err
    folder = tmp_path / "o"
    assert SECRET not in out + err
    assert COMMON not in out + err
    for path in folder.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
        if path.is_file() and "private" not in path.relative_to(folder).parts:
            content = path.read_bytes()
            assert not [word for word in (SECRET, COMMON, "brain", "train-0") if word.encode() in content.lower()], path
    assert not (folder / "lexical.png").exists()
    assert SECRET in (folder / "private" / "lexical.txt").read_text()
    assert SECRET in {row["token"] for row in json.loads((folder / "private" / "lexical.json").read_text())["top"][C]}
    uids = json.loads((folder / "private" / "heuristics.json").read_text())["uids"]
    assert set(uids) == {"hypernym", "probable cause", "everything is fine"}
    for name in ("stats", "paths", "lexical", "lengths", "heuristics"):
        assert json.loads((folder / f"{name}.json").read_text())["corpus"] == "file"


def test_public_shows_what_many_premises_have(ask, tmp_path):
    code, out, _ = ask("lexical", "--corpus=own", "--out=o", "--public", "--min_count=1")
    assert code == 0
    assert COMMON in out
    assert SECRET not in out
    page = (tmp_path / "o" / "report.html").read_text()
    assert COMMON in page
    assert SECRET not in page
    found = json.loads((tmp_path / "o" / "lexical.json").read_text())
    assert min(row["premises"] for rows in found["top"].values() for row in rows) >= 10
    assert SECRET in (tmp_path / "o" / "private" / "lexical.txt").read_text()


def test_lengths_with_and_without_merging(ask):
    code, out, _ = ask("lengths", "--corpus=snli", "--json")
    assert code == 0
    found = json.loads(out)
    means = {kind: found[kind]["classes"][E]["mean"] for kind in ("separate", "merged")}
    assert means == {"separate": 4.0, "merged": 3.0}  # patient has brain injury
    assert found["separate"]["classes"][N]["mean"] == 4.0  # patient may have gout
    assert found["merged"]["classes"][N]["mean"] == 4.0


def test_a_config_without_knowledge_merges_nothing(ask):
    code, out, _ = ask("lexical", "--corpus=snli", "--config.model.knowledge=none", "--min_count=1")
    assert code == 0
    assert "brain" in out
    assert "brain_injury" not in out
    assert "takes no knowledge" in " ".join(out.split())


def test_what_one_analysis_lacks_does_not_stop_the_others(ask, tmp_path):
    code, out, err = ask("all", "--corpus=snli", "--config.model.knowledge=none", "--out=o")
    assert code == 2
    reported = [line for line in err.splitlines() if not line.startswith("written: ")]
    assert [line.partition(":")[0] for line in reported] == ["analyze paths", "analyze heuristics"]
    assert "Table 4" in out
    page = (tmp_path / "o" / "report.html").read_text()
    assert "heuristics is missing: " in page
    assert "Table 3" in page
    assert {path.stem for path in (tmp_path / "o").glob("*.json")} == {"stats", "lexical", "lengths"}
    code, _, err = ask("all", "--corpus=snli", "--config.data.dir=absent")
    assert (code, len(err.splitlines())) == (2, 1)  # the folder does not exist, and one line says so


def test_a_config_file_can_stand_in_the_place_of_a_corpus(ask, tmp_path):
    own = "from mednli_jax import defaults\n\n\ndef get_config(variant='snli'):\n    "
    (tmp_path / "own.py").write_text(own + "return defaults.nli('esim', variant, knowledge='replace')\n")
    with_file = ask("lexical", "--config=own.py", "--json")
    assert with_file[0] == 0
    assert json.loads(with_file[1])["top"] == json.loads(ask("lexical", "--corpus=snli", "--json")[1])["top"]
    code, _, err = ask("lexical", "--config=own.py", "--corpus=snli")
    assert (code, err.startswith("error: ")) == (2, True)


def test_the_page_of_all_analyses(ask, tmp_path):
    code, out, err = ask("all", "--corpus=snli", "--out=o", "--json")
    assert code == 0, err
    results = json.loads(out)
    assert set(results) >= {"stats", "paths", "lexical", "lengths", "heuristics"}
    page = check_offline((tmp_path / "o" / "report.html").read_text())
    titles = " ".join(page.words)
    for title in ("Sizes, snli", "Table 3", "Table 4", "Table 5", "Path lengths", "own 2024"):
        assert title in titles, title
    assert sum(tag == "svg" for tag, _ in page.tags) >= 4
    (command,) = [words for words in page.words if words.startswith("analyze all ")]
    assert command.split()[3:5] == ["--corpus=snli", "--out=o"]  # the flags as the user typed them
    assert "analyze.py" not in titles


def test_of_overlapping_mentions_the_first_and_longest_counts():
    tokens = ("Chronic", "heart", "failure", "now")
    mentions = [Mention(0, 3, "a"), Mention(1, 2, "b"), Mention(0, 1, "c")]
    assert lexical.merged(tokens, mentions) == ("chronic_heart_failure", "now")
