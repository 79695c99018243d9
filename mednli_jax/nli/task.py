"""The TASK of sentence pairs: MedNLI, corpora in its form, and the user's own pairs.

Functions that train or score import jax when they are called, so that other commands start without
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from mednli_jax.data.arrays import NEW, Prepared, Rows
from mednli_jax.data.examples import LABELS
from mednli_jax.data.inputs import InputForm
from mednli_jax.data.labels import is_number
from mednli_jax.data.vectors import coverage_warnings
from mednli_jax.errors import ConfigError, UsageError
from mednli_jax.files.reading import shown_names
from mednli_jax.nli import page
from mednli_jax.nli.analyses import AnalysedPairs, pairs_of, paths, sections_of_file, stats
from mednli_jax.nli.augmentation.pairs import NO_AUGMENTATION
from mednli_jax.nli.augmentation.substitutions import substitutions
from mednli_jax.nli.config import (
    EMPTY,
    WITH_BUILDER,
    broken_rules,
    corpus_of,
    labels_of,
    padded_length,
    uses_features,
    uses_pieces,
    with_labels,
)
from mednli_jax.nli.corpus import BLANKS, NLICorpus, between_blanks
from mednli_jax.nli.encode.links import find_mentions, merge_entities
from mednli_jax.nli.read.corpora import CORPORA, OWN, RESTRICTED, licensed_files, source_files
from mednli_jax.nli.read.pair_rows import columns_of
from mednli_jax.nli.read.readers import (
    NO_TEST,
    NO_TEST_LABELS,
    quoted_cells,
    read_answers,
    read_nli_file,
)
from mednli_jax.nli.tables import reproduction, tables_3_to_7
from mednli_jax.nli.tables.categories import (
    categories_by_rules,
    category_report,
    read_categories,
    table_8_report,
)
from mednli_jax.nli.tables.runs import NAME, PAPER, TABLES
from mednli_jax.report.options import (
    Analysis,
    AnalysisOptions,
    EvaluationOptions,
    PaperTable,
    ReportOptions,
    TableOptions,
)
from mednli_jax.report.outcomes import read_finished
from mednli_jax.report.sections import Report, RunSections, Section
from mednli_jax.rundir import RunDirectory, RunResult
from mednli_jax.terminal import warn

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mednli_jax.experiment import Experiment, Fit
    from mednli_jax.finished import Run
    from mednli_jax.nli.boosting import Trees
    from mednli_jax.nli.scorer import NLIScorer
    from mednli_jax.tasks import BrokenRule, EmptyFields

FilesOf = Callable[[Path], Iterable[Path]]  # the data folder -> the files of a corpus in it
NOTES = "NOTEEVENTS.csv: apply for PhysioNet credentialed access at physionet.org/content/mimiciii"


class NLI:
    """The TASK of sentence pairs (see tasks.Task)."""

    name: str = "nli"
    corpora: str = "sentence pairs"
    row_noun: str = "pairs"
    models: Sequence[str] = ("features", "bow", "infersent", "esim", "fasttext", "encoder")
    form = InputForm((("premise", "sentence1"), ("hypothesis", "sentence2")), "a pair of sentences")
    flags: Mapping[str, Sequence[str]] = MappingProxyType({
        "report": ("categories", "categories_file", "paths"),
        "evaluate": ("config", "workdir", "probe", "partition", "merged", "predictions"),
    })  # fmt: skip
    choices: Mapping[str, Sequence[str]] = MappingProxyType({})
    empty: Sequence[EmptyFields] = EMPTY
    with_builder: Sequence[str] = WITH_BUILDER

    def rules(self, config: ConfigDict) -> Iterator[BrokenRule]:
        return broken_rules(config, self.with_builder)

    def accepts(self, name: str, module: type | None) -> bool:
        """Whether `name` is a model of this task: one of `models`, or a user's class, unless its
        attribute `task` names another task."""
        if ":" in name:
            return bool(getattr(module, "task", NLI.name) == NLI.name)
        return name in self.models

    def pairs(self, config: ConfigDict) -> NLICorpus:
        """The sentence pairs. A subclass whose examples are no pairs overrides `corpus`, never
        `pairs`."""
        return corpus_of(config)

    def corpus(self, config: ConfigDict) -> NLICorpus:
        return corpus_of(config)

    def scorer(self, config: ConfigDict) -> NLIScorer:
        from mednli_jax.nli.scorer import NLIScorer

        return NLIScorer(
            uses_pieces(config),
            padded_length(config),
            scored=labels_of(config.data).names,
        )

    with_labels = staticmethod(with_labels)

    def fit(self, config: ConfigDict) -> Fit | None:
        if not uses_features(config):
            return None
        from mednli_jax.nli import boosting

        return boosting.fit

    def predictor(self, run: Run) -> Trees | None:
        if run.result.model != "features":
            return None
        from mednli_jax.nli import boosting

        return boosting.Trees(run)

    def save_for_report(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Writes nothing: reports of pairs need the predictions alone."""

    licensed: Sequence[str] = tuple(licensed_files(RESTRICTED))

    @property
    def sources(self) -> Mapping[str, tuple[FilesOf, str]]:
        sources: dict[str, tuple[FilesOf, str]] = {}
        for name, corpus in CORPORA.items():
            if name != OWN:
                sources[name] = (partial(source_files, name), corpus.source)
        sources["notes"] = (_note_files, NOTES)
        return sources

    def warnings(self, prepared: Prepared) -> Iterator[str]:
        return warnings_of(prepared)

    def check_prepared(
        self, experiment: Experiment, prepared: Prepared, *, warn_below: int = 0
    ) -> None:
        """Checks the links of a corpus, if the model uses any. warn_below: see `check_links`."""
        if experiment.model.fields["knowledge"] != "none":
            # A corpus that data.limit cuts is only warned about: it may have no link by chance.
            least = math.inf if experiment.pairs.limit else warn_below
            check_links(prepared, warn_below=least)

    def run_sections(self, directory: RunDirectory, result: RunResult) -> RunSections:
        return page.run_sections(result)

    def closing_sections(self, directory: RunDirectory, result: RunResult) -> Sequence[Section]:
        return ()

    def evaluate(self, run: Run, options: EvaluationOptions) -> Report:
        if options.probe:
            return self._probe(run, options.probe)
        if options.merged:
            run = self.with_merged_entities(run, options.spans)
        return page.evaluate(run, options.split, options.partitions)

    def answers(self, path: Path, rows: Rows, config: ConfigDict) -> np.ndarray:
        """Logits [1, N, C] of a system's answers: 0 for the label that it gave, and minus infinity
        for the others."""
        labels, columns = labels_of(config.data), columns_of(config.data.columns)
        answer_N = np.array(read_answers(path, rows.name, rows.uids, labels, columns))
        return np.where(answer_N[:, None] == labels.names, 0.0, -np.inf)[None]

    def evaluate_answers(
        self, corpus: str, predictions: Path, options: EvaluationOptions
    ) -> Report:
        """Raises UsageError: answers to pairs are scored on the corpus of --config."""
        problem = "--corpus is for tasks that answer queries, not for sentence pairs"
        raise UsageError(problem, fix="give --config")

    def _probe(self, run: Run, path: Path) -> Report:
        """Reports the run's scores on the labelled pairs of a file, which is read with the labels,
        the columns and the tokeniser of the run's corpus."""
        data = run.config.data
        labels, columns = labels_of(data), columns_of(data.columns)
        split = read_nli_file(path, split=NEW, labels=labels, columns=columns)
        for line in quoted_cells(split.facts):
            warn(line)
        if run.manifest["tokeniser"] == BLANKS:
            split = between_blanks(split)
        return page.evaluate_probe(
            run, run.scorer.score(*run.rows_and_logits(split)), split.facts["file"]
        )

    def linked_pairs(self, config: ConfigDict) -> NLICorpus:
        """The pairs that a run was trained on, with a linker, whether or not its model uses
        links."""
        linked = config.copy_and_resolve_references()
        with linked.unlocked():  # the simplest settings with which corpus_of adds a linker
            linked.data.tokens = "words"
            linked.vectors.retrofit, linked.model.knowledge = "", "replace"
        return self.pairs(linked)

    def with_merged_entities(self, run: Run, spans: Path | None) -> Run:
        """The run on its own corpus, with entities as one token (Herlihy & Rudinger 2021, Table 6).

        spans: see NLICorpus.concept_source.
        """
        trained, corpus = run.experiment.pairs, self.linked_pairs(run.config)
        if trained.pieces or trained.linking:
            problem = "--merged is for a run on words alone, without word pieces and concepts"
            fix = "give a run of --config=hypothesis_only or premise_hypothesis_fasttext"
            raise UsageError(problem, fix=fix)
        splits = corpus.splits()
        source = corpus.concept_source(splits, spans)
        joined = {}
        for name, split in splits.items():
            mentions = find_mentions(split.examples, source, corpus.encoding).visible
            joined[name] = replace(split, examples=tuple(merge_entities(split.examples, mentions)))
        prepared = trained.encode(joined, run.vocabulary, run.vectors)
        merged_by = spans.name if spans else corpus.knowledge
        return run.with_arrays(prepared=prepared, merged_by=merged_by)

    def optional_sections(self, folders: Sequence[Path], options: ReportOptions) -> Report:
        """The sections of --categories, --categories_file and --paths."""
        report = Report({})
        if options.categories or options.categories_file:
            if options.categories_file:
                categories_of = read_categories(options.categories_file)
            else:
                corpus = self.linked_pairs(options.config_of(folders[0]))
                categories_of = categories_by_rules(corpus, options.split)
            runs = [read_finished(folder, options.split) for folder in folders]
            report = category_report(runs, categories_of, annotated=bool(options.categories_file))
        return replace(report, page_only=sections_of_file(options.paths))

    compare = staticmethod(page.compare)
    prediction = staticmethod(page.prediction)
    prediction_lines = staticmethod(page.prediction_lines)
    write_attention = staticmethod(page.write_attention)

    analyses: Mapping[str, Analysis[AnalysedPairs]] = MappingProxyType({
        "stats": stats,
        "paths": paths,
        "substitutions": substitutions,
    })  # fmt: skip
    alone: Sequence[str] = ("substitutions",)  # left out of `analyze all`: it writes a new corpus

    def analysed_corpus(self, config: ConfigDict, options: AnalysisOptions) -> AnalysedPairs:
        if config is None:
            raise UsageError("--config is missing", fix="--config=esim_kd, or --corpus=NAME")
        path = Path(options.corpus).expanduser() if options.corpus else None
        return pairs_of(self.corpus(config), path, options.spans)

    @property
    def tables(self) -> Mapping[str, PaperTable]:
        source = PAPER["source"]
        papers = {NAME: PaperTable(_reproduction, source)}
        for number in TABLES:
            fill = partial(_accuracies, number)
            papers[str(number)] = PaperTable(fill, source, systems=number == 3)
        errors = partial(table_8_report, linked=self.linked_pairs)
        return {**papers, "8": PaperTable(errors, source, shareable=False)}


