"""Tokens, lengths and heuristics, by hand; and whose words `analyze` shows."""

import json
import math
import re
from dataclasses import replace

import pytest
from support.cases import cases
from support.commands import call_command, read_json
from support.files import assert_private, contents
from support.ontologies import is_a_matrix
from support.pages import check_offline
from support.pair_files import COMMON, SECRET, write_shared_premises
from support.pairs import pair
from support.tables import table_rows

from mednli_jax.artifacts import heuristics, hypotheses, tables
from mednli_jax.artifacts.heuristics import CAUSE, FINE, HYPERNYM
from mednli_jax.cli import read_config
from mednli_jax.data.examples import LABELS, Mention
from mednli_jax.errors import DataError, UsageError
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import read_mesh

E, N, C = LABELS
HEADER = "id\tname\ttree_numbers\tsynonyms\n"

# -- tokens and lengths ----------------------------------------------------------------------------

# Counts by class (E, N): x 3 0, y 1 3, z 1 2, 5 in each class; w is too rare.
SENTENCES = [
    ("x", "x", "y"),
    ("x", "z"),
    ("y", "w"),
    ("y", "z"),
    ("y", "z"),
]
CLASSES = (E, E, N, N, N)


def tokens_of_classes(smoothing=0):
    return hypotheses.token_rows(SENTENCES, CLASSES, "aabbc", smoothing=smoothing, min_count=2)


def test_pmi_counts_and_shares_of_tokens_are_those_worked_out_by_hand():
    rows, facts = tokens_of_classes()

    assert facts["tokens"] == facts["tokens_of_few_premises"] == 3
    assert facts["rare_tokens"] == 1
    assert facts["pairs"] == {E: 2, N: 3}
    x, z, _ = rows[E]
    assert x.token == "x"
    assert x.count == 3
    assert x.examples == 2
    assert x.share == 1.0
    assert x.premises == 1
    assert (x.pmi, x.p, x.p_smoothed) == pytest.approx((1.0, 3 / 5, 3 / 5))
    assert z.token == "z"
    assert z.count == 1
    assert z.share == 0.5
    assert z.premises == 3
    assert z.pmi == pytest.approx(math.log2(2 / 3))


def test_tokens_are_left_out_by_the_number_of_their_premises_not_of_their_pairs():
    sentences = [("x",)] * 4 + [("y",)] * 3 + [("z",)]
    table = hypotheses.token_rows(sentences, [E] * 7 + [N], premises="aaaabcde", min_count=1)

    rows = table.best(2, premises=3).rows
    assert [row.token for row in rows[E]] == ["y"]


def test_a_token_that_a_class_never_has_is_not_listed_for_it():
    rows, _ = tokens_of_classes()

    assert [row.token for row in rows[N]] == ["y", "z"]


def test_smoothed_pmi_is_that_worked_out_by_hand():
    rows, _ = tokens_of_classes(smoothing=2)

    x = rows[E][0]
    assert (x.p, x.p_smoothed) == pytest.approx((3 / 5, 5 / 11))
    assert x.pmi == pytest.approx(math.log2((5 / 22) / (7 / 22 * 11 / 22)))


def test_stop_words_are_dropped_as_published():
    """By scikit-learn's list and pattern of two word characters; merged entities stay whole."""
    text = "the patient has no history_of_cancer , x-ray n't p . not well"

    assert hypotheses.content(text.split()) == ("patient", "history_of_cancer", "x-ray")


@cases(
    "labels",
    {
        "one class": [N] * 9,
        "none": [],
    },
)
def test_classes_that_cannot_be_compared_are_refused(labels):
    with pytest.raises(DataError):
        hypotheses.classes_of(labels)


def test_tokens_that_are_all_rare_are_refused():
    with pytest.raises(UsageError, match="--min_count"):
        hypotheses.token_rows([("a",)] * 4, [N, E] * 2, "pppp")


def lengths_of(lengths, labels):
    return hypotheses.lengths([("w",) * length for length in lengths], labels)


def test_lengths_of_hypotheses_are_those_worked_out_by_hand():
    neutral = lengths_of((1, 2, 3, 4, 5, 6), (E, E, N, N, C, C))[N]

    assert neutral.pairs == 2
    assert neutral.mean == 3.5
    assert neutral.median == 3.5
    assert neutral.lengths == {"3": 1, "4": 1}


