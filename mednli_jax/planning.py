"""The commands of a paper's runs: their flags, the data that they lack, and how long they take."""

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import filter as matching_names
from functools import cache, partial
from pathlib import Path
from typing import Any

from ml_collections.config_dict import ConfigDict

from mednli_jax import cli, tasks
from mednli_jax.data.corpus import data_folder, file_path
from mednli_jax.defaults import did_you_mean
from mednli_jax.errors import UsageError, UserError
from mednli_jax.report.options import PaperRun, Plan, Request, Setting, Settings, Step
from mednli_jax.report.tables import command_line
from mednli_jax.rundir import RunDirectory

WAIT = 120  # seconds that a training waits for one that is ending in its folder
Json = Any


@dataclass(frozen=True)
class Job:
    """A command of a paper.

    Args:
      name: of a run, or of the file that the command writes.
      words: the command, without "python -m mednli_jax.".
      place: the folder of the run, or the file.
      after: names of the jobs whose results it reads.
      config: of --config; None for a command without one.
      is_run: whether the place is the folder of a run.
      is_training: whether the command trains this run.
      prints: whether the command prints the content of the file.
      state: a file that the interrupted command leaves; it is continued with --resume.
      key: gives the fields and values that the file must have.
    """

    name: str
    words: tuple[str, ...]
    place: Path
    after: tuple[str, ...] = ()
    config: ConfigDict | None = None
    is_training: bool = False
    is_run: bool = False
    prints: bool = False
    state: Path | None = None
    key: Callable[[], Mapping[str, str]] | None = None

    def is_done(self) -> bool:
        """Whether the run is complete, or the file is there and of the same data. A damaged one is
        not."""
        try:
            if self.is_run:
                has_result = (self.place / "result.json").is_file()
                return has_result and RunDirectory(self.place).status() == "complete"
            if self.key is None or not self.place.is_file():
                return self.place.is_file()
            values: dict[str, Json] = json.loads(self.place.read_bytes())
            return all(values.get(name, "") == value for name, value in self.key().items())
        except (ValueError, UserError):
            return False

    def command(self) -> list[str]:
        """The words that begin the job, or go on with it."""
        more = []
        if self.is_training:
            begun = (self.place / "checkpoints").exists()
            more = [f"--wait={WAIT}", "--resume" if begun else "--force"]
        elif self.state and self.state.exists():
            more = ["--resume"]
        return [*self.words, *more]

    def shell_command(self) -> str:
        """The command for a user."""
        line = command_line(*self.words)
        return f"{line} > {shlex.quote(str(self.place))}" if self.prints else line


@dataclass(frozen=True)
class Jobs:
    """The jobs of a request, each after those that it reads.

    Args:
      jobs: that are done or can be done.
      blocked: jobs whose data are missing, and jobs that read these.
      lacking: missing data -> names of the runs and files that need them.
    """

    jobs: list[Job]
    blocked: list[Job]
    lacking: dict[str, list[str]]


def jobs_of(plan: Plan, request: Request, only: Collection[str] = ()) -> Jobs:
    """The jobs of a request.

    only: patterns of names, which choose jobs and those that they need. Without patterns: all jobs
    that are not optional.
    """
    runs = {run.name: run for run in plan.runs(request)}
    tables = set(request.tables)
    steps = {step.file: step for step in plan.steps(request) if tables & set(step.tables)}
    names = _chosen(runs, steps, only)
    builder = _Builder(plan, request)
    jobs: list[Job] = []
    lacking: dict[str, list[str]] = {}
    for name in (*runs, *steps):
        if name not in names:
            continue
        try:
            job = builder.run(runs[name]) if name in runs else builder.step(steps[name])
            missing = [] if job.is_done() else builder.missing_data(job)
        except _NotThere as error:
            job, missing = None, [str(error)]
        for data in missing:
            lacking.setdefault(data, []).append(name)
        if job:
            jobs.append(job)
    builder.check_fields()
    blocked_names: set[str] = set().union(*lacking.values())
    possible, blocked = [], []
    for job in jobs:
        if job.is_done() or blocked_names.isdisjoint((job.name, *job.after)):
            possible.append(job)
        else:
            blocked_names.add(job.name)
            blocked.append(job)
    return Jobs(possible, blocked, lacking)


def _chosen(
    runs: Mapping[str, PaperRun], steps: Mapping[str, Step], only: Collection[str]
) -> set[str]:
    """The names of the jobs that match, and of those that they need."""
    every_name = (*runs, *steps)
    names: set[str] = set()
    for pattern in only:
        matching = matching_names(every_name, pattern)
        if not matching:
            hint = did_you_mean(pattern, every_name)
            raise UsageError(f"--only: no run '{pattern}'.{hint}", fix="see --dry-run")
        names.update(matching)
    if not only:
        names = {name for name in every_name if name in steps or not runs[name].optional}
    for name in list(names):
        names.update(_needs(name, runs, steps))
    return names


def _needs(name: str, runs: Mapping[str, PaperRun], steps: Mapping[str, Step]) -> Iterator[str]:
    """The runs and files that a run or a step reads, and those that these read."""
    reads = (runs[name].init_from,) if name in runs else steps[name].after
    for needed in reads:
        if needed in runs or needed in steps:
            yield needed
            yield from _needs(needed, runs, steps)


class _NotThere(Exception):
    """A run's file that is missing, for which the run's flags have no value."""


