"""Cloze queries about passages as the commands see them: CliCR and corpora in its layout.

Functions that train or score import jax when they are called, so that other commands start without
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from mednli_jax.cloze import baselines, page, stats, tables
from mednli_jax.cloze.arrays import ClozeEncoding, ClozeTexts
from mednli_jax.cloze.clicr import BEGIN, END, LICENSED, SOURCE, parse_marked, source_files
from mednli_jax.cloze.corpus import DEMO, NAMES, ClozeCorpus
from mednli_jax.cloze.runs import TABLE
from mednli_jax.cloze.scores import ANSWERS
from mednli_jax.cloze.setups import SETUPS
from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.corpus import check_name, corpus_folder, data_folder, file_path
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.data.inputs import InputForm
from mednli_jax.data.vectors import coverage_warnings
from mednli_jax.errors import UsageError
from mednli_jax.files.paths import local_path
from mednli_jax.files.writing import write_sealed
from mednli_jax.report.options import (
    AnalysisOptions,
    EvaluationOptions,
    PaperTable,
    ReportOptions,
)
from mednli_jax.report.sections import Report, RunSections, Section
from mednli_jax.report.tables import published
from mednli_jax.rundir import RunDirectory, RunResult
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    import flax.linen as nn
    from ml_collections import ConfigDict

    from mednli_jax.cloze.scorer import ClozeScorer
    from mednli_jax.experiment import Experiment
    from mednli_jax.finished import Run
    from mednli_jax.report.options import Analysis
    from mednli_jax.tasks import BrokenRule, EmptyFields


def check_marks(passage: str, query: str) -> tuple[str, str] | None:
    """(problem, fix) for wrong marks or a wrong number of blanks; None for a good pair."""
    marked_passage, marked_query = parse_marked(passage), parse_marked(query)
    if len(marked_query.blanks) != 1 or marked_passage.blanks:
        fix = "write one in the query, and none in the passage"
        return f"has a wrong number of {PLACEHOLDER}", fix
    if marked_passage.stray or marked_query.stray:
        fix = f"give every {BEGIN} its {END}, with words between them"
        return "has marks that are unbalanced or mark nothing", fix
    return None


class Named(NamedTuple):
    """A corpus by its name, a folder or the name of a known one, which the analysis reads
    itself."""

    name: str
    notes: Sequence[str] = ()
    splits: None = None
    knowledge: str = ""


class Cloze:
    """The TASK of cloze queries (see tasks.Task)."""

    name = "cloze"
    corpora = "cloze queries"
    row_noun = "queries"
    models = ("ga_reader", "sa_reader")
    form = InputForm(
        (("passage",), ("query",)),
        "a passage and a query",
        check_marks,
        (f"{BEGIN}a{END}", PLACEHOLDER),
    )
    flags: Mapping[str, Sequence[str]] = MappingProxyType({
        "evaluate": ("vectors", "skills", "scores", "predictions", "corpus"),
    })  # fmt: skip
    choices: Mapping[str, Sequence[str]] = MappingProxyType({"data.setup": SETUPS})
    empty: Sequence[EmptyFields] = ()

    def rules(self, config: ConfigDict) -> Iterator[BrokenRule]:
        """(field, problem, fix) of each rule of cloze queries that a config breaks."""
        setup = config.data.setup
        if config.model.get("pointer", "sum") != "sum" and setup != "noent":
            yield "model.pointer", "a phrase is one token", "give sum, or config.data.setup=noent"

    def accepts(self, name: str, module: type[nn.Module] | None) -> bool:
        """A class of the user names its task."""
        return name in self.models or getattr(module, "task", "") == self.name

    def with_labels(self, config: ConfigDict) -> ConfigDict:
        return config

    def pairs(self, config: ConfigDict) -> NoReturn:
        problem = "--config: its corpus does not hold sentence pairs"
        raise UsageError(problem, fix="give a config for pairs")

    def corpus(self, config: ConfigDict) -> ClozeCorpus:
        data = config.data
        check_name(data.name, NAMES)
        encoding = ClozeEncoding(
            data.setup,
            max_passage=data.max_passage,
            max_words=data.max_words,
            query_bounds=data.query_bounds,
            vectors_sd=config.vectors.random_sd,
            vectors_path=file_path(config.vectors.path, data_folder(data.dir)),
            vectors_dim=config.vectors.dim,
            vectors_seed=config.vectors.seed,
        )
        folder = None if data.name == DEMO else corpus_folder(data)
        return ClozeCorpus(data.name, encoding, folder, limit=data.limit)

    def scorer(self, config: ConfigDict) -> ClozeScorer:
        from mednli_jax.cloze.scorer import ClozeScorer

        data, model = config.data, config.model
        return ClozeScorer(
            # In unmarked passages every word of a candidate counts, unless a pointer reads the
            # spans.
            loose=data.setup == "noent" and model.get("pointer", "span") != "span",
            masses=model.get("pointer") == "sum",
            answer_vectors=file_path(data.answer_vectors, data_folder(data.dir)),
        )

    def fit(self, config: ConfigDict) -> None:
        """None: readers are trained by the loop."""

    def predictor(self, run: Run) -> None:
        """None: readers are networks."""

    def warnings(self, prepared: Prepared) -> Iterator[str]:
        """A warning for words without vectors."""
        yield from coverage_warnings(prepared.manifest["vocabulary"])

    def check_prepared(
        self, experiment: Experiment, prepared: Prepared, *, excerpt: int = 0
    ) -> None:
        """Accepts every corpus."""

    def keep(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Writes the accepted answers of dev and test, so that a report needs no corpus."""
        texts = ClozeTexts(prepared.arrays)
        splits = {}
        for name in {"dev", "test"} & prepared.splits.keys():
            rows = []
            for query in texts.queries(prepared.splits[name]):
                answers = list(map(astuple, query.answers))
                rows.append([query.uid, answers, query.tags])
            splits[name] = rows
        write_sealed(directory.private / ANSWERS, {"splits": splits})

    def run_sections(self, directory: RunDirectory, result: RunResult) -> RunSections:
        return page.run_sections(directory.folder, result)

    def closing_sections(self, directory: RunDirectory, result: RunResult) -> Sequence[Section]:
        return ()

    def compare(self, folders: Sequence[Path], split: str) -> Report:
        return page.compare(folders, split)

    def more_sections(self, folders: Sequence[Path], options: ReportOptions) -> Report:
        return Report({})

    def evaluate(self, run: Run, options: EvaluationOptions) -> Report:
        return page.evaluate(run, options)

    def answers(self, path: Path, rows: Rows, config: ConfigDict) -> NoReturn:
        raise UsageError("--config is for answers to pairs", fix="for queries give --corpus")

    def evaluate_answers(
        self, corpus: str, predictions: Path, options: EvaluationOptions
    ) -> Report:
        return page.evaluate_answers(corpus, predictions, options)

    licensed: Sequence[str] = LICENSED

    @property
    def sources(self) -> Mapping[str, tuple[Callable[[Path], Iterable[Path]], str]]:
        return {"clicr": (lambda folder: source_files(folder).values(), SOURCE)}

    def prediction(self, row: JsonObject) -> JsonObject:
        return page.prediction(row)

    def prediction_lines(self, rows: Iterable[JsonObject]) -> Iterator[str]:
        return page.prediction_lines(rows)

    def write_attention(self, run: Run, inputs: Sequence[tuple[str, str]]) -> Path:
        return page.write_attention(run, inputs)

    @property
    def analyses(self) -> Mapping[str, Analysis[Named]]:
        return {"cloze-stats": _statistics, "cloze-baselines": _baselines}

    alone: Sequence[str] = ()

    def analysed(self, config: ConfigDict, options: AnalysisOptions) -> Named:
        """The corpus of --corpus, by its name."""
        if not options.corpus or config is not None or (options.scores and not options.skills):
            fix = f"give --corpus={DEMO}, clicr or a folder, and --scores with --skills"
            raise UsageError("analyze cloze-stats and cloze-baselines: are for a corpus", fix=fix)
        return Named(options.corpus)

    @property
    def tables(self) -> Mapping[str, PaperTable]:
        return {TABLE: PaperTable(tables.report, published("clicr")["source"])}


TASK: Cloze = Cloze()


def _statistics(corpus: Named, options: AnalysisOptions) -> Report:
    scores = [local_path(file, "--scores") for file in options.scores]
    return stats.analysis(corpus.name, options.skills, scores)


def _baselines(corpus: Named, options: AnalysisOptions) -> Report:
    return baselines.analysis(corpus.name, options.vectors)
