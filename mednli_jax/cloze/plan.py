"""Šuster & Daelemans 2018 (CliCR) for `reproduce`."""

from collections.abc import Sequence
from dataclasses import replace

from mednli_jax.cloze.runs import BASELINES, CLICR, RUNS, SEEDS, TABLE, VECTORS
from mednli_jax.report.paper import PaperRun, Request, Step


class CliCR:
    """See report.paper.Plan."""

    name = "clicr"
    numbers = (4,)
    seeds = SEEDS

    def runs(self, request: Request) -> Sequence[PaperRun]:
        path = _vectors(request)
        settings = {"vectors.path": path, "data.answer_vectors": path}
        return [replace(run, settings=settings, vectors=()) for run in RUNS.values()]

    def steps(self, request: Request) -> Sequence[Step]:
        corpus = "demo_cloze" if request.corpus == "demo" else request.place
        out = request.folder / BASELINES.partition("/")[0]
        vectors = _vectors(request)
        flags = [f"--vectors={vectors}"] if vectors else []
        words = ("analyze", "cloze-baselines", f"--corpus={corpus}", *flags, f"--out={out}")
        return [Step(BASELINES, words, self.numbers)]

    def tables(self, request: Request) -> Sequence[str]:
        return [TABLE]

    def notes(self, request: Request) -> Sequence[str]:
        if path := _vectors(request):
            return [f"word vectors: {path}"]
        return [
            "no word vectors: the readers start from random ones, and there are neither "
            "similarities nor embedding scores: give --config.vectors.path=FILE"
        ]


PLAN = CliCR()


def _vectors(request: Request) -> str:
    """The file of word vectors of the readers, the similarities and the embedding scores."""
    default = request.vectors(VECTORS) if request.corpus == CLICR else None
    return request.fields.get("vectors.path", str(default or ""))