TASK: NLI = NLI()


def _reproduction(runs: Path, options: TableOptions) -> Report:
    check = reproduction.check_reproduction(runs, options)
    return Report(check.to_json(), reproduction.sections(check))


def _accuracies(number: int, runs: Path, options: TableOptions) -> Report:
    table = tables_3_to_7.fill_table(TABLES[number], runs, options)
    if options.public:
        table = table.shareable()
    names = {name for filled in table.cells for name, _ in filled.cell.keys}
    folders = [runs / name for name in sorted(names)]
    return Report(table.to_json(), [tables_3_to_7.table_section(table)], runs=folders)


def _note_files(folder: Path) -> Iterator[Path]:
    return (folder / "notes").rglob("NOTEEVENTS.csv*")


# -- faults that the counts in the manifest of a prepared corpus show ------------------------------


MOST_NUMBERS = 10  # labels that are numbers; more are probably scores


def warnings_of(prepared: Prepared) -> Iterator[str]:
    """Yields messages on counts of the manifest that point to a mistake in the data."""
    manifest = prepared.manifest
    yield from coverage_warnings(manifest["vocabulary"])
    for split, facts in manifest["splits"].items():
        note = facts.get("note")
        if note in (NO_TEST, NO_TEST_LABELS, NO_AUGMENTATION):
            yield note.rstrip(".")
        yield from quoted_cells(facts)
        is_own = manifest["key"]["corpus"] == OWN
        yield from _label_warnings(split, facts.get("labels", {}), is_own)
    for split, counts_of in manifest.get("shared", {}).items():
        for earlier, counts in counts_of.items():
            if counts["pairs"]:
                share = f"{counts['pairs']:,} of {manifest['splits'][split]['rows']:,}"
                yield (
                    f"{split}: {share} pairs are in {earlier}, too (same premise and hypothesis), "
                    f"so scores on {split} are not those of new pairs"
                )
    knowledge = manifest["knowledge"]
    if "mentions" in knowledge:
        in_ontology, concepts = knowledge["concepts_in_ontology"], knowledge["concepts_mentioned"]
        if 2 * in_ontology < concepts:
            yield (
                f"{knowledge['mentions']['file']}: of its {concepts:,} concept ids {in_ontology:,} "
                f"are in the ontology '{knowledge['ontology']}'; are they ids of another "
                "terminology?"
            )


