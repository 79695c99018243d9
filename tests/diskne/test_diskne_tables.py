"""F1 by disease worked out by hand, averages over runs, and tables with our figures beside the
paper's."""

import numpy as np
import pytest
from support.diskne import assemble, claim

from mednli_jax.data.examples import NLIExample
from mednli_jax.diskne.data import Benchmark, DiseaseExample
from mednli_jax.diskne.folds import Fold, folds
from mednli_jax.diskne.scores import ALWAYS, scores
from mednli_jax.diskne.tables import PAPER, System, table_section
from mednli_jax.errors import RunError


def made(**sizes):
    """A benchmark with so many positive examples of each disease; each has a negative of each other
    disease."""
    return assemble(
        [
            claim(f"{of}{n}", f"{of} {n}", of, "symptoms")
            for of, size in sizes.items()
            for n in range(size)
        ]
    )


@pytest.fixture(scope="module")
def benchmark():
    """Pneumonia has three positive examples, urinary tract infection two, asthma one."""
    return made(C06=3, C05=2, C07=1)


def said(benchmark, wrong=(), constant=None):
    """Probabilities that are wrong for the uids in `wrong` alone, or the same class for all
    examples."""
    found = {}
    for example in benchmark.examples:
        right = example.is_positive != (example.uid in wrong)
        found[example.uid] = np.eye(3)[
            (0 if right else 2) if constant is None else constant
        ].tolist()
    return found


def table(number, benchmark, **runs):
    of_system = {name: scores(benchmark, folds(benchmark), of) for name, of in runs.items()}
    found = [System(name, benchmark.description(), of) for name, of in of_system.items()]
    return table_section(number, found).grids[0]


def test_scores_are_those_worked_out_by_hand(benchmark):
    runs = {
        "0": said(benchmark),
        "1": said(benchmark, wrong={"C060.symptoms.C06", "C050.symptoms.C05.C07"}),
        "2": said(benchmark, constant=1),
    }
    found = scores(benchmark, folds(benchmark), runs)
    assert list(found) == ["symptoms"]
    by_disease = found["symptoms"]["diseases"]
    assert set(by_disease) == {"C05", "C06"}  # asthma has too few positive examples to be reported
    # Run 1 finds 2 of 3 pneumonias without a false alarm: 4/5. It finds 2 of 2 infections with one
    # false alarm: 4/5.
    assert by_disease["C06"]["per_run"] == [1, pytest.approx(4 / 5), 0]
    assert by_disease["C05"]["per_run"] == [1, pytest.approx(4 / 5), 0]
    assert by_disease["C06"]["positives"] == 3
    assert by_disease["C06"]["negatives"] == 6
    assert found["symptoms"]["macro"]["per_seed"] == [1, pytest.approx(0.8), 0]
    assert found["symptoms"]["macro"]["sd"] == pytest.approx(0.52915, abs=1e-4)


def test_the_weighted_average_weighs_by_positive_examples(benchmark):
    wrong = {f"C06{number}.symptoms.C06" for number in range(3)}
    found = scores(benchmark, folds(benchmark), {"0": said(benchmark, wrong=wrong)})["symptoms"]
    assert found["macro"]["mean"] == pytest.approx(1 / 2)
    assert found["weighted"]["mean"] == pytest.approx(2 / 5)
    assert found["always_positive"]["macro"] == pytest.approx(
        1 / 2
    )  # two negatives for each positive: 2 / (1 + 3)


def test_a_table_averages_over_our_diseases_and_over_those_of_the_papers_list():
    """Table 2 of the paper lists pneumonia and urinary tract infection, but not asthma."""
    found = made(C06=2, C05=2, C07=2)
    # every positive of asthma is missed
    runs = {"0": said(found, wrong={f"C07{number}.symptoms.C07" for number in range(2)})}
    rows = {row[0]: row for row in table("2", found, ours=runs).rows}
    at = 2  # the first two columns are the disease and its positives
    assert rows["macro average"][at] == "67"
    ours, *paper = (rows["macro average, the 2 that both have"][column] for column in (at, -4, -1))
    # In the paper ClinicalBERT has 89 and 100 on these, BERT 100 and 100.
    assert ours == "100"
    assert paper == ["94", "100"]
    assert rows["macro average"][-4] == "46 ±3.0"


def test_systems_with_other_diseases_are_refused(benchmark):
    systems = []
    for name, of in (("all", benchmark), ("some", made(C06=3, C07=1))):
        systems.append(System(name, of.description(), scores(of, folds(of), {"0": said(of)})))
    with pytest.raises(RunError, match="some: 1 diseases"):
        table_section("2", systems)


def test_a_table_has_ours_the_constant_row_and_the_papers(benchmark):
    grid = table("2", benchmark, BOW={"0": said(benchmark), "1": said(benchmark, constant=1)})
    assert grid.header == (
        "disease",
        "positives",
        "BOW",
        ALWAYS,
        *(f"paper: {model}" for model in PAPER["models"]),
    )
    rows = {row[0]: row[1:] for row in grid.rows}
    assert rows["pneumonia"] == ("3", "50", "50", "89", "93", "67", "100")
    assert rows["urinary tract infection"] == ("2", "50", "50", "100", "100", "67", "100")
    assert rows["chf"] == ("", "", "", "67", "67", "67", "67")
    assert rows["macro average"] == (
        "",
        "50 ±70.7",
        "50",
        "46 ±3.0",
        "42 ±7.3",
        "43 ±3.1",
        "46 ±3.4",
    )
    assert len(grid.rows) == 21 + 4


def test_every_table_is_made(benchmark):
    grids = [table(number, benchmark, BOW={"0": said(benchmark)}) for number in "12345678"]
    assert grids[0].rows[0] == ("Symptoms > Disease", "6", "12", "112", "122")
    assert grids[7].rows[0][:5] == ("macro", "Symptoms > Disease", "100", "50", "66 ±4.0")
    assert all(len(row) == len(grid.header) for grid in grids for row in grid.rows)


@pytest.mark.parametrize(
    "probabilities, expected",
    [
        # A is first of three for p and last for q. Over all six, A is 1st and 6th.
        ((0.9, 0.5, 0.4, 0.1, 0.3, 0.2), (1 / 2, (1 + 1 / 3) / 2, (1 + 2 / 6) / 2)),
        # If all probabilities are equal, each figure is its mean over all orders.
        ([0.09] * 6, (1 / 3, (1 + 1 / 2 + 1 / 3) / 3, 1 / 3)),
    ],
)
def test_ranks_and_precision_by_hand(probabilities, expected):
    examples = []
    for uid in ("p.symptoms.A", "q.symptoms.A"):
        examples.append(
            DiseaseExample(NLIExample(uid, "", "", "entailment", (), ()), "A", "A", "symptoms")
        )
        for other in "BC":
            pair = NLIExample(f"{uid}.{other}", "", "", "neutral", (), ())
            examples.append(DiseaseExample(pair, other, "A", "symptoms"))
    none = np.zeros(0, np.int32)
    fold = Fold("A", "medical", ("symptoms",), none, none, np.arange(6, dtype=np.int32), {})
    said = {example.uid: (p, 0, 0) for example, p in zip(examples, probabilities, strict=True)}
    found = scores(Benchmark("made up", tuple(examples), {}, {}), (fold,), {"0": said})["symptoms"][
        "ranking"
    ]
    assert [
        found[name]["mean"] for name in ("hits", "reciprocal_rank", "average_precision")
    ] == pytest.approx(expected)
    assert found["chance"] == pytest.approx(1 / 3)
