"""The page of a run on sentence pairs: scores, confusion, classes and calibration, as sections."""

from mednli_jax.data.examples import LABELS
from mednli_jax.report import charts
from mednli_jax.report.metrics import wilson_interval
from mednli_jax.report.sections import Grid, Section, interval, points, sd

SPLITS = ("dev", "test")
CONFUSION = {"rows": "gold", "columns": "predicted"}


def run_sections(result: dict) -> tuple[list[Section], list[Section]]:
    """The sections of a run's result.json shown before and after the learning curves."""
    return [_scores(result), _confusion(result)], [*_by_class(result), _calibration(result)]


def _scores(result) -> Section:
    """The scores of each split, and of its slices."""
    rows = []
    for split in SPLITS:
        scores = result.get(split)
        if not scores:
            continue
        for name, of in ((split, scores), *((f"{split}, {n}", s) for n, s in scores.get("slices", {}).items())):
            accuracy, n = of["accuracy"], of["examples"]
            low, high = wilson_interval(round(accuracy["mean"] * n), n)
            seeds = ", ".join(points(value) for value in accuracy["per_seed"])
            calibration = points(of["calibration"]["ece"]["mean"]) if "calibration" in of else "-"
            loss = f"{of['loss']['mean']:.4f}" if "loss" in of else "-"
            wide = interval(low, high, "")
            f1 = points(of["macro_f1"]["mean"])
            rows.append((name, f"{n:,}", points(accuracy["mean"]), sd(accuracy), wide, f1, loss, calibration, seeds))
    header = ("split", "pairs", "accuracy", "sd", "95 % of one run", "macro F1", "loss", "ECE", "accuracy per seed")
    return Section(
        "Scores", ["accuracy, F1 and calibration error (ECE) in points"], [Grid("", header, rows)] * bool(rows)
    )


def _confusion(result) -> Section:
    drawn = []
    for split in SPLITS:
        if scores := result.get(split):
            seeds = len(result.get("seeds", ()))
            caption = f"{split}: pairs" + (f", summed over {seeds} seeds" if seeds > 1 else "")
            title = f"Confusion on {split}"
            drawn.append((caption, charts.heat_map(scores["confusion"], LABELS, title=title, **CONFUSION)))
    return Section("Confusion", charts=drawn)


def _by_class(result):
    for split in SPLITS:
        if scores := result.get(split):
            rows = [
                (label, str(s["support"]), points(s["precision"]), points(s["recall"]), points(s["f1"]))
                for label, s in ((label, scores["per_class"][label]) for label in LABELS)
            ]
            header = ("class", "gold", "precision", "recall", "F1")
            yield Section(f"Classes, {split}", grids=[Grid("points; gold pairs are summed over seeds", header, rows)])


def _calibration(result) -> Section:
    drawn = []
    for split in SPLITS:
        bins = [b for b in (result.get(split) or {}).get("calibration", {}).get("bins", ()) if b["count"]]
        series = {name: [100 * b[name] for b in bins] for name in ("confidence", "accuracy")}
        names = [f"{b['high']:.2f}" for b in bins]
        chart = charts.bars(series, names, title=f"Calibration on {split}", x="probability up to", y="per cent")
        drawn.append((f"{split}: how sure, and how often right", chart))
    return Section("Calibration", charts=drawn)