def _label_warnings(split: str, counts: Mapping[str, int], is_own: bool) -> Iterator[str]:
    """counts: label -> the pairs of a split that have it. is_own: whether the files are the
    user's."""
    is_train = split == "train"
    if is_own and is_train and set(LABELS).issuperset(counts):
        # `counts` names only labels that occur in a user's file: add the others of LABELS with 0.
        counts = {**dict.fromkeys(LABELS, 0), **counts}
    if is_train and len(counts) > MOST_NUMBERS and all(map(is_number, counts)):
        yield (
            f"{len(counts)} labels are numbers; if they are scores, map them to classes by "
            "config.data.labels, because each label is a class of its own"
        )
    absent = [label for label, count in counts.items() if not count]
    if absent:
        shown = shown_names(absent, "number")
        yield f"{split}: no pair has the label {shown}; is the file an excerpt?"


def check_links(prepared: Prepared, *, warn_below: float) -> None:
    """Raises ConfigError for a corpus without a link in the training pairs.

    warn_below: a number of training pairs. A corpus with fewer may lack links by chance; for it the
      error is only a warning.
    """
    # A corpus of cross-validation has a single split.
    name = "train" if "train" in prepared.splits else next(iter(prepared.splits))
    counts, size = prepared.manifest["knowledge"]["splits"][name], len(prepared.splits[name])
    if counts["pairs_with_links"]:
        return
    sides = f"{counts['premises']:,} premises and {counts['hypotheses']:,} hypotheses"
    problem = f"no path links the concepts of any of {size:,} training pairs; {sides} have concepts"
    fix = "give another ontology or file of mentions, or config.model.knowledge=none"
    error = ConfigError(problem, field="knowledge.ontology", fix=fix)
    if size >= warn_below:
        raise error
    warn(str(error))