class _Builder:
    """Makes the jobs of a request.

    known_fields: of the configs of all jobs.
    """

    def __init__(self, plan: Plan, request: Request) -> None:
        self.plan, self.request = plan, request
        self.known_fields: set[str] = set()

    def run(self, run: PaperRun) -> Job:
        folder = self.request.folder
        settings = dict(run.settings)
        if run.init_from and not run.direct:
            settings["transfer.init_from"] = str(folder / run.init_from)
        if run.vectors:
            vectors = self.request.vectors(run.vectors)
            if vectors is None:
                raise _NotThere(f"word vectors {run.vectors[0]} (docs/data.md)")
            settings["vectors.path"] = str(vectors)
        if run.weights and run.weights not in self.request.weights:
            raise _NotThere(f"weights {run.weights} (--weights={run.weights}=FOLDER)")
        config, words = self._configured(run.config, run.corpus, settings)
        place = folder / run.name
        after = (run.init_from,) if run.init_from else ()
        command = ["evaluate", f"--run={folder / run.init_from}"] if run.direct else ["train"]
        return Job(
            run.name,
            (*command, *words, f"--workdir={place}"),
            place,
            after,
            config,
            is_training=not run.direct,
            is_run=True,
        )

    def step(self, step: Step) -> Job:
        folder = self.request.folder
        words = step.words
        config = key = None
        if step.config:
            config, flags_of_config = self._configured(step.config, step.corpus, step.settings)
            words = (*words, *flags_of_config)
            key = _key_of(step.key, config) if step.key else None
        return Job(
            step.file,
            words,
            folder / step.file,
            step.after,
            config,
            prints=step.prints,
            state=folder / step.state if step.state else None,
            key=key,
        )

    def _configured(
        self, name: str, corpus: str, settings: Settings
    ) -> tuple[ConfigDict, list[str]]:
        """The config of a run, and its flags."""
        variant = corpus or self.request.corpus
        config = cli.read_config(f"{name}:{variant}")
        fields = {field for field, _, _ in cli.fields(config)}
        self.known_fields |= fields
        values = self._values(fields, corpus, settings)
        texts = {field: _text(value) for field, value in values.items()}
        config = cli.with_fields(config, texts)
        if self.request.mentions and not corpus and _links(config):
            texts["knowledge.mentions"] = str(self.request.mentions.resolve())
            config = cli.with_fields(config, texts)
        words = [f"--config.{field}={text}" for field, text in texts.items()]
        return config, [f"--config={name}:{variant}", *words]

    def _values(
        self, fields: Collection[str], corpus: str, settings: Settings
    ) -> dict[str, Setting]:
        """The fields of a run with their values. A value of the user replaces the run's setting of
        training, but no setting that distinguishes the run from others.

        fields: all of the run's config. corpus: another one than the request's, or "".
        """
        seeds = {"seeds": self.plan.seeds} if self.plan.seeds else {}
        of_training = {name: settings[name] for name in settings if _is_training(name)}
        of_run = {name: settings[name] for name in settings if name not in of_training}
        of_user = {}
        for name, text in self.request.fields.items():
            is_own_data = name.startswith("data.") and self.request.corpus == "file"
            if name in fields and not (corpus and is_own_data):
                of_user[name] = text
        return {**seeds, **of_training, **of_user, **of_run}

    def missing_data(self, job: Job) -> list[str]:
        """The data of a job's config that are not there."""
        if job.config is None:
            return []
        missing = list(_missing_corpus(job.config))
        if job.is_run:
            missing += _missing_vectors(job.config)
        if job.is_run or job.key:
            missing += _missing_ontology(job.config)
        return missing

    def check_fields(self) -> None:
        """Refuses a field of the user that no config has."""
        for name in self.request.fields:
            if name not in self.known_fields:
                hint = did_you_mean(name, self.known_fields)
                raise UsageError(f"--config.{name}: no run has such a field.{hint}")


def _is_training(name: str) -> bool:
    return name == "seeds" or name.startswith("train.")


def _links(config: ConfigDict) -> bool:
    """Whether the concepts of the sentences are linked."""
    attends: bool = config.model.get("knowledge", "none") != "none"
    return attends or config.vectors.get("retrofit") == "concepts"


def _text(value: Setting) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _key_of(
    key: Callable[[Any], Mapping[str, str]], config: ConfigDict
) -> Callable[[], Mapping[str, str]]:
    @cache  # because it may read an ontology
    def of_corpus() -> Mapping[str, str]:
        return key(tasks.task_of(config).corpus(config))

    return of_corpus


def _missing_corpus(config: ConfigDict) -> Iterator[str]:
    folder, corpus = data_folder(config.data.dir), config.data.name
    for task in tasks.tasks().values():
        if corpus in task.sources:
            files, origin = task.sources[corpus]
            if folder is None or not _is_any_there(partial(files, folder)):
                yield f"corpus {corpus} ({origin})"


def _missing_vectors(config: ConfigDict) -> Iterator[str]:
    path = file_path(config.vectors.path, data_folder(config.data.dir))
    if path and not path.exists():
        yield f"word vectors {path.name} (docs/data.md)"


def _missing_ontology(config: ConfigDict) -> Iterator[str]:
    if not _links(config) and not config.vectors.get("retrofit"):
        return
    from mednli_jax.knowledge.load import NAMES, needed_files  # imports scipy

    ontology, folder = config.knowledge.ontology, data_folder(config.data.dir)
    if ontology == "mesh" or ontology not in NAMES:
        return
    if not _is_any_there(partial(needed_files, ontology, folder)):
        yield f"ontology {ontology} (docs/data.md)"


def _is_any_there(files: Callable[[], Iterable[Path]]) -> bool:
    try:
        return any(path.is_file() for path in files())
    except (UserError, OSError):
        return False
