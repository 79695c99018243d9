"""F1 by disease worked out by hand, averages over runs, and tables with our figures beside the paper's."""

import numpy as np
import pytest
from made_up_diskne import assemble, claim
from made_up_runs import edit, write_run

from mednli_jax.diskne.corpus import example_of
from mednli_jax.diskne.data import Benchmark
from mednli_jax.diskne.folds import Fold, folds
from mednli_jax.diskne.tables import ALWAYS, PAPER, ranked_scores, scores, table
from mednli_jax.errors import RunError, UsageError
from mednli_jax.report.sections import markdown
from mednli_jax.report.tables import unlike


@pytest.fixture(scope="module")
def benchmark():
    """Pneumonia has three positive examples, urinary tract infection two, asthma one; each has two negatives."""
    sizes = {"C06": 3, "C05": 2, "C07": 1}
    positives = [
        claim(f"{disease}{n}", f"{disease} {n}", disease, "symptoms")
        for disease in sizes
        for n in range(sizes[disease])
    ]
    return assemble(positives)


def said(benchmark, wrong=(), constant=None):
    """Predictions that are wrong for the uids in `wrong` alone, or one label for all examples."""
    labels = {}
    for example in benchmark.examples:
        right = example.is_positive != (example.uid in wrong)
        labels[example.uid] = constant or ("entailment" if right else "contradiction")
    return labels


def test_scores_are_those_worked_out_by_hand(benchmark):
    made = folds(benchmark)
    runs = {
        "0": said(benchmark),
        "1": said(benchmark, wrong={"C060.symptoms.C06", "C050.symptoms.C05.C07"}),
        "2": said(benchmark, constant="neutral"),
    }
    found = scores(benchmark, made, runs)
    assert list(found) == ["symptoms"]
    by_disease = found["symptoms"]["diseases"]
    assert set(by_disease) == {"C05", "C06"}  # asthma has too few positive examples to be reported
    # Run 1 finds 2 of 3 pneumonias without a false alarm: 4/5. It finds 2 of 2 infections with one false alarm: 4/5.
    assert by_disease["C06"]["per_run"] == [1, pytest.approx(4 / 5), 0]
    assert by_disease["C05"]["per_run"] == [1, pytest.approx(4 / 5), 0]
    assert (by_disease["C06"]["positives"], by_disease["C06"]["negatives"]) == (3, 6)
    assert found["symptoms"]["macro"]["per_seed"] == [1, pytest.approx(0.8), 0]
    assert found["symptoms"]["macro"]["sd"] == pytest.approx(0.52915, abs=1e-4)


def test_a_table_averages_over_our_diseases_and_over_those_of_the_papers_list():
    """Table 2 of the paper lists pneumonia and urinary tract infection, but not asthma."""
    diseases = ("C06", "C05", "C07")
    found = assemble(
        [claim(f"{disease}{n}", f"{disease} {n}", disease, "symptoms") for disease in diseases for n in "01"]
    )
    # every positive of asthma is missed
    runs = {"0": said(found, wrong={f"C07{number}.symptoms.C07" for number in range(2)})}
    rows = {row[0]: row for row in table("2", found, folds(found), {"ours": runs}).rows}
    at = 2  # the first two columns are the disease and its positives
    assert rows["macro average"][at] == "67"
    assert rows["macro average, the 2 of the paper's list"][at] == "100"
    assert "macro average, the 3 of the paper's list" not in rows


def test_the_weighted_average_weighs_by_positive_examples(benchmark):
    wrong = {f"C06{number}.symptoms.C06" for number in range(3)}
    found = scores(benchmark, folds(benchmark), {"0": said(benchmark, wrong=wrong)})["symptoms"]
    assert found["macro"]["mean"] == pytest.approx(1 / 2)
    assert found["weighted"]["mean"] == pytest.approx(2 / 5)
    assert found["always_positive"]["macro"] == pytest.approx(1 / 2)  # two negatives for each positive: 2 / (1 + 3)


def test_missing_predictions_are_reported_by_number_and_first_uid(benchmark):
    some = said(benchmark)
    del some["C060.symptoms.C06"]
    with pytest.raises(RunError, match=r"one: 1 of 15 .* C060.symptoms.C06"):
        scores(benchmark, folds(benchmark), {"one": some})


