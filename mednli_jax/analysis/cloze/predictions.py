"""A run's answers to new queries on passages, as `predict` prints them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mednli_jax.analysis.cloze.sections import attention_page
from mednli_jax.files import next_free, private_folder, write_atomic


def prediction_lines(rows: Sequence[Mapping]) -> Iterator[str]:
    """A header, then of each query the answer, its probability, the number of candidates and the best of them."""
    yield "\t".join(("answer", "probability", "candidates", "best"))
    for row in rows:
        probability = row["best"][0]["probability"] if row["answer"] else 0.0
        best = json.dumps(row["best"], ensure_ascii=False)
        yield "\t".join((row["answer"], f"{probability:.6f}", str(row["candidates"]), best))


def write_attention(run, queries) -> Path:
    """Writes the attention over each passage to a new folder under the run's private/, because it quotes the passages.

    Returns the folder, which holds passage-1.json (tokens, candidates, weights of each seed), passage-1.html (means
    over the seeds) and so on.
    run: a finished_run.FinishedRun. Raises: UserError where the model has no attention.
    """
    found, predicted = run.attention(queries), run.predict(queries)
    folder = private_folder(next_free(run.directory.private / "attention"))
    for number, (seen, answered) in enumerate(zip(found, predicted, strict=True), start=1):
        page = attention_page(seen, answered["answer"])
        values = {**seen, "weights": seen["weights"].astype(float).round(6).tolist(), "answer": answered["answer"]}
        write_atomic(folder / f"passage-{number}.json", json.dumps(values) + "\n")
        write_atomic(folder / f"passage-{number}.html", page)
    return folder
