"""The TASK of cloze queries about passages: CliCR and corpora in its layout.

Functions that train or score import jax when they are called, so that other commands start without
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from mednli_jax.cloze import baselines, page, stats, tables
from mednli_jax.cloze.arrays import ClozeEncoding, ClozeTexts
from mednli_jax.cloze.clicr import BEGIN, END, LICENSED, SOURCE, parse_marked, source_files
from mednli_jax.cloze.corpus import DEMO, NAMES, ClozeCorpus
from mednli_jax.cloze.runs import TABLE
from mednli_jax.cloze.scores import ANSWERS
from mednli_jax.cloze.setups import SETUPS
from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.corpus import check_name, corpora_folder, corpus_folder, file_path
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.data.inputs import InputForm
from mednli_jax.data.vectors import coverage_warnings
from mednli_jax.errors import UsageError
from mednli_jax.files.writing import write_sealed
from mednli_jax.report.options import (
    AnalysedCorpus,
    Analysis,
    AnalysisOptions,
    EvaluationOptions,
    PaperTable,
    ReportOptions,
)
from mednli_jax.report.sections import Report, RunSections, Section
from mednli_jax.report.tables import published_figures
from mednli_jax.rundir import RunDirectory, RunResult
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.cloze.scorer import ClozeScorer
    from mednli_jax.experiment import Experiment
    from mednli_jax.finished import Run
    from mednli_jax.tasks import BrokenRule, EmptyFields


def check_marks(passage: str, query: str) -> tuple[str, str] | None:
    """Returns (problem, fix) for wrong marks or a wrong number of blanks; None for a good pair."""
    marked_passage, marked_query = parse_marked(passage), parse_marked(query)
    if len(marked_query.blanks) != 1 or marked_passage.blanks:
        fix = "write one in the query, and none in the passage"
        return f"has a wrong number of {PLACEHOLDER}", fix
    if marked_passage.stray or marked_query.stray:
        fix = f"give every {BEGIN} its {END}, with words between them"
        return "has marks that are unbalanced or mark nothing", fix
    return None


class Cloze:
    """The TASK of cloze queries (see tasks.Task)."""

    name = "cloze"
    corpora = "cloze queries"
    row_noun = "queries"
    models = ("ga_reader", "sa_reader")
    form = InputForm(
        fields=(("passage",), ("query",)),
        description="a passage and a query",
        check=check_marks,
        first_words=(f"{BEGIN}a{END}", PLACEHOLDER),
    )
    flags: Mapping[str, Sequence[str]] = MappingProxyType({
        "evaluate": ("vectors", "skills", "predictions", "corpus"),
    })  # fmt: skip
    choices: Mapping[str, Sequence[str]] = MappingProxyType({"data.setup": SETUPS})
    empty: Sequence[EmptyFields] = ()  # no field has to be empty
    licensed: Sequence[str] = LICENSED
    alone: Sequence[str] = ()  # `analyze all` takes no cloze corpora: nothing to leave out

    @property
    def sources(self) -> Mapping[str, tuple[Callable[[Path], Iterable[Path]], str]]:
        return {"clicr": (lambda folder: source_files(folder).values(), SOURCE)}

    @property
    def analyses(self) -> Mapping[str, Analysis[AnalysedCorpus]]:
        return {"cloze-stats": _statistics, "cloze-baselines": _baselines}

    @property
    def tables(self) -> Mapping[str, PaperTable]:
        return {TABLE: PaperTable(tables.report, published_figures("clicr")["source"])}

    def rules(self, config: ConfigDict) -> Iterator[BrokenRule]:
        """Yields (field, problem, fix) of each rule of cloze queries that a config breaks."""
        setup, pointer = config.data.setup, config.model.get("pointer")  # None for sa_reader
        if setup != "noent" and pointer not in (None, "sum"):
            problem = f"{pointer} is for phrases of several tokens, and in {setup} they have one"
            yield "model.pointer", problem, "give sum, or config.data.setup=noent"

    def accepts(self, name: str, module: type | None) -> bool:
        """True for our readers, and for a class of the user whose attribute `task` is "cloze"."""
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
            vectors_path=file_path(config.vectors.path, corpora_folder(data.dir)),
            vectors_dim=config.vectors.dim,
            vectors_seed=config.vectors.seed,
        )
        folder = None if data.name == DEMO else corpus_folder(data)
        return ClozeCorpus(data.name, encoding, folder, limit=data.limit)

    def scorer(self, config: ConfigDict) -> ClozeScorer:
        from mednli_jax.cloze.scorer import ClozeScorer

        data, pointer = config.data, config.model.get("pointer")  # None for sa_reader
        # In noent, "sum", "share" and "mean" score a candidate by all tokens that are one of its
        # words, "span" by the tokens of its mentions alone.
        return ClozeScorer(
            loose=data.setup == "noent" and pointer in ("sum", "share", "mean"),
            unnormalised=pointer == "sum",
            answer_vectors=file_path(data.answer_vectors, corpora_folder(data.dir)),
        )

    def fit(self, config: ConfigDict) -> None:
        """See Task.fit. The training loop fits readers."""

    def predictor(self, run: Run) -> None:
        """Returns None, see Task.predictor: a reader is a network."""

    def warnings(self, prepared: Prepared) -> Iterator[str]:
        """Yields a warning of words without vectors."""
        yield from coverage_warnings(prepared.manifest["vocabulary"])

    def check_prepared(
        self, experiment: Experiment, prepared: Prepared, *, warn_below: int = 0
    ) -> None:
        """Accepts every corpus."""

    def save_for_report(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Writes the accepted answers of dev and test, so that a report needs no corpus."""
        texts = ClozeTexts(prepared.arrays)
        splits = {}
        for name in {"dev", "test"} & prepared.splits.keys():
            splits[name] = [
                (query.uid, list(map(astuple, query.answers)), query.tags)
                for query in texts.queries(prepared.splits[name])
            ]
        write_sealed(directory.private / ANSWERS, {"splits": splits})

    def run_sections(self, directory: RunDirectory, result: RunResult) -> RunSections:
        return page.run_sections(directory.folder, result)

    def closing_sections(self, directory: RunDirectory, result: RunResult) -> Sequence[Section]:
        return ()

    def compare(self, folders: Sequence[Path], split: str) -> Report:
        return page.compare(folders, split)

    def optional_sections(self, folders: Sequence[Path], options: ReportOptions) -> Report:
        return Report({})

    def evaluate(self, run: Run, options: EvaluationOptions) -> Report:
        return page.evaluate(run, options)

    def answers(self, path: Path, rows: Rows, config: ConfigDict) -> NoReturn:
        fix = "give --corpus for answers to cloze queries"
        raise UsageError("--config takes answers to sentence pairs", fix=fix)

    def evaluate_answers(
        self, corpus: str, predictions: Path, options: EvaluationOptions
    ) -> Report:
        return page.evaluate_answers(corpus, predictions, options)

    def prediction(self, row: JsonObject) -> JsonObject:
        return page.prediction(row)

    def prediction_lines(self, rows: Iterable[JsonObject]) -> Iterator[str]:
        return page.prediction_lines(rows)

    def write_attention(self, run: Run, inputs: Sequence[tuple[str, str]]) -> Path:
        return page.write_attention(run, inputs)

    def analysed_corpus(self, config: ConfigDict, options: AnalysisOptions) -> AnalysedCorpus:
        """The corpus that --corpus names."""
        if not options.corpus or config is not None:
            problem = "analyze cloze-stats and cloze-baselines take a corpus by --corpus"
            fix = f"give --corpus={DEMO}, clicr or a folder"
            raise UsageError(f"{problem}, and no --config", fix=fix)
        return AnalysedCorpus(options.corpus)


TASK: Cloze = Cloze()


def _statistics(corpus: AnalysedCorpus, options: AnalysisOptions) -> Report:
    return stats.analysis(corpus.name, options.skills)


def _baselines(corpus: AnalysedCorpus, options: AnalysisOptions) -> Report:
    return baselines.analysis(corpus.name, options.vectors)
