"""Tokens, lengths and heuristics against cases worked out by hand and slow references; whose words
are shown."""

import json
import math
import stat
from dataclasses import asdict, replace

import pytest
from support.commands import call_command
from support.ontologies import is_a_matrix
from support.pages import check_offline
from support.pair_files import COMMON, SECRET, write_shared_premises
from support.pairs import pair

from mednli_jax import analyze
from mednli_jax.artifacts import heuristics, hypotheses, plug
from mednli_jax.artifacts.heuristics import CAUSE, FINE, HYPERNYM
from mednli_jax.cli import read_config
from mednli_jax.data.examples import LABELS, Mention
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import read_mesh

E, N, C = LABELS
MESH = "id\tname\ttree_numbers\tsynonyms\nD1\tBrain Injury\tC10.100\t\nD2\tGout\tC05.100\t\nD3\tJoint Pain\tC05\t\n"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Runs the command on made-up corpora, in which three words tell the label, and a small
    ontology: (exit code, stdout, stderr)."""
    (tmp_path / "own.tsv").write_text(MESH)
    for split in ("train", "dev", "test"):
        if split != "test":
            write_shared_premises(tmp_path / "own" / f"{split}.jsonl")
        write_shared_premises(tmp_path / "snli" / f"snli_1.0_{split}.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))
    others = {name: analysis for name, analysis in plug.PART.analyses.items() if name != "aflite"}
    monkeypatch.setattr(plug.PART, "analyses", others)  # the filtering has tests of its own

    def call(name, *flags):
        return call_command(analyze, name, "--config.knowledge.ontology=own.tsv", *flags, words=1)

    return call


def test_tokens_by_hand():
    """Counts by class (E, N): x 3 0, y 1 3, z 1 2. The total is 10, 5 in each class. w is too
    rare."""
    sentences = [("x", "x", "y"), ("x", "z"), ("y", "w"), ("y", "z"), ("y", "z")]
    given = sentences, (E, E, N, N, N), "aabbc"
    rows, facts = hypotheses.token_rows(*given, smoothing=0, min_count=2)
    assert facts == {
        "tokens": 3,
        "rare_tokens": 1,
        "tokens_of_few_premises": 3,
        "pairs": {E: 2, N: 3},
    }
    first, second, _ = rows[E]
    assert vars(first) == {
        "token": "x", "pmi": pytest.approx(1.0), "count": 3, "examples": 2,
        "share": 1.0, "p": 3 / 5, "p_smoothed": 3 / 5, "premises": 1,
    }  # fmt: skip
    assert (second.token, second.count, second.share, second.premises) == (
        "z",
        1,
        0.5,
        3,
    )
    assert second.pmi == pytest.approx(math.log2(2 / 3))
    # x occurs in no neutral hypothesis, so it is never listed for that class.
    assert [(row.token, row.share) for row in rows[N]] == [
        ("y", 1.0),
        ("z", pytest.approx(2 / 3)),
    ]
    smoothed = hypotheses.token_rows(*given, smoothing=2, min_count=2)[0][E][0]
    assert (smoothed.p, smoothed.p_smoothed) == (3 / 5, pytest.approx(5 / 11))
    assert smoothed.pmi == pytest.approx(math.log2((5 / 22) / (7 / 22 * 11 / 22)))


def test_stop_words_are_dropped_as_published():
    """By scikit-learn's list and pattern, which asks for two word characters in a row; merged
    entities stay whole."""
    tokens = (
        "the",
        "patient",
        "has",
        "no",
        "history_of_cancer",
        ",",
        "x-ray",
        "n't",
        "p",
        ".",
        "not",
        "well",
    )
    assert hypotheses.content(tokens) == ("patient", "history_of_cancer", "x-ray")


def test_classes_that_cannot_be_compared_are_refused():
    for labels in ([N] * 9, []):
        with pytest.raises(DataError):
            hypotheses.classes_of(labels)
    with pytest.raises(UsageError, match="--min_count"):
        hypotheses.token_rows([("a",)] * 4, [N, E] * 2, "pppp")


def lengths_of(lengths, labels):
    return asdict(hypotheses.lengths([("w",) * length for length in lengths], labels))


def test_lengths_by_hand():
    """The ranks are 1 2 | 3 4 | 5 6, so H = 12 / 42 (9/2 + 49/2 + 121/2) - 21."""
    found = lengths_of((1, 2, 3, 4, 5, 6), (E, E, N, N, C, C))
    assert found["classes"][N] == {
        "pairs": 2,
        "mean": 3.5,
        "median": 3.5,
        "lengths": {"3": 1, "4": 1},
    }
    assert found["kruskal_wallis"]["statistic"] == pytest.approx(12 / 42 * 179 / 2 - 21)
    # two degrees of freedom
    assert found["kruskal_wallis"]["p_value"] == pytest.approx(
        math.exp(-(12 / 42 * 179 / 2 - 21) / 2)
    )
    # U is 2 below its mean and has the variance 2 * 2 * 5 / 12; the continuity correction is 1/2
    p = math.erfc((2 - 1 / 2) / (20 / 12) ** 0.5 / 2**0.5)
    of = [
        (pair["p_value"], pair["p_holm"], pair["u"], pair["longer"])
        for pair in found["comparisons"]
    ]
    assert of == [pytest.approx((p, 3 * p, 0, 0))] * 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("given", "labels", "equal"),
    [
        ((4, 4, 4, 4, 4), (E, E, N, N, C), 3),
        ((4, 4, 4, 4, 7), (E, E, N, N, C), 1),
        ((4, 4), (E, N), 1),
        ((4, 5), (E, N), 0),
    ],
)
def test_classes_of_equal_lengths_do_not_differ(given, labels, equal):
    """Constant and single lengths have a p-value of 1 where they are equal, and none is nan."""
    found = lengths_of(given, labels)
    json.dumps(found, allow_nan=False)
    same = [of for of in found["comparisons"] if of["longer"] == 0.5]
    assert [(of["p_value"], of["p_holm"]) for of in same] == [(1.0, 1.0)] * equal
    assert (found["kruskal_wallis"] == {"statistic": 0.0, "p_value": 1.0}) == (len(set(given)) == 1)


ROWS = (
    ("D004700", "Endocrine System Diseases", "C19"),
    ("D003920", "Diabetes Mellitus", "C19.246|C18.452.394.750"),
    ("D000230", "Acromegaly", "C19.700"),
    ("D008659", "Metabolic Diseases", "C18.452"),
    ("D000818", "Animals", "B01.050"),
    ("D006321", "Heart", "A07.541"),
    ("D012907", "Smoking", "F01.145.805"),
    ("D000073865", "Cigarette Smoking", "F01.145.805.375.750"),
    ("D019966", "Substance-Related Disorders", "C25.775|F03.900"),
    ("D010361", "Patients", "M01.643"),
)
ID = {name: concept for concept, name, _ in ROWS}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    path = tmp_path_factory.mktemp("mesh") / "some.tsv"
    path.write_text(MESH.partition("D1")[0] + "".join("\t".join((*row, "\n")) for row in ROWS))
    return read_mesh(path)


def mentions(*names):
    return [Mention(n, n + 1, ID.get(name, name)) for n, name in enumerate(names)]


def satisfied(ontology, premise, hypothesis, words="x y z"):
    """The names of the heuristics that one pair satisfies; its mentions lie on the first tokens of
    each side."""
    rows = heuristics.satisfied(
        [pair("p", words)], [mentions(*premise)], [mentions(*hypothesis)], ontology
    )
    return {name for name, found in rows.items() if found}


@pytest.mark.parametrize(
    ("name", "premise", "hypothesis", "words", "holds"),
    [
        # the hypothesis is more general; the example in the paper
        (HYPERNYM, ["Diabetes Mellitus"], ["Endocrine System Diseases"], "x", True),
        (HYPERNYM, ["Endocrine System Diseases"], ["Diabetes Mellitus"], "x", False),
        # its second tree number lies below, although the number between the two is missing
        (HYPERNYM, ["Diabetes Mellitus"], ["Metabolic Diseases"], "x", True),
        (HYPERNYM, ["Heart", "Acromegaly"], ["Animals", "Endocrine System Diseases"], "x", True),
        (HYPERNYM, ["not there"], ["Endocrine System Diseases"], "x", False),
        # the hypothesis has a cause
        (CAUSE, ["Acromegaly"], ["Cigarette Smoking"], "x", True),
        (
            CAUSE,
            ["Smoking"],
            ["Substance-Related Disorders"],
            "x",
            True,
        ),  # branch F is a kind of premise, too
        (CAUSE, ["Acromegaly"], ["Diabetes Mellitus"], "x", False),
        (CAUSE, ["Heart"], ["Smoking"], "x", False),  # no cause is listed for anatomy
        # the hypothesis repeats a concept and affirms health
        (FINE, ["Acromegaly"], ["Acromegaly"], "acromegaly Denied", True),
        (FINE, ["Acromegaly"], ["Acromegaly"], "heart is healthy", True),
        (
            FINE,
            ["Acromegaly"],
            ["Heart"],
            "heart is normal",
            False,
        ),  # the two concepts are unrelated
        (FINE, ["Patients"], ["Patients"], "patient is normal", False),
        (FINE, ["Patients", "Heart"], ["Patients", "Heart"], "patient heart normal", True),
        (
            FINE,
            ["Heart"],
            ["Heart"],
            "normal is the heart",
            False,
        ),  # here a concept holds the first word
    ],
)
def test_heuristics_of_a_pair(mesh, name, premise, hypothesis, words, holds):
    assert (name in satisfied(mesh, premise, hypothesis, words)) == holds


# c2 is-a c1 is-a c0; c3 stands alone. No concept has a tree number.
CHAIN = Ontology(
    "chain",
    "1",
    ("c0", "c1", "c2", "c3"),
    ("zero", "one", "two", "Patient"),
    (),
    is_a_matrix([(1, 0), (2, 1)], 4),
    "",
)


def test_any_ontology_has_hypernyms_but_not_causes():
    assert satisfied(CHAIN, ["c2"], ["c0"]) == {HYPERNYM}
    assert satisfied(CHAIN, ["c0"], ["c2"]) == set()
    assert satisfied(CHAIN, ["c2"], ["c2"], "x no z") == {FINE}
    assert (
        satisfied(CHAIN, ["c3"], ["c3"], "x no z") == set()
    )  # c3 is the patient, which no heuristic counts
    # concepts of SNOMED CT have such references
    cuis = replace(CHAIN, cross_references=(("CUI", 2), ("CUI", 3), ("above", 0)))
    assert satisfied(cuis, ["CUI"], ["above"]) == {HYPERNYM}
    assert satisfied(cuis, ["above"], ["CUI"]) == set()
    assert satisfied(cuis, ["CUI"], ["c2"], "x no z") == {FINE}
    assert heuristics.satisfied([], [], [], CHAIN) == {HYPERNYM: [], FINE: []}


def test_chi_square_by_hand():
    """Counts 6, 3 and 0 where 3 each are expected: (9 + 0 + 9) / 3 = 6; with two degrees of freedom
    p = exp(-3)."""
    labels = [E] * 6 + [N] * 3 + [C] * 9
    found = heuristics.spread({HYPERNYM: list(range(9)), FINE: []}, labels)
    assert vars(found[HYPERNYM]) == {
        "pairs": 9, "labels": {E: 6, N: 3, C: 0}, "top": E, "share": pytest.approx(2 / 3),
        "chi_square": pytest.approx(6.0), "p_value": pytest.approx(math.exp(-3)),
    }  # fmt: skip
    nothing = {"chi_square": None, "p_value": None, "top": None, "share": None}
    assert vars(found[FINE]) == {"pairs": 0, "labels": {E: 0, N: 0, C: 0}, **nothing}


def test_tokens_of_an_open_corpus_are_shown(ask, tmp_path):
    code, out, _ = ask("lexical", "--corpus=snli", "--out=o", "--top=3")
    assert code == 0
    assert "brain_injury" in out
    assert SECRET in out
    found = json.loads((tmp_path / "o" / "lexical.json").read_text())
    assert {row["token"] for row in found["top"][C]} == {
        "patient",
        SECRET,
    }  # joint_pain occurs only four times
    assert len(found["top"][E]) == 2  # patient, brain_injury
    kept = json.loads(ask("lexical", "--corpus=snli", "--top=3", "--stop_words", "--json")[1])
    assert {row["token"] for row in kept["top"][C]} >= {"no", SECRET}
    assert len(kept["top"][E]) == 3
    assert (found["stop_words"], kept["stop_words"]) == (False, True)
    assert SECRET in (tmp_path / "o" / "report.html").read_text()
    assert not (tmp_path / "o" / "private").exists()


@pytest.mark.parametrize("corpus", ["own", "own/train.jsonl"])
def test_tokens_of_a_corpus_of_ones_own_stay_private(ask, tmp_path, corpus):
    code, out, err = ask("all", f"--corpus={corpus}", "--out=o", "--min_count=1")
    assert code == 0, err
    folder = tmp_path / "o"
    assert SECRET not in out + err
    assert COMMON not in out + err
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        if path.is_file() and "private" not in path.relative_to(folder).parts:
            content = path.read_bytes().lower()
            assert not [
                word for word in (SECRET, COMMON, "brain", "train-0") if word.encode() in content
            ], path
    assert SECRET in (folder / "private" / "lexical.txt").read_text()
    assert SECRET in {
        row["token"]
        for row in json.loads((folder / "private" / "lexical.json").read_text())["top"][C]
    }
    uids = json.loads((folder / "private" / "heuristics.json").read_text())["uids"]
    assert set(uids) == {HYPERNYM, CAUSE, FINE}
    assert {json.loads(path.read_text())["corpus"] for path in folder.glob("*.json")} == {"file"}


def test_public_shows_tokens_that_many_premises_have(ask, tmp_path):
    code, out, _ = ask("lexical", "--corpus=own", "--out=o", "--public", "--min_count=1")
    page = (tmp_path / "o" / "report.html").read_text()
    for text in (out, page):
        assert (code, COMMON in text, SECRET in text) == (0, True, False)
    found = json.loads((tmp_path / "o" / "lexical.json").read_text())
    assert min(row["premises"] for rows in found["top"].values() for row in rows) >= 10
    assert SECRET in (tmp_path / "o" / "private" / "lexical.txt").read_text()


def test_mednli_is_linked_by_mesh_and_its_tokens_stand_beside_the_papers(ask, tmp_path):
    """The config of MedNLI has the UMLS, which is not there. `evaluate --merged` takes the ontology
    of its run."""
    assert {
        read_config(f"hypothesis_only:{name}").knowledge.ontology
        for name in ("mednli", "mednli_code")
    } == {"mesh"}
    for split in ("train", "dev", "test"):
        write_shared_premises(tmp_path / "mednli" / f"mli_{split}_v1.jsonl")
    code, out, err = call_command(analyze, "heuristics", "--corpus=mednli", "--json", words=1)
    assert (code, err.count("error")) == (0, 0), err
    found = json.loads(out)
    assert (found["knowledge"].split()[0], CAUSE in found["heuristics"], found["notes"]) == (
        "mesh",
        True,
        [],
    )
    code, out, _ = ask("lexical", "--corpus=mednli", "--public", "--top=1")
    assert code == 0
    assert [line.split() for line in out.splitlines() if "just" in line or "high_risk" in line] == [
        ["brain_injury", "0.19", "100.00", "50.00", "27.68", "12", "12", "just", "0.25"], ["high_risk", "0.26"],
    ]  # fmt: skip


def test_analyses_that_fail_do_not_stop_the_others(ask, tmp_path):
    """A config without knowledge merges nothing, and has neither paths nor heuristics."""
    code, out, err = ask("all", "--corpus=snli", "--config.model.knowledge=none", "--out=o")
    assert code == 2
    reported = [line for line in err.splitlines() if not line.startswith("written: ")]
    assert [line.partition(":")[0] for line in reported] == ["analyze paths", "analyze heuristics"]
    assert "Table 4" in out
    assert "takes no knowledge" in " ".join(out.split())
    assert "brain_injury" not in out
    page = (tmp_path / "o" / "report.html").read_text()
    assert "heuristics is missing: " in page
    assert "Table 3" in page
    assert {path.stem for path in (tmp_path / "o").glob("*.json")} == {
        "stats",
        "lexical",
        "lengths",
    }
    code, _, err = ask("all", "--corpus=snli", "--config.data.dir=absent")
    assert (code, len(err.splitlines())) == (
        2,
        1,
    )  # the folder does not exist, and one line says so


def test_the_page_of_all_analyses(ask, tmp_path):
    code, out, err = ask("all", "--corpus=snli", "--out=o", "--json")
    assert code == 0, err
    results = json.loads(out)
    assert set(results) >= {"stats", "paths", "lexical", "lengths", "heuristics"}
    page = check_offline((tmp_path / "o" / "report.html").read_text())
    titles = " ".join(page.words)
    for title in ("Sizes, snli", "Table 3", "Table 4", "Table 5", "Path lengths", "own 2024"):
        assert title in titles, title
    assert sum(tag == "svg" for tag, _ in page.tags) == 2  # of paths and of lengths
    (command,) = [
        words for words in page.words if words.startswith("python -m mednli_jax.analyze all ")
    ]
    assert command.split()[5:7] == ["--corpus=snli", "--out=o"]  # the flags as the user typed them
    found = json.loads((tmp_path / "o" / "heuristics.json").read_text())
    assert (found["splits"], found["pairs"]) == (
        ["train", "dev", "test"],
        108,
    )  # all splits together, as in the paper
    # In each split four contradictions have gout in the premise and joint pain in the hypothesis.
    # With equal class counts each class would have four of these 12 pairs.
    assert found["uids"][HYPERNYM][:5] == [
        *(f"snli_1.0_train-{n}-{C}" for n in range(8, 12)), f"snli_1.0_dev-8-{C}",
    ]  # fmt: skip
    assert found["heuristics"][HYPERNYM]["labels"] == {E: 0, N: 0, C: 12}
    assert found["heuristics"][HYPERNYM]["chi_square"] == pytest.approx((8**2 + 4**2 + 4**2) / 4)
