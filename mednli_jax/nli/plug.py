"""Sentence pairs as the commands see them: MedNLI, corpora in its form, and the user's own pairs.

Functions that train or score import jax when they are called, so that other commands start without
it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mednli_jax.data.arrays import NEW, Prepared, Rows
from mednli_jax.data.corpus import check_name, corpus_folder, data_folder, file_path, vectors_of
from mednli_jax.data.examples import LABELS
from mednli_jax.data.inputs import Form
from mednli_jax.data.vectors import coverage_warnings
from mednli_jax.data.wordpiece import find_weights
from mednli_jax.errors import ConfigError, UsageError, config_field
from mednli_jax.knowledge.ontology import RELATIONS, OntologyOptions
from mednli_jax.nli import page, reproduction, tables
from mednli_jax.nli.analyses import Pairs, pairs_of, paths, stats
from mednli_jax.nli.categories import error_kinds
from mednli_jax.nli.corpora import CORPORA, RESTRICTED, licensed, source_files
from mednli_jax.nli.corpus import (
    BLANKS,
    FORMATS,
    NAMES,
    Linking,
    NLICorpus,
    Terminology,
    between_blanks,
    has_format,
)
from mednli_jax.nli.corpus_stats import sections_of_file
from mednli_jax.nli.encoding import Encoding, PieceEncoding, find_mentions, merged
from mednli_jax.nli.readers import (
    NO_TEST,
    UNLABELLED,
    class_of_label,
    quoted_cells,
    read_answers,
    read_nli_file,
    repeated_labels,
)
from mednli_jax.nli.substitutions import substitutions
from mednli_jax.report.options import (
    AnalysisOptions,
    EvaluationOptions,
    PaperTable,
    ReportOptions,
    TableOptions,
)
from mednli_jax.report.sections import Report, RunSections, Section
from mednli_jax.rundir import RunDirectory, RunResult
from mednli_jax.terminal import warn

if TYPE_CHECKING:
    from mednli_jax.nli.task import NLITask

LEAVE = "leave it out"
RETROFITS = ("ontology", "concepts", "unit")
KNOWLEDGE = {
    "esim": ("none", "replace", "bias", "typed"),
    "features": ("none", "paths"),
    "bert": ("none", "bias"),
    "encoder": ("none", "bias"),
}


def of_pieces(config):
    return config.data.tokens == "pieces"


def of_features(config):
    return config.model.name == "features"


def of_rows(config):
    """Whether the model trains only single rows of its table, by plain SGD."""
    return config.model.name == "fasttext"


def has_mentions(config):
    """Whether the concepts of a config come from a file."""
    return config.model.knowledge != "none" and bool(config.knowledge.mentions)


def named_relations(value: str) -> tuple[str, ...]:
    """The names in a config's knowledge.relations; () where it is one of RELATIONS."""
    names = () if value in RELATIONS else (name.strip() for name in value.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


class NLI:
    """The TASK of sentence pairs (see tasks)."""

    name: str = "nli"
    base: str = "nli"
    corpora: str = "sentence pairs"
    units: str = "pairs"
    models: Sequence[str] = ("features", "bow", "infersent", "esim", "fasttext", "bert", "encoder")
    form = Form((("premise", "sentence1"), ("hypothesis", "sentence2")), "a pair of sentences")
    flags: Mapping[str, Sequence[str]] = MappingProxyType({
        "report": ("categories", "categories_file", "paths"),
        "evaluate": ("config", "workdir", "probe", "partition", "merged", "predictions"),
    })  # fmt: skip
    choices: Mapping[str, Sequence[str]] = MappingProxyType({})
    empty: Sequence[tuple[str, Callable[[Any], bool], str]] = (
        (
            "vectors.path vectors.retrofit knowledge.mentions",
            of_pieces,
            "word pieces do not use it",
        ),
        (
            "model.knowledge",
            lambda config: config.data.tokens == BLANKS,
            "concepts are not found in tokens 'blanks'",
        ),
        (
            "knowledge.types knowledge.abbreviations",
            has_mentions,
            "is for the linker, not for mentions",
        ),
        ("transfer.init_from", of_features, "features have no weights to transfer"),
        ("train.weight_decay train.clip", of_rows, "model 'fasttext' has no such setting"),
        ("vectors.path vectors.retrofit", of_rows, "model 'fasttext' has no such setting"),
    )

    def rules(self, config: Any) -> Iterator[tuple[str, str, str]]:
        """(field, what is wrong, the fix) of each rule of sentence pairs that a config breaks."""
        data, model, knowledge = config.data, config.model, config.knowledge
        typed = model.knowledge == "typed"
        if config.train.shuffle == "binned":
            yield "train.shuffle", "'binned' is for passages", "give even or random"
        if of_rows(config) and config.train.optimizer != "sgd":
            yield "train.optimizer", "model 'fasttext' is trained by sgd alone", "give sgd"
        if of_pieces(config) and "weights" not in model:
            yield "data.tokens", "this model reads words", "leave it out, or give model bert"
        if data.builder == "tfds" and data.name not in self.with_builder:
            yield "data.builder", "this corpus has no TFDS builder", LEAVE
        classes = set(class_of_label(data.labels).values()) - {UNLABELLED}
        if data.labels and (len(classes) < 2 or classes - set(LABELS)):
            fix = f"e.g. yes:entailment,no:contradiction; classes are {', '.join(LABELS)}, and {UNLABELLED} for none"
            yield "data.labels", "needs two classes or three, each as label:class", fix
        if twice := repeated_labels(data.labels):
            yield (
                "data.labels",
                f"gives a label twice: {', '.join(twice)}",
                "give each label of your files once",
            )
        if data.labels and data.name != "file":
            yield "data.labels", "is for files of your own", f"{LEAVE}, or give the variant :file"
        if data.tokens == BLANKS and config.vectors.retrofit == "concepts":
            yield "vectors.retrofit", "tokens 'blanks' have no concepts", LEAVE
        if knowledge.mentions and not has_format(knowledge.mentions):
            yield "knowledge.mentions", "unknown file ending", FORMATS
        if has_mentions(config) and knowledge.permute_seed is not None:
            yield "knowledge.permute_seed", "has no effect on config.knowledge.mentions", LEAVE
        forms = KNOWLEDGE.get(model.name, ("none", "replace", "bias"))
        if model.knowledge not in forms:
            yield (
                "model.knowledge",
                f"unknown value '{model.knowledge}'",
                f"give one of {', '.join(forms)}",
            )
        if knowledge.relations not in RELATIONS and not (
            typed and named_relations(knowledge.relations)
        ):
            also = "with knowledge 'typed' also names of relations"
            yield (
                "knowledge.relations",
                "unknown value",
                f"give one of {', '.join(RELATIONS)}; {also}",
            )
        if typed and model.masking == "paper":
            yield "model.masking", "'paper' is not for knowledge 'typed'", "give masked"
        if typed and model.weighting != "auto":
            yield "model.weighting", "typed relations have no such weights", LEAVE
        if model.knowledge != "none" and model.get("pooling") == "last":
            yield "model.pooling", "'last' cannot pool attention over links", "give max or mean"

    with_builder: Sequence[str] = ("mednli", "mediqa_nli", "snli", "multinli")

    def accepts(self, name: str, module: Any) -> bool:
        """A class of the user may name another task."""
        return name in self.models or (
            ":" in name and getattr(module, "task", NLI.name) == NLI.name
        )

    def pairs(self, config: Any) -> NLICorpus:
        return corpus_of(config)

    def corpus(self, config: Any) -> NLICorpus:
        return corpus_of(config)

    def scorer(self, config: Any) -> NLITask:
        from mednli_jax.nli.task import NLITask

        return NLITask(**scorer_fields(config))

    def fit(self, config: Any) -> Callable | None:
        if not of_features(config):
            return None
        from mednli_jax.nli import boosting

        return boosting.fit

    def predictor(self, run: Any) -> Any:
        if run.result.model != "features":
            return None
        from mednli_jax.nli import boosting

        return boosting.Trees(run)

    def keep(self, directory: RunDirectory, prepared: Prepared) -> None:
        """Writes nothing: reports of pairs need the predictions alone."""

    licensed: Sequence[str] = tuple(licensed(RESTRICTED))

    @property
    def sources(self) -> Mapping[str, tuple[Callable[[Path], Iterable[Path]], str]]:
        named = {
            name: (partial(source_files, name), of.source)
            for name, of in CORPORA.items()
            if name != "file"
        }
        notes = "NOTEEVENTS.csv: apply for PhysioNet credentialed access at physionet.org/content/mimiciii"
        return {
            **named,
            "notes": (lambda folder: (folder / "notes").rglob("NOTEEVENTS.csv*"), notes),
        }

    def warnings(self, prepared: Prepared) -> Iterator[str]:
        """Warnings of words without vectors, a missing split, quoted cells, a class without pairs,
        and shared pairs."""
        yield from coverage_warnings(prepared.manifest["vocabulary"])
        for split, facts in prepared.manifest["splits"].items():
            if facts.get("note") == NO_TEST:
                yield NO_TEST.rstrip(".")
            yield from quoted_cells(facts)
            if none := [label for label, count in facts.get("labels", {}).items() if not count]:
                fix = "; a corpus of two classes needs --config.data.labels (docs/data.md)" * (
                    split == "train"
                )
                yield f"{split}: no pair has the label {' or '.join(none)}{fix}"
        for split, of_earlier in prepared.manifest.get("shared", {}).items():
            for earlier, counts in of_earlier.items():
                if counts["pairs"]:
                    size = prepared.manifest["splits"][split]["rows"]
                    yield (
                        f"{split}: {counts['pairs']:,} of {size:,} pairs are in {earlier}, too (same premise and "
                        f"hypothesis), so scores on {split} are not those of new pairs"
                    )

        knowledge = prepared.manifest["knowledge"]
        if (
            "mentions" in knowledge
            and 2 * knowledge["concepts_in_ontology"] < knowledge["concepts_mentioned"]
        ):
            yield (
                "{mentions[file]}: only {concepts_in_ontology:,} of its {concepts_mentioned:,} concepts are in the "
                "ontology '{ontology}'; does it have ids of another terminology?"
            ).format_map(knowledge)

    def check_prepared(self, experiment: Any, prepared: Prepared, *, excerpt: int = 0) -> None:
        """Raises ConfigError where the model reads links between concepts, and no training pair has
        one.

        excerpt: with fewer training pairs, and with data.limit, this is a warning: a few pairs may
        have none by chance.
        """
        name = (
            "train" if "train" in prepared.splits else next(iter(prepared.splits))
        )  # folds have one split
        knowledge, size = prepared.manifest["knowledge"], len(prepared.splits[name])
        if (
            experiment.model.fields["knowledge"] == "none"
            or knowledge["splits"][name]["pairs_with_links"]
        ):
            return
        counts = "{premises:,} premises, {hypotheses:,} hypotheses with a concept".format_map(
            knowledge["splits"][name]
        )
        problem, field = (
            f"of {size:,} training pairs none has a link ({counts})",
            "knowledge.ontology",
        )
        if experiment.corpus.limit or size < excerpt:
            warn(str(ConfigError(problem, field=field)))
            return
        without = config_field("model.knowledge", "none")
        fix = ("give another ontology or file of mentions, or train without (", without, ")")
        raise ConfigError(problem, field=field, fix=fix)

    def run_sections(self, directory: RunDirectory, result: RunResult) -> RunSections:
        return page.run_sections(result)

    def closing_sections(self, directory: RunDirectory, result: RunResult) -> Sequence[Section]:
        return ()

    def compare(self, folders: Sequence[Path], split: str) -> Report:
        return page.compare(folders, split)

    def evaluate(self, run: Any, options: EvaluationOptions) -> Report:
        return page.evaluate(run, options.split, options.partitions)

    def answers(self, path: Path, rows: Rows, config: Any) -> np.ndarray:
        """Logits [1, N, C] of a system's answers: 0 for the label that it gave, and minus infinity
        for the others."""
        labels = np.array(read_answers(path, rows.uids, config.data.labels))
        return np.where(labels[:, None] == LABELS, 0.0, -np.inf)[None]

    def probe(self, run: Any, path: Path) -> Report:
        """The scores of the labelled pairs of a file, which the run reads as its corpus."""
        split = read_nli_file(path, split=NEW, labels=run.config.data.labels)
        for line in quoted_cells(split.facts):
            warn(line)
        if run.manifest["tokeniser"] == BLANKS:
            split = between_blanks(split)
        return page.evaluate_probe(run, run.task.score(*run.of_new(split)), split.facts["file"])

    def linked(self, config: Any) -> NLICorpus:
        """The pairs that a run was trained on, linked to concepts, whether or not its model uses
        links."""
        other = config.copy_and_resolve_references()
        with other.unlocked():
            other.data.tokens = "words"
            other.vectors.retrofit, other.model.knowledge = "", "replace"
        return self.pairs(other)

    def merged(self, run: Any, spans: Path | None) -> Any:
        """The run on its own corpus, with entities as one token (Herlihy & Rudinger 2021, Table 6).

        spans: see NLICorpus.recogniser.
        """
        trained, corpus = run.experiment.corpus, self.linked(run.config)
        if trained.pieces or trained.linking:
            problem = "--merged is for a run that reads only the words of one whole corpus"
            fix = "give a run of --config=hypothesis_only or premise_hypothesis_fasttext"
            raise UsageError(problem, fix=fix)
        splits = corpus.splits()
        finder = corpus.recogniser(splits, spans)
        joined = {}
        for name, split in splits.items():
            mentions = find_mentions(split.examples, finder, corpus.encoding).visible
            joined[name] = replace(split, examples=tuple(merged(split.examples, mentions)))
        prepared = trained.encoded(joined, run.vocabulary, run.prepared.vectors)
        by = spans.name if spans else f"{corpus.ontology.name} {corpus.ontology.version}"
        return run.having(prepared=prepared, merged_by=by)

    def more_sections(self, folders: Sequence[Path], options: ReportOptions) -> Report:
        found, file = Report({}), options.categories_file
        if options.categories or file:
            found = error_kinds(
                folders, options.split, file, lambda run: self.linked(options.config_of(run))
            )
        return replace(found, page_only=sections_of_file(options.paths))

    def prediction(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return page.prediction(row)

    def prediction_lines(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        return page.prediction_lines(rows)

    def write_attention(self, run: Any, inputs: Sequence[tuple[str, str]]) -> Path:
        return page.write_attention(run, inputs)

    analyses: Mapping[str, Callable[[Any, AnalysisOptions], Report]] = MappingProxyType({
        "stats": stats,
        "paths": paths,
        "substitutions": substitutions,
    })  # fmt: skip
    alone: Sequence[str] = ("substitutions",)  # because it makes a new corpus

    def analysed(self, config: Any, options: AnalysisOptions) -> Pairs:
        if config is None:
            raise UsageError("--config is missing", fix="--config=esim_kd, or --corpus=NAME")
        path = Path(options.corpus).expanduser() if options.corpus else None
        return pairs_of(self.corpus(config), path, options.spans)

    @property
    def tables(self) -> Mapping[str, PaperTable]:
        source = tables.PAPER["source"]
        numbered = {
            str(number): PaperTable(partial(_accuracies, number), source)
            for number in tables.TABLES
        }
        return {reproduction.NAME: PaperTable(_reproduction, source), **numbered}


TASK = NLI()


def _reproduction(runs: Path, options: TableOptions) -> Report:
    check = reproduction.checked(runs, options.read)
    return Report(check.to_json(), reproduction.sections(check))


def _accuracies(number: int, runs: Path, options: TableOptions) -> Report:
    table = tables.filled(tables.TABLES[number], runs, options.read)
    if options.public:
        table = table.shareable()
    names = {name for filled in table.cells for name, _ in filled.cell.keys}
    folders = [runs / name for name in sorted(names)]
    return Report(table.to_json(), [tables.table_section(table)], runs=folders)


def scorer_fields(config) -> dict:
    """The settings of the batches and scores of pairs."""
    padded = config.data.max_length if config.model.masking == "paper" else 0
    present = class_of_label(config.data.labels).values()
    classes = tuple(number for number, label in enumerate(LABELS) if label in present)
    return {"pieces": of_pieces(config), "padded_length": padded, "classes": classes}


def corpus_of(config, kind=NLICorpus, names=NAMES, **further) -> NLICorpus:
    """The corpus of a config of sentence pairs. kind: the class; further: more of its fields."""
    folder = data_folder(config.data.dir)
    data, vectors, knowledge = config.data, config.vectors, config.knowledge
    if ":" not in data.name:
        check_name(data.name, names)
    links = config.model.knowledge != "none"
    by_ontology, of_concepts = (
        vectors.retrofit in ("ontology", "concepts"),
        vectors.retrofit == "concepts",
    )
    typed, named = config.model.knowledge == "typed", named_relations(knowledge.relations)
    relations = "all" if named else knowledge.relations
    weights = config.model.get("weights")
    weights = find_weights(file_path(weights, folder)) if weights and of_pieces(config) else None
    options = OntologyOptions(tuple(knowledge.sources), tuple(knowledge.languages), relations)
    ontology = Terminology(
        os.path.expanduser(knowledge.ontology), folder, options, knowledge.permute_seed
    )
    return kind(
        name=data.name,
        encoding=Encoding(
            **{name: data[name] for name in ("lowercase", "max_length", "keep", "hypothesis_only")},
            **{name: knowledge[name] for name in ("direction", "max_path", "max_links", "graph")},
            **vectors_of(config, folder),
            **{name: vectors[name] for name in ("unknown", "lowered")},
            retrofit_lexicon=None
            if vectors.retrofit in RETROFITS
            else file_path(vectors.retrofit, folder),
            unit_length=vectors.retrofit == "unit",
            relations=tuple(name for name in named if name != "antonym") if typed else None,
            retrofit_rounds=vectors.retrofit_rounds,
        ),
        folder=corpus_folder(data),
        **{name: data[name] for name in ("genre", "limit", "builder", "labels")},
        blanks=data.tokens == "blanks",
        pieces=PieceEncoding(weights, data.pieces, data.max_length) if of_pieces(config) else None,
        terminology=ontology if links or by_ontology else None,
        linking=_linking(knowledge, folder, typed) if links or of_concepts else None,
        concepts_as_words=of_concepts,
        retrofit_relations=tuple(vectors.retrofit_relations) if by_ontology else None,
        **further,
    )


def _linking(knowledge, folder, typed) -> Linking:
    # On a command line A,B is one string. An empty string is a prefix of all types.
    types = (
        part
        for value in knowledge.types
        for part in map(str.strip, str(value).split(","))
        if part or not value
    )
    return Linking(
        mentions=file_path(knowledge.mentions, folder),
        candidates=knowledge.candidates,
        types=tuple(types),
        abbreviations=knowledge.abbreviations,
        lemmas=typed and knowledge.ontology != "mesh",
    )