# -- heuristics ------------------------------------------------------------------------------------

TREES = f"""{HEADER}\
D004700\tEndocrine System Diseases\tC19\t
D003920\tDiabetes Mellitus\tC19.246|C18.452.394.750\t
D000230\tAcromegaly\tC19.700\t
D008659\tMetabolic Diseases\tC18.452\t
D000818\tAnimals\tB01.050\t
D006321\tHeart\tA07.541\t
D012907\tSmoking\tF01.145.805\t
D000073865\tCigarette Smoking\tF01.145.805.375.750\t
D019966\tSubstance-Related Disorders\tC25.775|F03.900\t
D010361\tPatients\tM01.643\t
"""
# c2 is-a c1 is-a c0; c3 stands alone. No concept has a tree number.
LABELS_OF_CHAIN = ("zero", "one", "two", "Patient")
IS_A = is_a_matrix([(1, 0), (2, 1)], 4)
CHAIN = Ontology(
    "chain",
    "1",
    ("c0", "c1", "c2", "c3"),
    LABELS_OF_CHAIN,
    (),
    IS_A,
    "",
)
# Concepts of SNOMED CT have such references.
REFERENCES = replace(
    CHAIN,
    cross_references=(
        ("CUI", 2),
        ("CUI", 3),
        ("above", 0),
    ),
)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    path = tmp_path_factory.mktemp("mesh") / "some.tsv"
    path.write_text(TREES)
    return read_mesh(path)


def heuristics_of(ontology, premise, hypothesis, words):
    """The heuristics that a pair satisfies. premise, hypothesis: concepts, separated by commas, on
    the first tokens of each side."""
    id_of = dict(zip(ontology.labels, ontology.ids, strict=True))
    sides = []
    for concepts in (premise, hypothesis):
        names = enumerate(concepts.split(", "))
        sides.append([Mention(n, n + 1, id_of.get(name, name)) for n, name in names])
    rows = heuristics.rows_by_heuristic([pair("p", words)], [sides[0]], [sides[1]], ontology)
    return {name for name, satisfied in rows.items() if satisfied}


@pytest.mark.parametrize(
    "ontology, premise, hypothesis, words, name",
    table_rows("""
        # Hypernym: a more general concept in the hypothesis, as in the example of the paper.
        MeSH | Diabetes Mellitus | Endocrine System Diseases | x | hypernym
        MeSH | Endocrine System Diseases | Diabetes Mellitus | x |
        # Its second tree number lies below, although the number between the two is missing.
        MeSH | Diabetes Mellitus | Metabolic Diseases | x | hypernym
        MeSH | Heart, Acromegaly | Animals, Endocrine System Diseases | x y | hypernym
        MeSH | not there | Endocrine System Diseases | x |
        # Probable cause: a cause in the hypothesis. Branch F has causes, too; anatomy has none.
        MeSH | Acromegaly | Cigarette Smoking | x | probable cause
        MeSH | Smoking | Substance-Related Disorders | x | probable cause
        MeSH | Acromegaly | Diabetes Mellitus | x |
        MeSH | Heart | Smoking | x |
        # Everything is fine: words of health, and a shared concept, which is not the patient.
        MeSH | Acromegaly | Acromegaly | acromegaly Denied | everything is fine
        MeSH | Acromegaly | Acromegaly | heart is healthy | everything is fine
        MeSH | Acromegaly | Heart | heart is normal |
        MeSH | Patients | Patients | patient is normal |
        MeSH | Patients, Heart | Patients, Heart | patient heart normal | everything is fine
        # The concept holds the first word.
        MeSH | Heart | Heart | normal is the heart |
        # Ontologies without trees have no causes.
        CHAIN | c2 | c0 | x | hypernym
        CHAIN | c0 | c2 | x |
        CHAIN | c2 | c2 | x no z | everything is fine
        CHAIN | c3 | c3 | x no z |
        REFERENCES | CUI | above | x | hypernym
        REFERENCES | above | CUI | x |
        REFERENCES | CUI | c2 | x no z | everything is fine
    """),
)
def test_a_pair_satisfies_the_heuristics_of_its_concepts_and_words(
    mesh, ontology, premise, hypothesis, words, name
):
    ontology = {"MeSH": mesh, "CHAIN": CHAIN, "REFERENCES": REFERENCES}[ontology]
    assert "".join(heuristics_of(ontology, premise, hypothesis, words)) == name


