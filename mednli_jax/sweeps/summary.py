"""The results of a sweep: a table, best trial first, and a figure of the metric against each field."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from mednli_jax.analysis.charts import COLOURS, png
from mednli_jax.sweeps.study import TrialResult


def _text(value) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(rows: Sequence[TrialResult], sweep: Mapping) -> Iterator[str]:
    """Lines of a Markdown table, with scores to four places as in run reports. sweep: see `Study.description`."""
    names = list(sweep["fields"])
    test = f"test{sweep['metric'].removeprefix('dev')}" if sweep["metric"].startswith("dev.") else "test"
    heads = ["trial", *names, sweep["metric"], test, "attempts"]
    yield "| " + " | ".join(heads) + " |"
    yield "| --- " * len(heads) + "|"
    for row in rows:
        scores = [f"{score:.4f}" if score is not None else "" for score in (row.metric, row.test)]
        if row.metric is None:
            scores[0] = "failed"
        cells = [str(row.trial), *(_text(row.values.get(name)) for name in names), *scores, str(row.attempts)]
        yield "| " + " | ".join(cells) + " |"


def picture(rows: Sequence[TrialResult], sweep: Mapping) -> bytes:
    """A PNG with a panel for each field: the metric of each trial against its value; for choices also their means."""
    scored, fields = [row for row in rows if row.metric is not None], sweep["fields"]
    columns = min(3, len(fields))
    lines = -(-len(fields) // columns)
    figure = Figure(figsize=(4.0 * columns, 3.2 * lines), layout="constrained")
    panels = np.ravel(figure.subplots(lines, columns, sharey=True, squeeze=False))
    for axes in panels[len(fields) :]:
        axes.set_visible(False)
    metrics = np.array([row.metric for row in scored])
    for place, (axes, (name, space)) in enumerate(zip(panels, fields.items(), strict=False)):
        if isinstance(space, list):
            known = [_text(choice) for choice in space]
            x = np.array([known.index(_text(row.values[name])) for row in scored], int)
            used = sorted(set(x.tolist()))
            axes.plot(used, [metrics[x == at].mean() for at in used], color=COLOURS[2], zorder=1)
            axes.set_xticks(range(len(known)), known)
            axes.set_xlim(-0.5, len(known) - 0.5)
        else:
            x = np.array([row.values[name] for row in scored])
            axes.set_xscale("log" if space["log"] else "linear")
        axes.scatter(x, metrics, color=COLOURS[0], alpha=0.7, zorder=2)
        if scored:  # rows come with the best first
            axes.scatter(x[:1], metrics[:1], color=COLOURS[1], marker="*", s=160, zorder=3)
        axes.set_xlabel(name)
        axes.spines[["top", "right"]].set_visible(False)
        if place % columns == 0:
            axes.set_ylabel(sweep["metric"])
    figure.suptitle("a point is a trial, the star the best one; a line joins the means of the choices", fontsize=9)
    return png(figure)
