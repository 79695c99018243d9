"""A run's predictions for new sentence pairs, as `predict` prints them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mednli_jax.data.examples import LABELS
from mednli_jax.io import next_free, private_folder, write_atomic
from mednli_jax.report import charts


def prediction_lines(rows: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """A header, then of each pair the label and the probability of each class, between tabs."""
    yield "\t".join(("label", *LABELS))
    for row in rows:
        yield "\t".join((max(row, key=row.__getitem__), *(f"{row[label]:.6f}" for label in LABELS)))


def write_attention(run, pairs) -> Path:
    """Writes the attention maps of all pairs to a new folder under the run's private/, because they quote the pairs.

    Returns the folder, which holds pair-1.json (tokens, maps of each seed), pair-1.png (means over seeds) and so on.
    run: a finished_run.FinishedRun. Raises: UserError where the model has no attention.
    """
    found = run.attention(pairs)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, pair in enumerate(found, start=1):
        maps = {name: {side: both[side].round(6).tolist() for side in both} for name, both in pair["maps"].items()}
        write_atomic(folder / f"pair-{number}.json", json.dumps({**pair, "maps": maps}) + "\n")
        shown = {}
        for name, both in pair["maps"].items():
            shown[f"{name}: premise to hypothesis"] = both["premise"].mean(axis=0)
            shown[f"{name}: hypothesis to premise"] = both["hypothesis"].mean(axis=0).T
        write_atomic(folder / f"pair-{number}.png", charts.attention(shown, pair["premise"], pair["hypothesis"]))
    return folder