def test_a_table_has_ours_the_constant_row_and_the_papers(benchmark):
    runs = {"0": said(benchmark), "1": said(benchmark, constant="neutral")}
    grid = table("2", benchmark, folds(benchmark), {"BOW": runs})
    assert grid.header == ("disease", "positives", "BOW", ALWAYS, *(f"paper: {model}" for model in PAPER["models"]))
    rows = {row[0]: row[1:] for row in grid.rows}
    assert rows["pneumonia"] == ("3", "50", "50", "89", "93", "67", "100")
    assert rows["urinary tract infection"] == ("2", "50", "50", "100", "100", "67", "100")
    assert rows["chf"] == ("", "", "", "67", "67", "67", "67")
    assert rows["macro average"] == ("", "50 ±70.7", "50", "46 ±3.0", "42 ±7.3", "43 ±3.1", "46 ±3.4")
    assert len(grid.rows) == 21 + 2
    assert sum(line.startswith("| ") for line in markdown(grid)) == 2 + len(grid.rows)


def test_every_table_is_made_even_without_a_system(benchmark):
    made = folds(benchmark)
    assert table("1", benchmark, made, {}).rows[0] == ("Symptoms > Disease", "6", "12", "112", "122")
    for number in range(2, 9):
        grid = table(str(number), benchmark, made, {})
        assert all(len(row) == len(grid.header) for row in grid.rows), number
    grid = table("8", benchmark, made, {"BOW": {"0": said(benchmark)}})
    assert grid.rows[0][:5] == ("macro", "Symptoms > Disease", "100", "50", "66 ±4.0")
    with pytest.raises(UsageError):
        table("9", benchmark, made, {})


def test_folds_unlike_the_papers_say_in_what(tmp_path):
    bert = {"name": "bert", "hidden_size": 768}
    train, data = {"epochs": 8, "batch_size": 8}, {"limit": None, "max_length": 256}
    for name, seeds, change in (("alike", 3, {}), ("other", 1, {"hidden_size": 128})):
        write_run(tmp_path / name, *["een"] * seeds, gold="een")
        edit(tmp_path / name / "config.json", model={**bert, **change}, train=train, data=data, vectors={"path": ""})
    assert unlike(tmp_path / "alike", PAPER) == []
    assert len(unlike(tmp_path / "other", PAPER)) == 2  # the size and the seeds differ


# -- ranks of the true disease, by hand --------------------------------------------------------------------------------


def example(pair, disease, target="A"):
    positive = disease == target
    uid = f"{pair}.symptoms.{target}" + ("" if positive else f".{disease}")
    return example_of(uid, "entailment" if positive else "neutral", disease, target, "symptoms")


EXAMPLES = tuple(example(pair, disease) for pair in ("p", "q") for disease in ("A", "B", "C"))
NONE = np.zeros(0, np.int32)
FOLD = Fold("A", "medical", ("symptoms",), NONE, NONE, np.arange(6, dtype=np.int32), {})
BENCHMARK = Benchmark("made up", EXAMPLES, dict.fromkeys("ABC", "x"), {})


def ranked(*probabilities):
    said = {example.uid: (p, 0, 0) for example, p in zip(EXAMPLES, probabilities, strict=True)}
    return ranked_scores(BENCHMARK, (FOLD,), {"0": said})["symptoms"]


def test_ranks_and_precision_by_hand():
    """A is first of three for p and last for q. Over all six, A is 1st and 6th, so AP = (1 + 2/6) / 2."""
    found = ranked(0.9, 0.5, 0.4, 0.1, 0.3, 0.2)
    assert found["hits"]["mean"] == 0.5
    assert found["reciprocal_rank"]["mean"] == pytest.approx((1 + 1 / 3) / 2)
    assert found["average_precision"]["mean"] == pytest.approx((1 + 2 / 6) / 2)
    assert found["chance"] == pytest.approx(1 / 3)


def test_equal_probabilities_are_chance():
    """If all probabilities are equal, each figure is its mean over all orders."""
    found = ranked(*[0.09] * 6)
    assert found["hits"]["mean"] == pytest.approx(1 / 3)
    assert found["reciprocal_rank"]["mean"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["average_precision"]["mean"] == pytest.approx(1 / 3)
