"""The runs and files of Šuster & Daelemans 2018 (CliCR), and its plan for `reproduce`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from mednli_jax.report.options import PaperRun, Request, Step

TABLE = "clicr4"
CLICR = "clicr"
READERS = {
    "sa_anonym": ("sa", "anonym"),
    "sa_ent": ("sa", "ent"),
    "ga_anonym": ("ga", "anonym"),
    "ga_ent": ("ga", "ent"),
    "ga_noent": ("ga", "noent"),
}  # name of a run: its config and set-up
SEEDS = (0, 1, 2)
# Word vectors, first choice first: those that a search over fastText's settings chose (Appendix A),
# else 200-dimensional ones of PubMed and MIMIC-III.
VECTORS = ("clicr", "pubmed_mimic_200d")
RUNS: Mapping[str, PaperRun] = MappingProxyType(
    {
        name: PaperRun(name, config, {"data.setup": setup}, vectors=VECTORS)
        for name, (config, setup) in READERS.items()
    }
)
BASELINES = "baselines/cloze-baselines.json"


def answers_file(name: str, split: str) -> str:
    """The name of the private file with a baseline's answers."""
    return f"{name.replace(' ', '_')}.{split}.jsonl"


class CliCR:
    """The plan of the paper's reproduction, see report.options.ReproductionPlan."""

    name = "clicr"
    numbers = (4,)
    seeds = SEEDS

    def runs(self, request: Request) -> Sequence[PaperRun]:
        path = _vectors(request)
        # `_vectors` has chosen already. So each run gets the path ("" = no vectors) as a setting,
        # and no names to choose from.
        settings = {"vectors.path": path, "data.answer_vectors": path}
        return [
            replace(run, settings={**run.settings, **settings}, vectors=()) for run in RUNS.values()
        ]

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
            "no word vectors: the readers start from random ones, and the baselines sim-word and "
            "sim-entity and the embedding scores are left out: give config.vectors.path=FILE"
        ]


PLAN = CliCR()


def _vectors(request: Request) -> str:
    """The file of word vectors for readers, the baselines sim-word and sim-entity, and embedding
    scores; "" for none."""
    default = request.vectors(VECTORS) if request.corpus == CLICR else None
    return request.fields.get("vectors.path", str(default or ""))
