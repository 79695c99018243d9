"""F1 by disease worked out by hand, averages over runs, and tables with our figures beside the
paper's."""

import numpy as np
import pytest
from support.diskne import assemble, claim

from mednli_jax.diskne.comparison import ALL, gains_of
from mednli_jax.diskne.comparison import System as Compared
from mednli_jax.diskne.folds import folds
from mednli_jax.diskne.scores import ALWAYS, scores
from mednli_jax.diskne.tables import PAPER, System, table_section
from mednli_jax.errors import RunError

YES, NO, NEITHER = np.eye(3).tolist()  # probabilities of an example: entailment, neutral, ...


def benchmark_of(**sizes):
    """A benchmark with so many positive examples of each disease; each has a negative of each other
    disease."""
    positives = []
    for disease, size in sizes.items():
        for n in range(size):
            positives.append(claim(f"{disease}{n}", f"{disease} {n}", disease, "symptoms"))
    return assemble(positives)


@pytest.fixture(scope="module")
def benchmark():
    """Pneumonia has three positive examples, urinary tract infection two, asthma one."""
    return benchmark_of(C06=3, C05=2, C07=1)


def predictions(benchmark, *wrong):
    """The probabilities of each example, which are wrong for these uids alone."""
    probabilities = {}
    for example in benchmark.examples:
        is_right = example.uid not in wrong
        probabilities[example.uid] = YES if example.is_positive == is_right else NEITHER
    return probabilities


def always(probabilities, benchmark):
    return {example.uid: probabilities for example in benchmark.examples}


def scores_of(benchmark, *runs):
    return scores(benchmark, folds(benchmark), dict(zip("012", runs, strict=False)))


def table_of(number, benchmark, *runs):
    """The header and the rows of a table of one system, BOW."""
    system = System("BOW", benchmark.description(), scores_of(benchmark, *runs))
    grid = table_section(number, [system]).grids[0]
    assert {len(row) for row in grid.rows} == {len(grid.header)}
    return grid.header, grid.rows


def by_first_cell(rows):
    return {row[0]: row[1:] for row in rows}


def test_f1_of_a_disease_is_that_worked_out_by_hand(benchmark):
    """Run 1 finds 2 of 3 pneumonias without a false alarm, and 2 of 2 infections with one."""
    wrong = ("C060.symptoms.C06", "C050.symptoms.C05.C07")
    runs = (predictions(benchmark), predictions(benchmark, *wrong), always(NO, benchmark))

    (category,) = scores_of(benchmark, *runs).values()

    assert category["diseases"].keys() == {"C05", "C06"}  # asthma has too few positive examples
    for disease in category["diseases"].values():
        assert disease["per_run"] == [1, pytest.approx(4 / 5), 0]
    assert category["diseases"]["C06"]["positives"] == 3
    assert category["diseases"]["C06"]["negatives"] == 6
    assert category["macro"]["per_seed"] == [1, pytest.approx(0.8), 0]
    assert category["macro"]["sd"] == pytest.approx(0.52915, abs=1e-4)


def test_the_weighted_average_weighs_by_positive_examples(benchmark):
    """The constant classifier has two negatives for each positive: 2 / (1 + 3)."""
    pneumonias = (f"C06{number}.symptoms.C06" for number in range(3))

    category = scores_of(benchmark, predictions(benchmark, *pneumonias))["symptoms"]

    assert category["macro"]["mean"] == pytest.approx(1 / 2)
    assert category["weighted"]["mean"] == pytest.approx(2 / 5)
    assert category["always_positive"]["macro"] == pytest.approx(1 / 2)


def test_a_table_averages_over_our_diseases_and_over_those_of_the_papers_list():
    """Table 2 of the paper lists pneumonia and urinary tract infection, on which ClinicalBERT has
    89 and 100, but not asthma, of which we miss every positive."""
    benchmark = benchmark_of(C06=2, C05=2, C07=2)
    asthmas = (f"C07{number}.symptoms.C07" for number in range(2))

    _, rows = table_of("2", benchmark, predictions(benchmark, *asthmas))

    rows = by_first_cell(rows)
    assert rows["macro average"][1] == "67"
    assert rows["macro average"][-4] == "46 ±3.0"
    of_both = rows["macro average, the 2 that both have"]
    assert of_both[1] == "100"
    assert of_both[-4] == "94"


def test_systems_with_other_diseases_are_refused(benchmark):
    systems = []
    for name, of_system in (("all", benchmark), ("some", benchmark_of(C06=3, C07=1))):
        figures = scores_of(of_system, predictions(of_system))
        systems.append(System(name, of_system.description(), figures))

    with pytest.raises(RunError, match="some: 1 diseases"):
        table_section("2", systems)


def test_a_table_has_ours_the_constant_row_and_the_papers(benchmark):
    header, rows = table_of("2", benchmark, predictions(benchmark), always(NO, benchmark))

    papers = tuple(f"paper: {model}" for model in PAPER["models"])
    assert header == ("disease", "positives", "BOW", ALWAYS, *papers)
    assert len(rows) == 21 + 4
    rows = by_first_cell(rows)
    assert rows["pneumonia"] == ("3", "50", "50", "89", "93", "67", "100")
    assert rows["chf"] == ("", "", "", "67", "67", "67", "67")
    assert rows["macro average"][1:3] == ("50 ±70.7", "50")


FIRST_ROW = {
    "1": ("Symptoms > Disease", "6", "12", "112", "122"),
    "8": ("macro", "Symptoms > Disease", "100", "50", "66 ±4.0"),
}


@pytest.mark.parametrize("number", "12345678")
def test_each_of_the_eight_tables_of_diskne_is_filled(benchmark, number):
    _, (first, *_) = table_of(number, benchmark, predictions(benchmark))

    assert first[:5] == FIRST_ROW.get(number, first[:5])


# -- two runs --------------------------------------------------------------------------------------


def compared(**f1):
    """category -> gain of the second of two systems; f1: of each disease, in two seeds of each."""
    systems = []
    for number in range(2):
        of_category = {disease: values[number] for disease, values in f1.items()}
        systems.append(Compared(f"run{number}", "mednli", {"symptoms": of_category}))
    return gains_of(*systems)


def test_runs_are_compared_by_the_f1_of_the_positive_class_over_diseases():
    """A model that calls nothing positive is right on ten of eleven examples, with an F1 of 0."""
    gains = compared(gout=([0, 0], [0.5, 0.7]), asthma=([0, 0], [0.2, 0.2]))

    assert gains["symptoms"].macro_f1 == (0.0, pytest.approx(0.4))
    assert gains["symptoms"].difference == pytest.approx(0.4)
    assert gains["symptoms"].low > 0
    assert gains["symptoms"].diseases == 2
    assert gains[ALL] == gains["symptoms"]


def test_one_lucky_disease_is_no_difference():
    gains = compared(gout=([0, 0], [0.9, 0.9]), asthma=([0.3, 0.3], [0.2, 0.2]))

    assert gains[ALL].low < 0 < gains[ALL].high


def test_runs_tested_on_other_diseases_are_refused():
    first = Compared("a", "mednli", {"symptoms": {"gout": [1.0]}})
    second = Compared("b", "mednli", {"symptoms": {"asthma": [1.0]}})

    with pytest.raises(RunError, match="a and b: they were tested on other diseases"):
        gains_of(first, second)
