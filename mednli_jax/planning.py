"""Plans the commands of a paper's runs: their flags, the data that they lack, and their order."""

import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import filter as matching_names
from functools import partial
from pathlib import Path

from ml_collections.config_dict import ConfigDict

from mednli_jax import cli, tasks
from mednli_jax.data.cache import Cache
from mednli_jax.data.corpus import cache_folder, corpora_folder, file_path
from mednli_jax.defaults import did_you_mean
from mednli_jax.errors import RunError, UsageError, UserError
from mednli_jax.files.writing import sha256, write_json
from mednli_jax.report.options import PaperRun, ReproductionPlan, Request, Setting, Settings, Step
from mednli_jax.report.tables import COMPLETE, command_line, figures_in, state
from mednli_jax.rundir import RunDirectory, flat
from mednli_jax.types import Json

WAIT = 120  # seconds that a training waits for one that is ending in its folder
RECORDS = "jobs"  # the folder of the records
# Fields that change no result, or that the corpus or pretrained weights decide.
FREE = re.compile(r"data\.(dir|labels)|train\.checkpoint_\w+|\w+\.at_once")
SIZES = r"model\.(hidden_size|layers|attention_heads|intermediate_size|positions)"
FREE_WITH_WEIGHTS = re.compile(f"{FREE.pattern}|{SIZES}")
# Fields that name the corpus of a direct transfer.
NAMING = re.compile(r"data\.(name|genre|builder|limit|columns|evidence)")


