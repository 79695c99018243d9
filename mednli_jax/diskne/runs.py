"""The runs of Alghanmi et al. 2021 (DisKnE), and its plan for `reproduce`.

Their folders are main/, table7/ and table8/. The paper has BERT with four pretrained weights; the
other systems are ours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from mednli_jax.report.options import PaperRun, Request, Settings, Step
from mednli_jax.report.tables import published_figures

MODELS: Sequence[str] = published_figures("diskne")["models"]
STRONGEST = "ClinicalBERT"  # of Table 7
BERT_BASE: Settings = MappingProxyType(
    {
        "model.hidden_size": 768,
        "model.layers": 12,
        "model.attention_heads": 12,
        "model.intermediate_size": 3072,
    }
)
MAIN, WORDINGS, RANDOM = "main", "table7", "table8"
FOLDERS = {**dict.fromkeys("123456", MAIN), "7": WORDINGS, "8": RANDOM}
BERT = PaperRun("BERT", "diskne_bert")
ESIM = PaperRun("ESIM", "diskne_esim")
OWN_SYSTEMS = (
    PaperRun("BOW", "diskne_bow"),
    ESIM,
    PaperRun("ESIM-KD", "diskne_esim_kd"),
    PaperRun("ESIM-hypothesis", "diskne_esim", {"data.hypothesis_only": True}),
)
RANDOM_NEGATIVES: Settings = MappingProxyType({"diskne.negatives": "random"})


def wordings() -> Iterator[tuple[str, Settings]]:
    """Yields (name of a run, its settings) of Table 7: wordings of the hypothesis, with and without
    the premise."""
    for wording in ("full", "name"):
        settings: Settings = {"diskne.wording": wording}
        yield wording, settings
        yield f"hypothesis-{wording}", {**settings, "data.hypothesis_only": True}


def settings_of(folder: str, name: str) -> Settings:
    """The settings of the paper's run in a folder, besides those of its weights."""
    if folder == RANDOM:
        return RANDOM_NEGATIVES
    if folder == WORDINGS:
        return dict(wordings()).get(name, {})
    own = {run.name: run.settings for run in OWN_SYSTEMS}
    return own.get(name, {})


WORDINGS_TABLE, RANDOM_TABLE = 7, 8


class DisKnE:
    """The plan of the paper's reproduction, see report.options.ReproductionPlan."""

    name = "diskne"
    numbers = (1, 2, 3, 4, 5, 6, WORDINGS_TABLE, RANDOM_TABLE)
    seeds = ()

    def runs(self, request: Request) -> Sequence[PaperRun]:
        """The runs of BERT with each of the weights; without weights those of ESIM and our other
        systems."""
        tables = _tables(request)
        berts = [_bert(request, name) for name in dict.fromkeys((*MODELS, *request.weights))]
        runs: list[PaperRun] = []
        if tables - {WORDINGS_TABLE, RANDOM_TABLE}:
            for run in OWN_SYSTEMS:
                runs.append(_in_folder(MAIN, replace(run, optional=bool(request.weights))))
            for run in berts:
                runs.append(_in_folder(MAIN, run))
        if WORDINGS_TABLE in tables:
            runs += _wording_runs(request)
        if RANDOM_TABLE in tables:
            for run in berts if request.weights else [ESIM]:
                runs.append(_in_folder(RANDOM, _with_settings(run, RANDOM_NEGATIVES)))
        return runs

    def steps(self, request: Request) -> Sequence[Step]:
        return []

    def tables(self, request: Request) -> Sequence[str]:
        return [f"diskne{number}" for number in sorted(_tables(request))]

    def notes(self, request: Request) -> Sequence[str]:
        if request.corpus == "file" and len(_tables(request)) < len(request.tables):
            return ["no Tables 7 and 8: the files decide the wording and the negatives"]
        return []


PLAN = DisKnE()


def _tables(request: Request) -> set[int]:
    """The tables that the corpus can have."""
    decided = {WORDINGS_TABLE, RANDOM_TABLE} if request.corpus == "file" else set()
    return set(request.tables) - decided


def _bert(request: Request, name: str) -> PaperRun:
    """The run of BERT with some weights; "" in place of their folder means random ones."""
    settings: dict[str, str | float] = {}
    if place := request.weights.get(name, ""):
        settings = {"model.weights": place, "train.learning_rate": 2e-5}
    return replace(BERT, name=name, settings=settings, weights=name)


def _wording_runs(request: Request) -> Iterator[PaperRun]:
    strongest = ESIM
    if request.weights:
        first = next(iter(request.weights))
        strongest = _bert(request, STRONGEST if STRONGEST in request.weights else first)
    for name, settings in wordings():
        yield _in_folder(WORDINGS, replace(_with_settings(strongest, settings), name=name))


def _with_settings(run: PaperRun, settings: Settings) -> PaperRun:
    return replace(run, settings={**run.settings, **settings})


def _in_folder(folder: str, run: PaperRun) -> PaperRun:
    return replace(run, name=f"{folder}/{run.name}")
