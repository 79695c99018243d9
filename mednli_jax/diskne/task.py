"""The TASK of DisKnE: sentence pairs that are trained and tested in folds, one for each disease."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mednli_jax.data.examples import LABELS
from mednli_jax.diskne import comparison, scores, tables
from mednli_jax.diskne.corpus import FILE, NAMES, NEGATIVES, DisKnECorpus
from mednli_jax.diskne.data import CATEGORIES, WORDINGS, annotation_files
from mednli_jax.diskne.folds import MOST_SEED, FoldChoice
from mednli_jax.nli.config import corpus_of, padded_length, uses_pieces
from mednli_jax.nli.task import NLI
from mednli_jax.report.options import PaperTable
from mednli_jax.report.sections import Report, RunSections, Section
from mednli_jax.report.tables import published_figures
from mednli_jax.rundir import RunDirectory, RunResult

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.diskne.scorer import DisKnEScorer
    from mednli_jax.experiment import Fit
    from mednli_jax.tasks import BrokenRule

NONE = "DisKnE has no such setting"
NUMBERS = "12345678"
LACKING = ("probe", "predictions")  # flags of `evaluate` for pairs


def names_in(values: Iterable[object]) -> tuple[str, ...]:
    """The names in a tuple of a config. The command line sets an empty tuple as one string with
    commas."""
    joined = ",".join(map(str, values))
    return tuple(name for name in joined.split(",") if name)


def _always(config: ConfigDict) -> bool:
    return True


def _is_file(config: ConfigDict) -> bool:
    return bool(config.data.name == FILE)


class DisKnE(NLI):
    """The TASK of DisKnE's folds (see tasks.Task)."""

    name = "diskne"
    corpora = "diseases"
    flags = MappingProxyType({
        "report": NLI.flags["report"],
        "evaluate": tuple(flag for flag in NLI.flags["evaluate"] if flag not in LACKING),
    })  # fmt: skip
    choices = MappingProxyType(
        {"diskne.wording": ("", *WORDINGS), "diskne.negatives": ("", *NEGATIVES)}
    )
    empty = (
        *NLI.empty,
        (
            "data.genre data.limit data.labels data.columns data.augment data.partition "
            "train.debias",
            _always,
            NONE,
        ),
        ("transfer.init_from", _always, "folds cannot start from a run"),
        ("diskne.wording diskne.negatives", _is_file, "the files decide it"),
    )
    with_builder = ()
    licensed = ("diskne",)

    @property
    def sources(self) -> Mapping[str, tuple[Callable[[Path], Iterable[Path]], str]]:
        about = "diskne/*.csv, the published annotations, read beside mednli/"
        return {"diskne": (annotation_files, about)}

    def rules(self, config: ConfigDict) -> Iterator[BrokenRule]:
        if max(config.seeds) > MOST_SEED:
            yield "seeds", f"with folds a seed is at most {MOST_SEED}", "give e.g. 0,1,2"
        yield from super().rules(config)
        if set(names_in(config.diskne.categories)) - set(CATEGORIES):
            fix = f"give some of {', '.join(CATEGORIES)}"
            yield "diskne.categories", "a category is unknown", fix

    def corpus(self, config: ConfigDict) -> DisKnECorpus:
        choice = config.diskne
        of_diskne = partial(
            DisKnECorpus,
            wording=choice.wording,
            negatives=choice.negatives,
            names_from="" if choice.ontology == "none" else choice.ontology,
        )
        return corpus_of(config, of_diskne, NAMES)

    def scorer(self, config: ConfigDict) -> DisKnEScorer:
        from mednli_jax.diskne.scorer import DisKnEScorer

        # The published scripts train two classes, positive and negative: the first two of LABELS.
        classes = tuple(range(len(LABELS)))[: config.model.get("num_classes")]
        return DisKnEScorer(uses_pieces(config), padded_length(config), classes=classes)

    def with_labels(self, config: ConfigDict) -> ConfigDict:
        return config

    def fit(self, config: ConfigDict) -> Fit:
        from mednli_jax.diskne.scorer import fit

        choice = FoldChoice(
            at_once=config.diskne.at_once,
            diseases=names_in(config.diskne.diseases),
            categories=names_in(config.diskne.categories),
        )
        return partial(fit, choice=choice)

    def run_sections(self, directory: RunDirectory, result: RunResult) -> RunSections:
        return scores.run_sections(directory.folder)

    def closing_sections(self, directory: RunDirectory, result: RunResult) -> Sequence[Section]:
        return scores.run_sections(directory.folder).before

    def compare(self, folders: Sequence[Path], split: str) -> Report:
        return comparison.compare(folders, split)

    analyses = MappingProxyType({})  # the pairs of DisKnE are those of MedNLI
    alone = ()

    @property
    def tables(self) -> Mapping[str, PaperTable]:
        source = published_figures("diskne")["source"]
        paper_tables = {}
        for number in NUMBERS:  # of single diseases
            table = PaperTable(partial(tables.report, number), source, shareable=False)
            paper_tables[f"{tables.NAME}{number}"] = table
        return paper_tables


TASK: DisKnE = DisKnE()