@dataclass(frozen=True)
class Job:
    """A command of a paper.

    A job that has succeeded leaves a record of the files that it read. It is done again if it would
    read other files now.

    Args:
      name: of a run, or of the file that the command writes.
      words: the command, without "python -m mednli_jax.".
      folder: of the paper's runs.
      after: names of the jobs whose results it reads.
      config: of --config; None for a command without one.
      is_run: whether the job makes a run.
      is_training: whether the command trains this run.
      prints: whether the command prints the content of the file.
      ontology: whether the job is a step that reads the ontology of the config.
    """

    name: str
    words: tuple[str, ...]
    folder: Path
    after: tuple[str, ...] = ()
    config: ConfigDict | None = None
    is_training: bool = False
    is_run: bool = False
    prints: bool = False
    ontology: bool = False

    @property
    def place(self) -> Path:
        """The folder of the run, or the file that the job writes."""
        return self.folder / self.name

    @property
    def file_name(self) -> str:
        """A name for files about the job."""
        return self.name.replace("/", "-")

    def is_done(self) -> bool:
        """Whether the job has its result, and would read now the files that its record names.

        A run that was trained by hand has no record, and is done when it is complete.
        """
        record, is_complete = self.record(), self.is_complete()
        if not (record and is_complete):
            return self.is_run and is_complete
        try:
            inputs = self.inputs()
        except UserError:  # such as an ontology that is gone
            return False
        return {**record, **inputs} == record

    def is_complete(self) -> bool:
        return state(self.place) == COMPLETE if self.is_run else self.place.is_file()

    def record(self) -> dict[str, Json]:
        """The record of the job's present result; {} if there is none."""
        values = figures_in(self.folder / RECORDS / f"{self.file_name}.json", "made")
        if isinstance(values, str) or values["made"] != _digest(self.place):
            return {}
        return values

    def inputs(self) -> dict[str, Json]:
        """The inputs that the job would read now, in the form of the record: the digests of results
        and, for a step, the words without folders and the digests of files. `check_settings`
        compares the config and the files of a run."""
        results = {name: _digest(self.folder / name) for name in self.after}
        if self.is_run:
            return {"results": results}
        words, files = [], []
        for word in self.words:
            flag, _, value = word.partition("=")
            if os.path.isfile(value):
                files.append(Path(value))
                value = files[-1].name
            words.append(f"{flag}={value}/".replace(f"{self.folder}/", ""))
        if self.config:
            pairs = tasks.task_of(self.config).pairs(self.config)
            files += pairs.corpus_files()
            files += pairs.terminology.files() if self.ontology and pairs.terminology else ()
        return {"words": words, "results": results, "files": Cache(cache_folder()).digests(files)}

    def write_record(self, inputs: Mapping[str, Json]) -> None:
        """Writes the record of a result. inputs: from before the command."""
        path = self.folder / RECORDS / f"{self.file_name}.json"
        write_json(path, {**inputs, "made": _digest(self.place)})

    def check_settings(self) -> None:
        """Raises RunError for a complete run of other settings, or of files with another content:
        it is not the result of this job, and training the job would delete it."""
        if not (self.is_run and self.is_complete() and self.config):
            return
        actual = self._settings(RunDirectory(self.place).config)
        problems = []
        for field, value in self._settings(json.loads(json.dumps(self.config.to_dict()))).items():
            if actual.get(field, value) != value:
                problems.append(f"{field} is {actual[field]!r}, not {value!r}")
        problems += self._changed_files()
        if problems:
            fix = "give another FOLDER, or remove this run"
            raise RunError(f"{self.place}: {'; '.join(problems[:3])}", fix=fix)

    def _changed_files(self) -> Iterator[str]:
        """Yields a problem for each file of the corpus, the vectors and the ontology that has
        another content than the run read; none for files that no longer exist."""
        before = RunDirectory(self.place).data().sources
        try:
            corpus = tasks.task_of(self.config).corpus(self.config)
            now = corpus.key(Cache(cache_folder()))["sources"]
        except UserError:
            return
        for name, digest in now.items():
            if before and before.get(name) != digest:
                yield f"the run read another {name}"

    def _settings(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """The fields of a config that decide the result. A path counts by its name."""
        fields, settings = flat(config), {}
        free = FREE_WITH_WEIGHTS if fields.get("model.weights") else FREE
        for field, value in fields.items():
            is_of_run = self.is_training or NAMING.fullmatch(field)  # else of the source
            if is_of_run and not free.fullmatch(field):
                is_text = isinstance(value, str | None)
                settings[field] = Path(value or "").name if is_text else value
        if fields.get("data.name") == "file":
            settings["data.dir"] = os.path.abspath(fields["data.dir"])
        return settings

    def command(self) -> list[str]:
        """The words that start the job, or continue it."""
        more = []
        if self.is_training:
            begun = (self.place / "checkpoints").exists() and not self.record()
            more = [f"--wait={WAIT}", "--resume" if begun else "--force"]
        return [*self.words, *more]

    def shell_command(self) -> str:
        """The command for a user."""
        line = command_line(*self.words)
        return f"{line} > {shlex.quote(str(self.place))}" if self.prints else line


def _digest(place: Path) -> str:
    """The digest of the result of a run, or of a file; "" without it."""
    path = place / "result.json" if place.is_dir() else place
    return sha256(path) if path.is_file() else ""


def done_names(jobs: Sequence[Job]) -> set[str]:
    """The names of the jobs that are done. A job with a record is done again after a job whose
    result it reads."""
    to_do: set[str] = set()
    for job in jobs:
        reads_new = not to_do.isdisjoint(job.after) and job.record()
        if reads_new or not job.is_done():
            to_do.add(job.name)
    return {job.name for job in jobs} - to_do


@dataclass(frozen=True)
class Jobs:
    """The jobs of a request, each after those that it reads.

    Args:
      jobs: jobs that are done or can be done.
      blocked: jobs whose data are missing, and jobs that read these.
      lacking: missing data -> names of the runs and files that need them.
      done: names of the jobs that are done.
    """

    jobs: list[Job]
    blocked: list[Job]
    lacking: dict[str, list[str]]
    done: set[str]


def jobs_of(plan: ReproductionPlan, request: Request, only: Collection[str]) -> Jobs:
    """Makes the jobs of a request.

    only: patterns of names, which choose jobs and those that they need. Without patterns: all jobs
    that are not optional.
    """
    runs = {run.name: run for run in plan.runs(request)}
    tables = set(request.tables)
    steps = {step.file: step for step in plan.steps(request) if tables & set(step.tables)}
    names = _chosen_jobs(runs, steps, only)
    builder = _Builder(plan, request)
    jobs: list[Job] = []
    lacking: dict[str, list[str]] = {}
    for name in (*runs, *steps):
        if name not in names:
            continue
        try:
            jobs.append(builder.run(runs[name]) if name in runs else builder.step(steps[name]))
        except _NotThere as error:
            lacking.setdefault(str(error), []).append(name)
    builder.check_fields()
    for job in jobs:
        job.check_settings()
    done = done_names(jobs)
    possible, blocked = [], []
    blocked_names: set[str] = set().union(*lacking.values())
    for job in jobs:
        missing = [] if job.name in done else builder.missing_data(job)
        for data in missing:
            lacking.setdefault(data, []).append(job.name)
        if job.name in done or not (missing or blocked_names.intersection(job.after)):
            possible.append(job)
        else:
            blocked_names.add(job.name)
            blocked.append(job)
    return Jobs(possible, blocked, lacking, done)


def _chosen_jobs(
    runs: Mapping[str, PaperRun], steps: Mapping[str, Step], only: Collection[str]
) -> set[str]:
    """The names of the jobs that match a pattern, and of those that they need."""
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
    """Yields the runs and files that a run or a step reads, and those that these read."""
    reads = (runs[name].init_from,) if name in runs else steps[name].after
    for needed in reads:
        if needed in runs or needed in steps:
            yield needed
            yield from _needs(needed, runs, steps)


class _NotThere(Exception):
    """A run's file is missing, and so the run's flags have no value for it."""


class _Builder:
    """Makes the jobs of a request.

    known_fields: of the configs of all jobs.
    """

    def __init__(self, plan: ReproductionPlan, request: Request) -> None:
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
        config, words = self._configure(run.config, run.corpus, settings)
        after = (run.init_from,) if run.init_from else ()
        command = ["evaluate", f"--run={folder / run.init_from}"] if run.direct else ["train"]
        return Job(
            run.name,
            (*command, *words, f"--workdir={folder / run.name}"),
            folder,
            after,
            config,
            is_training=not run.direct,
            is_run=True,
        )

    def step(self, step: Step) -> Job:
        folder = self.request.folder
        words = step.words
        config = None
        if step.config:
            config, flags_of_config = self._configure(step.config, step.corpus, step.settings)
            words = (*words, *flags_of_config)
        return Job(
            step.file,
            words,
            folder,
            step.after,
            config,
            prints=step.prints,
            ontology=step.ontology,
        )

    def _configure(
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
        of_training: dict[str, Setting] = {}
        of_run: dict[str, Setting] = {}
        of_user: dict[str, Setting] = {}
        for name, value in settings.items():
            is_of_training = name == "seeds" or name.startswith("train.")
            (of_training if is_of_training else of_run)[name] = value
        for name, text in self.request.fields.items():
            is_own_data = name.startswith("data.") and self.request.corpus == "file"
            if name in fields and not (corpus and is_own_data):
                of_user[name] = text
        return {**seeds, **of_training, **of_user, **of_run}

    def missing_data(self, job: Job) -> list[str]:
        """The data of a job's config that do not exist."""
        if job.config is None:
            return []
        missing = list(_missing_corpus(job.config))
        if job.is_run:
            missing += _missing_vectors(job.config)
        if job.is_run or job.ontology:
            missing += _missing_ontology(job.config)
        return missing

    def check_fields(self) -> None:
        """Raises an error for a field of the user that no config has."""
        for name in self.request.fields:
            if name not in self.known_fields:
                hint = did_you_mean(name, self.known_fields)
                raise UsageError(f"--config.{name}: no run has such a field.{hint}")


def _links(config: ConfigDict) -> bool:
    """Whether the concepts of the sentences are linked."""
    attends: bool = config.model.get("knowledge", "none") != "none"
    return attends or config.vectors.get("retrofit") == "concepts"


def _text(value: Setting) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _missing_corpus(config: ConfigDict) -> Iterator[str]:
    folder, corpus = corpora_folder(config.data.dir), config.data.name
    for task in tasks.tasks().values():
        if corpus in task.sources:
            files, origin = task.sources[corpus]
            if folder is None or not _is_any_there(partial(files, folder)):
                yield f"corpus {corpus} ({origin})"


def _missing_vectors(config: ConfigDict) -> Iterator[str]:
    path = file_path(config.vectors.path, corpora_folder(config.data.dir))
    if path and not path.exists():
        yield f"word vectors {path.name} (docs/data.md)"


def _missing_ontology(config: ConfigDict) -> Iterator[str]:
    if not _links(config) and not config.vectors.get("retrofit"):
        return
    from mednli_jax.knowledge.load import NAMES, needed_files  # imports scipy

    ontology, folder = config.knowledge.ontology, corpora_folder(config.data.dir)
    if ontology == "mesh" or ontology not in NAMES:
        return
    if not _is_any_there(partial(needed_files, ontology, folder)):
        yield f"ontology {ontology} (docs/data.md)"


def _is_any_there(files: Callable[[], Iterable[Path]]) -> bool:
    try:
        return any(path.is_file() for path in files())
    except (UserError, OSError):
        return False