def test_an_ontology_without_trees_has_hypernyms_but_no_causes():
    assert list(heuristics.rows_by_heuristic([], [], [], CHAIN)) == [HYPERNYM, FINE]


def test_chi_square_of_a_heuristic_is_that_worked_out_by_hand():
    """Counts 6, 3 and 0 where 3 each are expected: (9 + 0 + 9) / 3 = 6, with two degrees of
    freedom."""
    labels = [E] * 6 + [N] * 3 + [C] * 9

    spread = heuristics.spread({HYPERNYM: list(range(9)), FINE: []}, labels)

    hypernym = spread[HYPERNYM]
    assert hypernym.pairs == 9
    assert hypernym.labels == {E: 6, N: 3, C: 0}
    assert hypernym.top == E
    statistics = (hypernym.share, hypernym.chi_square, hypernym.p_value)
    assert statistics == pytest.approx((2 / 3, 6, math.exp(-3)))
    assert spread[FINE] == heuristics.Spread(0, {E: 0, N: 0, C: 0})


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Runs `analyze` on made-up corpora, in which three words tell the label, and a small
    ontology: (exit code, stdout, stderr)."""
    concepts = "D1\tBrain Injury\tC10.100\t\nD2\tGout\tC05.100\t\nD3\tJoint Pain\tC05\t\n"
    (tmp_path / "own.tsv").write_text(HEADER + concepts)
    for split in ("train", "dev", "test"):
        write_shared_premises(tmp_path / "snli" / f"snli_1.0_{split}.jsonl")
        write_shared_premises(tmp_path / "mednli" / f"mli_{split}_v1.jsonl")
    for split in ("train", "dev"):
        write_shared_premises(tmp_path / "own" / f"{split}.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))
    # The filtering has tests of its own.
    monkeypatch.delitem(tables.ANALYSES.analyses, "aflite")

    def call(name, *flags):
        return call_command("analyze", name, "--config.knowledge.ontology=own.tsv", *flags)

    return call


def top_tokens(figures, label):
    return [row["token"] for row in figures["top"][label]]


def test_tokens_of_an_open_corpus_are_shown(ask, tmp_path):
    code, out, _ = ask("lexical", "--corpus=snli", "--out=o", "--top=3")

    assert code == 0
    assert "brain_injury" in out
    assert SECRET in out
    # joint_pain occurs only four times.
    figures = read_json(tmp_path, "o", "lexical.json")
    assert set(top_tokens(figures, C)) == {"patient", SECRET}
    assert top_tokens(figures, E) == ["brain_injury", "patient"]
    assert SECRET in (tmp_path / "o" / "report.html").read_text()
    assert not (tmp_path / "o" / "private").exists()


def test_stop_words_are_counted_where_that_is_asked_for(ask):
    _, out, _ = ask("lexical", "--corpus=snli", "--top=3", "--stop_words", "--json")

    figures = json.loads(out)
    assert figures["stop_words"]
    assert "no" in top_tokens(figures, C)


@pytest.mark.parametrize("corpus", ["own", "own/train.jsonl"])
def test_tokens_of_a_corpus_of_ones_own_stay_private(ask, tmp_path, corpus):
    code, out, err = ask("all", f"--corpus={corpus}", "--out=o", "--min_count=1")

    assert code == 0, err
    folder = tmp_path / "o"
    assert_private(folder)
    texts = {"output": (out + err).encode()}
    for name, content in contents(folder).items():
        if not name.startswith("private/"):
            texts[name] = content
    for name, text in texts.items():
        for word in (SECRET, COMMON, "brain", "train-0"):
            assert word.encode() not in text.lower(), name
    assert SECRET in (folder / "private" / "lexical.txt").read_text()
    assert SECRET in top_tokens(read_json(folder, "private", "lexical.json"), C)
    assert set(read_json(folder, "private", "heuristics.json")["uids"]) == {HYPERNYM, CAUSE, FINE}


def test_public_shows_tokens_that_many_premises_have(ask, tmp_path):
    code, out, _ = ask("lexical", "--corpus=own", "--out=o", "--public", "--min_count=1")

    assert code == 0
    for text in (out, (tmp_path / "o" / "report.html").read_text()):
        assert COMMON in text
        assert SECRET not in text
    for rows in read_json(tmp_path, "o", "lexical.json")["top"].values():
        assert min(row["premises"] for row in rows) >= 10
    assert SECRET in (tmp_path / "o" / "private" / "lexical.txt").read_text()


def test_heuristics_of_mednli_are_linked_by_mesh(ask):
    """The config of MedNLI has the UMLS, which is not there."""
    for variant in ("mednli", "mednli_code"):
        assert read_config(f"hypothesis_only:{variant}").knowledge.ontology == "mesh"

    code, out, err = call_command("analyze heuristics --corpus=mednli --json")

    assert code == 0, err
    assert "error" not in err
    figures = json.loads(out)
    assert figures["knowledge"].startswith("mesh ")
    assert CAUSE in figures["heuristics"]


def test_tokens_of_mednli_stand_beside_the_papers(ask):
    _, out, _ = ask("lexical", "--corpus=mednli", "--public", "--top=1")

    rows = [line.split() for line in out.splitlines()]
    ours = ["brain_injury", "0.19", "100.00", "50.00", "27.68", "12", "12", "just", "0.25"]
    assert rows[rows.index(ours) + 1] == ["high_risk", "0.26"]


def test_analyses_that_fail_do_not_stop_the_others(ask, tmp_path):
    """A config without knowledge merges nothing, and has neither paths nor heuristics."""
    code, out, err = ask("all", "--corpus=snli", "--config.model.knowledge=none", "--out=o")

    assert code == 2
    for name in ("paths", "heuristics"):
        assert f"analyze {name}: " in err
    assert "takes no knowledge" in " ".join(out.split())
    assert "brain_injury" not in out
    assert "heuristics is missing: " in (tmp_path / "o" / "report.html").read_text()
    written = {path.stem for path in (tmp_path / "o").glob("*.json")}
    assert written == {"stats", "lexical", "lengths"}


def test_an_absent_folder_is_one_line_for_all_analyses(ask):
    code, _, err = ask("all", "--corpus=snli", "--config.data.dir=absent")

    assert code == 2
    assert err.count("\n") == 1


def test_the_page_of_all_analyses_has_their_tables_and_charts(ask, tmp_path):
    code, out, err = ask("all", "--corpus=snli", "--out=o", "--json")

    assert code == 0, err
    assert set(json.loads(out)) >= {"stats", "paths", "lexical", "lengths", "heuristics"}
    page = check_offline((tmp_path / "o" / "report.html").read_text())
    words = " ".join(page.words)
    for title in ("Sizes, snli", "Table 3", "Table 4", "Table 5", "Path lengths", "own unknown"):
        assert title in words, title
    # The flags as the user typed them.
    assert re.search(r"python -m mednli_jax\.analyze all \S+ --corpus=snli --out=o", words)
    assert [tag for tag, _ in page.tags].count("img") == 2  # of paths and of lengths


def test_heuristics_are_counted_over_all_splits(ask, tmp_path):
    """In each split four contradictions have gout in the premise and joint pain in the hypothesis.
    With equal class counts each class would have four of these 12 pairs."""
    ask("heuristics", "--corpus=snli", "--out=o")

    figures = read_json(tmp_path, "o", "heuristics.json")
    assert figures["splits"] == ["train", "dev", "test"]
    assert figures["pairs"] == 108
    of_train = [f"snli_1.0_train-{n}-{C}" for n in range(8, 12)]
    assert figures["uids"][HYPERNYM][:5] == [*of_train, f"snli_1.0_dev-8-{C}"]
    assert figures["heuristics"][HYPERNYM]["labels"] == {E: 0, N: 0, C: 12}
    chi_square = figures["heuristics"][HYPERNYM]["chi_square"]
    assert chi_square == pytest.approx((8**2 + 4**2 + 4**2) / 4)
