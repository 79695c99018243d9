"""Cloze queries about passages as the commands see them: CliCR and corpora in its layout.

Functions that train or score import jax when they are called, so that other commands start without it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

from mednli_jax.cloze import stats, tables
from mednli_jax.cloze.clicr import BEGIN, END, LICENSED, SOURCE, parse_marked, source_files
from mednli_jax.cloze.encoding import DEMO, NAMES, SETUPS, ClozeCorpus, ClozeEncoding, Texts
from mednli_jax.cloze.scores import ANSWERS
from mednli_jax.data.arrays import Prepared
from mednli_jax.data.corpus import check_name, corpus_folder, data_folder, file_path, vectors_of
from mednli_jax.data.examples import PLACEHOLDER
from mednli_jax.data.inputs import Form
from mednli_jax.data.vectors import coverage_warnings
from mednli_jax.errors import UsageError
from mednli_jax.files import local_path
from mednli_jax.report import public as public_part
from mednli_jax.rundir import write_kept


def check_marks(passage: str, query: str) -> tuple[str, str] | None:
    """(problem, fix) for wrong marks or a wrong number of blanks; None for a good pair."""
    passage, query = parse_marked(passage), parse_marked(query)
    if len(query.blanks) != 1 or passage.blanks:
        fix = "write one in the query, and none in the passage"
        return f"has a wrong number of {PLACEHOLDER}", fix
    if passage.stray + query.stray:
        fix = f"give every {BEGIN} its {END}, with words between them"
        return "has marks that are unbalanced or mark nothing", fix
    return None


class Cloze:
    """The TASK of cloze queries (see tasks)."""

    name = base = "cloze"
    corpora, units = "cloze queries", "queries"
    models = ("ga_reader", "sa_reader")
    form = Form((("passage",), ("query",)), "a passage and a query", check_marks)
    flags: Mapping = MappingProxyType({
        "evaluate": ("vectors", "skills", "scores", "predictions", "corpus"),
    })  # fmt: skip
    choices: Mapping = MappingProxyType({"data.setup": SETUPS})
    empty = ()

    def rules(self, config) -> Iterator[tuple[str, str, str]]:
        """(field, what is wrong, the fix) of each rule of cloze queries that a config breaks."""
        setup = config.data.setup
        if config.model.get("pointer", "sum") != "sum" and setup != "noent":
            fix = "give sum, or --config.data.setup=noent"
            yield "model.pointer", "a phrase is one token", fix

    def accepts(self, name: str, module) -> bool:
        """Whether the task trains a model. module: its linen class; that of a user may name its task."""
        return name in self.models or getattr(module, "task", "") == self.name

    def corpus(self, config) -> ClozeCorpus:
        data, folder = config.data, data_folder(config.data.dir)
        check_name(data.name, NAMES)
        kept = {name: data[name] for name in ("setup", "max_passage", "max_words", "query_bounds")}
        encoding = ClozeEncoding(**kept, **vectors_of(config, folder), vectors_sd=config.vectors.random_sd)
        where = None if data.name == DEMO else corpus_folder(data)
        return ClozeCorpus(data.name, encoding, where, limit=data.limit)

    def pairs(self, config):
        """Raises UsageError, because a passage and a query are no pair of sentences."""
        fix = "give a config for pairs, or python -m mednli_jax.analyze cloze-stats --corpus=demo_cloze"
        raise UsageError(f"--config: its corpus does not hold sentence pairs. Fix: {fix}.")

    def scorer(self, config):
        from mednli_jax.cloze.task import ClozeTask

        data, model = config.data, config.model
        return ClozeTask(
            # In unmarked passages every word of a candidate counts, unless a pointer reads the spans.
            loose=data.setup == "noent" and model.get("pointer", "span") != "span",
            masses=model.get("pointer") == "sum",
            answer_vectors=file_path(data.answer_vectors, data_folder(data.dir)),
        )

    def fit(self, config):
        """The function that trains the model: None, the loop."""

    def predictor(self, run):
        """What gives the logits of a finished run without weights: None, readers are networks."""

    def warnings(self, prepared: Prepared) -> Iterator[str]:
        """A warning for words without vectors."""
        yield from coverage_warnings(prepared.manifest["vocabulary"])

    def check_prepared(self, experiment, prepared: Prepared, *, excerpt: int = 0) -> None:
        """Accepts every corpus."""

    def keep(self, directory, prepared: Prepared) -> None:
        """Writes the accepted answers of dev and test, so that a report needs no corpus."""
        texts, kept = Texts(prepared.arrays), {}
        for name in {"dev", "test"} & prepared.splits.keys():
            kept[name] = []
            for query in texts.queries(prepared.splits[name]):
                answers = list(map(astuple, query.answers))
                kept[name].append([query.uid, answers, query.tags])
        write_kept(directory, ANSWERS, {"splits": kept})

    def prepared_lines(self, prepared: Prepared) -> Iterator[str]:
        """Facts of a prepared corpus."""
        manifest = prepared.manifest
        for name, rows in prepared.splits.items():
            facts = manifest["splits"][name]
            answers = "{exact} as they stand, {synonym} by a synonym, {none} not".format_map(facts["answerable"])
            lost = sum(facts["answerable"].values()) - len(rows)
            lost = f", {lost} without an answer in their passage left out" if lost else ""
            longest, query = (max(length.tolist(), default=0) for length in rows.length)
            yield (
                f"  {name}: {len(rows)} queries of {facts['passages']} passages{lost}; "
                f"longest passage {longest}, query {query} tokens"
            )
            each = facts["candidates"] / max(facts["passages"], 1)
            yield f"    {facts['candidates']} candidates, {each:.1f} a passage; answers among them: {answers}"
            yield f"    right candidates that training never shows: {facts['answers_of_unseen_type']}"
            if facts["truncated"]["passages"]:
                cut = "    truncated: {passages} passages, {tokens} tokens dropped, {answers} answers lost"
                yield cut.format_map(facts["truncated"])
        known = "{types} phrases, {types_of_train} of them in training".format_map(manifest["candidates"])
        yield f"  set-up {manifest['setup']}: {known}"
        words = manifest["vocabulary"]
        source = "{with_vector} with a vector ({source})" if "source" in words else "random vectors"
        more = "{of_other_splits} of dev and test alone, {cut} rare ones left out"
        yield f"  vocabulary: {{words}} words, {source}; {more}".format_map(words)

    def run_sections(self, directory, result):
        """The sections of a run's page that are shown before and after the learning curves."""
        return tables.run_sections(result)

    def closing_sections(self, directory, result):
        """What `train` prints besides the scores of the splits."""
        return ()

    def compare(self, folders, split):
        return tables.compare(folders, split)

    def evaluate(self, run, split: str, flags, partitions=()):
        """(figures, lines, rows) of a split's scores. flags: of `evaluate`."""
        return tables.evaluate(run, split, **_choice(flags))

    def evaluate_answers(self, flags):
        """The same of any system's answers, in the file of the flag --predictions."""
        return tables.evaluate_answers(flags.corpus, flags.predictions, flags.split, **_choice(flags))

    def more_sections(self, folders, flags, config_of):
        """(printed sections, their figures, sections of the page) that flags of `report` ask for: none."""
        return [], {}, []

    licensed = LICENSED
    sources: Mapping = MappingProxyType({
        "clicr": (lambda folder: source_files(folder).values(), SOURCE),
    })  # fmt: skip
    prediction = staticmethod(tables.prediction)
    prediction_lines = staticmethod(tables.prediction_lines)
    write_attention = staticmethod(tables.write_attention)

    def analyses(self, *, alone: bool = False) -> Mapping:
        """{name of an analysis: (analysed corpus, flags) -> (figures, sections, files)}."""
        return {"cloze-stats": _statistics}

    def analysed(self, config, flags):
        """The corpus of --corpus, by its name."""
        if not flags.corpus or config is not None or (flags.scores and not flags.skills):
            fix = f"give --corpus={DEMO}, clicr or a folder, and --scores with --skills"
            raise UsageError(f"analyze cloze-stats: is for a corpus. Fix: {fix}.")
        return SimpleNamespace(name=flags.corpus, notes=[], splits=None)

    shareable = True
    paper = "clicr"

    @property
    def tables(self) -> Mapping:
        """{name of a table: what fills it, see tasks.table}."""
        return {tables.NAME: _filled}


TASK = Cloze()


def _statistics(corpus, flags):
    return stats.analysis(corpus.name, flags.skills, [local_path(file, "--scores") for file in flags.scores])


def _choice(flags):
    return {"each": bool(flags.scores), "vectors": flags.vectors, "skills": flags.skills}


def _filled(runs: Path, *, read, split: str, skills: Path | None, public: bool):
    found = tables.filled(runs, read, split)
    found = public_part.table(found) if public else found
    shown = [tables.table_section(found)]
    if skills:
        found["skills"] = tables.skills_of_runs(runs, split, skills)
        shown.append(stats.skill_section(found["skills"]))
    return shown, found, [runs / name for name in tables.RUNS.values()]
