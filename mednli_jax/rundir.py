"""The run directory: the files of a run.

    config.json env.json data.json metrics.jsonl log.txt result.json
    tensorboard/ checkpoints/ private/

An exported run has model.json in place of env.json, data.json, metrics.jsonl, log.txt and
result.json. Only `private/` may hold text of a corpus. Files are 0600, folders 0700. The `status`
in result.json is running, interrupted, complete or failed. Only a complete run has results.
"""

from __future__ import annotations

import difflib
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import mednli_jax
from mednli_jax.errors import ResumableError, RunError
from mednli_jax.files.writing import (
    TEMPORARY,
    append_line,
    check_locks,
    lock_file,
    private_folder,
    read_sealed,
    write_atomic,
    write_json,
    writing,
)
from mednli_jax.terminal import say
from mednli_jax.types import Json

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

MODEL = "model.json"  # of an exported run: the parts of result.json and data.json that it needs
TYPES = "types.json"  # the phrases of the training split in the order of their numbers
# of the feature-based system: the trees of each seed, the TF-IDF terms
TREES = "trees.json"
SPLITS = ("dev", "test")  # that a run scores
DIRECT = "direct"  # mode of transfer: scored on another corpus without training on it
EXAMPLE = "runs/esim_kd-demo"  # of a run directory
Scores = dict[str, Json]  # of a split, as Scorer.score returns them
FAILED = "correct the fault that its log.txt names"  # the first step for a run that failed
# `in_training` holds the lock for a moment, so the lock is tried for so long at least.
LOCK_SECONDS = 0.5
# Fixes for damaged files and folders.
CHECK_WORKDIR = "check --workdir"
RESTORE = "restore the file, or start over with --force"
WRITE_AGAIN = "restore it, or remove it and train with --resume, which writes it again"
# The format of a run's files, a field of result.json. Raise it for a field of a config or a file
# that this version needs and earlier runs lack.
FORMAT = 4
# Files of a run besides result.json; config.json is last.
_FILES = (
    "report.html",
    "public.html",
    "metrics.jsonl",
    "log.txt",
    "env.json",
    "data.json",
    "config.json",
)
_PASSWORD = re.compile(r"(://[^/@\s:]*:)\S*@")  # in a URL
_PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "scipy",
    "ml-collections",
)


def read_json(path: Path, *fields: str, fix: str = "restore the file") -> dict[str, Json]:
    """Reads the JSON object of a file in a run directory. Raises RunError for a file without an
    object, or without `fields`."""
    try:
        values: dict[str, Json] = dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        fix = "name the directory of a finished or interrupted run"
        raise RunError(f"{path}: no such file", fix=fix) from None
    except (ValueError, TypeError, OSError) as error:
        problem = f"{path}: cannot be read as a JSON object ({type(error).__name__})"
        raise RunError(problem, fix=fix) from None
    for name in fields:
        if name not in values:
            raise RunError(f"{path}: has no field '{name}'", fix=fix)
    return values


# -- the files as values ---------------------------------------------------------------------------


def _fields_in(values: Mapping[str, Json], cls: type) -> dict[str, Json]:
    """The values whose names are fields of a dataclass."""
    names = [member.name for member in fields(cls)]
    return {name: values[name] for name in names if name in values}


@dataclass(frozen=True)
class RunEnvironment:
    """The content of env.json: versions, machine and command of the process that trained a run.

    A run without env.json, as exported ones are, has an empty one.

    Attributes:
      mednli_jax: version of this package.
      commit: of the package's checkout, with + if it had changes; "" outside of a checkout.
      versions: package -> version.
      cpus: number of CPUs that the process may use.
      cpus_of_sessions: numbers of CPUs of all processes of the run.
      load: of the machine, mean of the last minute.
      started: UTC.
      devices: of jax, as platform:kind.
      settings: of jax, that change numbers.
    """

    mednli_jax: str = ""
    commit: str = ""
    python: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    cpus: int = 0
    cpus_of_sessions: Sequence[int] = ()
    load: float = 0.0
    started: str = ""
    command: Sequence[str] = ()
    devices: Sequence[str] = ()
    settings: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitFacts:
    """A split in data.json.

    Attributes:
      file, sha256: the file from which the split was read; "" if there is none.
      labels: label -> number of rows.
      note: a remark, such as that the split is lacking.
      values: all fields, also those that one task alone has.
    """

    rows: int = 0
    file: str = ""
    sha256: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    values: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Mapping[str, Json]) -> SplitFacts:
        return cls(**_fields_in(values, cls) | {"values": values})


@dataclass(frozen=True)
class RunData:
    """The content of data.json: the manifest of the prepared corpus of a run.

    Attributes:
      files: file of the prepared folder -> sha256.
      key: all settings that shape the prepared files.
      sources: file of the corpus, the vectors or the ontology -> sha256.
      splits: split -> its facts.
      setup: how a task shows its corpus to models; "" where there is one way.
      words_with_vector: words of the vocabulary that have a vector.
      vectors, vectors_sha256: the source of the word vectors, and its content.
      ontology, ontology_version, ontology_sha256: "" without knowledge.
      values: the whole manifest, with the fields that one task alone has.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    key: Mapping[str, Json] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, SplitFacts] = field(default_factory=dict)
    setup: str = ""
    words_with_vector: int = 0
    vectors: str = ""
    vectors_sha256: str = ""
    ontology: str = ""
    ontology_version: str = ""
    ontology_sha256: str = ""
    values: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Mapping[str, Json]) -> RunData:
        key = values.get("key", {})
        splits = {}
        for name, facts in values.get("splits", {}).items():
            splits[name] = SplitFacts.from_json(facts)
        vocabulary = values.get("vocabulary", {})
        knowledge = values.get("knowledge", {})
        return cls(
            files=values.get("files", {}),
            key=key,
            sources=key.get("sources", {}),
            splits=splits,
            setup=values.get("setup", ""),
            words_with_vector=vocabulary.get("with_vector", 0),
            vectors=vocabulary.get("source", ""),
            vectors_sha256=vocabulary.get("sha256", ""),
            ontology=knowledge.get("ontology", ""),
            ontology_version=knowledge.get("version", ""),
            ontology_sha256=knowledge.get("sha256", ""),
            values=values,
        )


@dataclass(frozen=True)
class RunResult:
    """The content of result.json. A run that is not complete has a status and seconds alone.

    Attributes:
      status: running, interrupted, complete or failed.
      resumable: whether the same flags can continue the run. They cannot if they or the data are
        the fault that ended it.
      corpus: its title; for a run of direct transfer, the corpus on which it was scored.
      task: name of its scorer.
      config: name of its config and variant.
      prepared: name of the folder of prepared data.
      best_epoch: of each seed.
      epochs: number of epochs that were trained.
      parameters: of one seed.
      width: tokens to which the two sides of the training batches are padded.
      notes: remarks and warnings.
      source: name of the run whose weights this one took; "" for none.
      direct: whether the source was scored on this corpus without training on it.
      answers: name of the file of another system's answers; "" for a run.
      values: the whole content, with the fields that one task alone has.
    """

    status: str
    resumable: bool = True
    corpus: str = ""
    task: str = ""
    model: str = ""
    config: str = ""
    prepared: str = ""
    seeds: Sequence[int] = ()
    best_epoch: Sequence[int] = ()
    epochs: int | None = None
    parameters: int | None = None
    width: tuple[int, int] | None = None
    seconds: float | None = None
    compile_seconds: float | None = None
    notes: Sequence[str] = ()
    source: str = ""
    direct: bool = False
    answers: str = ""
    values: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Mapping[str, Json]) -> RunResult:
        transfer = values.get("transfer", {})
        others = {
            "source": transfer.get("source", ""),
            "direct": transfer.get("mode") == DIRECT,
            "values": values,
        }
        return cls(**_fields_in(values, cls) | others)

    def __getitem__(self, name: str) -> Json:
        """A field of result.json."""
        return self.values[name]

    def scores(self, split: str) -> Scores | None:
        """The scores of dev or test; None for a split that was not scored."""
        return self.values.get(split)

    def scored(self) -> dict[str, Scores]:
        """The scores of the splits that were scored."""
        return {split: self.values[split] for split in SPLITS if self.values.get(split)}


class MetricsRow(NamedTuple):
    """A line of metrics.jsonl."""

    epoch: int
    line: bytes


def environment(command: Sequence[str] = ()) -> RunEnvironment:
    """The versions and the machine of this process, without devices and settings of jax.

    command: the words that start the process; passwords in URLs are left out.
    """
    return RunEnvironment(
        mednli_jax=mednli_jax.__version__,
        commit=_commit(),
        python=platform.python_version(),
        versions={name: metadata.version(name) for name in _PACKAGES},
        platform=platform.platform(),
        cpus=count_cpus(),
        load=os.getloadavg()[0],
        started=_now(),
        command=[_PASSWORD.sub(r"\1***@", word) for word in command],
    )


def count_cpus() -> int:
    """The number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS has none
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _commit() -> str:
    """The commit of the checkout of this package, with + if it has changes; "" outside of one."""
    package = Path(mednli_jax.__file__).parent
    try:
        # An installed package may lie in another project's work tree, which does not track it.
        tracked = _git(package, "ls-files", "--full-name", "--error-unmatch", "__init__.py")
        if tracked == f"{package.name}/__init__.py":
            return _git(package, "describe", "--always", "--dirty=+", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        pass
    return ""


def _git(folder: Path, *words: str) -> str:
    output = subprocess.check_output(
        ["git", *words], cwd=folder, stderr=subprocess.DEVNULL, text=True, timeout=5
    )
    return output.strip()


# -- the directory ---------------------------------------------------------------------------------


class RunDirectory:
    """The folder of one run. Open it with `create` (new or resumed) or `existing` (for reading)."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.private = self.folder / "private"
        self.checkpoints = self.folder / "checkpoints"
        self._lock: IO[str] | None = None
        self._scalars: SummaryWriter | None = None

    @classmethod
    def existing(cls, folder: Path) -> RunDirectory:
        run = cls(folder)
        if not (run.folder / "config.json").is_file():
            names = [path.parent.name for path in run.folder.parent.glob("*/config.json")]
            near = difflib.get_close_matches(run.folder.name, names, n=1)
            example = run.folder.parent / near[0] if near else EXAMPLE
            fix = f"give the directory that train printed, e.g. {example}"
            raise RunError(f"{run.folder}: not a run directory (config.json is missing)", fix=fix)
        run.result()  # refuses another format before any other file is read
        return run

    @classmethod
    def check(
        cls, folder: Path, *, resume: bool = False, force: bool = False, locked: bool = False
    ) -> bool:
        """Whether the folder holds a run. Raises RunError if `create` may not use it.

        locked: whether this process holds the lock. Before, a run in which another process trains
        is no error.
        """
        run = cls(folder)
        # Other programs also write a config.json, but no lock beside it.
        is_run = all((run.folder / name).is_file() for name in ("config.json", "lock"))
        if not is_run and run._has_files():
            raise RunError(f"{run.folder}: holds other files", fix="choose an empty --workdir")
        if resume and not run.folder.exists():
            fix = "name the run to continue with, or leave --resume out to start a run there"
            raise RunError(f"{run.folder}: no such run directory", fix=fix)
        status = run.status() if is_run and not force else ""
        if status and not resume and (locked or not run.in_training()):
            first = f"{FAILED}, then " if status == "failed" else ""
            go_on = "--resume to continue, " if run.result().resumable else ""
            fix = f"{first}{go_on}--force to start over, or another --workdir"
            raise RunError(f"{run.folder}: already holds a run (status {status})", fix=fix)
        return is_run

    def _has_files(self) -> bool:
        """Whether the folder holds files other than those of a killed start: a lock and hidden
        files."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return any(path.name != "lock" and path.name[0] != "." for path in files)

    @classmethod
    def create(
        cls,
        folder: Path,
        config: Mapping[str, Json],
        *,
        resume: bool = False,
        force: bool = False,
        wait: float = 0,
    ) -> RunDirectory:
        """Creates the folder, or reopens it to resume. Raises the errors of `check`, and RunError
        for a changed config.

        Raises ResumableError if another process holds the lock for more than `wait` seconds.
        """
        run = cls(folder)
        cls.check(folder, resume=resume, force=force)
        private_folder(run.folder, ours=True, fix=CHECK_WORKDIR)
        try:
            run.lock(wait)
            # Another process may have made the run since the first check.
            is_run = cls.check(folder, resume=resume, force=force, locked=True)
            with writing(run.private, CHECK_WORKDIR):
                run.private.mkdir(mode=0o700, exist_ok=True)
                for path in run.folder.rglob(TEMPORARY):  # of a process that was killed as it wrote
                    path.unlink()
            if is_run and resume:
                run._check_config(config)
            else:
                run._clear()
                write_json(run.folder / "config.json", config)
        except BaseException:
            # The error refers to this object, so the lock would live as long as the error.
            run.close()
            raise
        return run

    def _check_config(self, config: Mapping[str, Json]) -> None:
        """Raises RunError if the run was started with another config."""
        changed = differing(self.config, json.loads(json.dumps(config)))  # tuples become lists
        if not changed:
            return
        fix = "resume with the same flags, or choose another --workdir"
        if self.status() == "complete":
            weights = f"from its weights (config.transfer.init_from={self.folder})"
            fix = f"a complete run is not trained longer: train a new one, perhaps {weights}"
        fields = ", ".join(changed[:5])
        problem = f"{self.folder}: the run was started with other values of {fields}"
        raise RunError(problem, fix=fix)

    def check_data(self, manifest: Mapping[str, Json], partial: bool = False) -> None:
        """Raises RunError if the prepared data differs from that with which the run began.

        partial: whether files of training may be missing, so that only the other files are
        compared.
        """
        before, now = self.data(), RunData.from_json(manifest)
        sources = differing(before.sources, now.sources)
        if partial:
            sources = [name for name in sources if name in before.sources and name in now.sources]
        # An exported run has the digests of its own files alone.
        if before.files.items() <= now.files.items() or (partial and not sources):
            return
        changed = ", ".join(sources[:5]) or "the corpus, the vectors or the ontology"
        problem = f"{self.folder}: changed since the run began: {changed}"
        raise RunError(problem, fix="restore what changed, or start over with --force")

    def check_settings(self, settings: Mapping[str, Json]) -> None:
        """Raises RunError if a setting of jax differs from that with which the run began, if it was
        recorded."""
        environment = self.environment()
        before = environment.settings
        changed = [name for name in before if name in settings and before[name] != settings[name]]
        if not changed:
            return
        began = ", ".join(f"{name}={before[name]}" for name in changed)
        now = ", ".join(f"{name}={settings[name]}" for name in changed)
        steps = []
        for name in changed:
            variable, value = name.upper(), before[name]
            if not name.startswith("jax_"):  # a version of jax decides it
                steps.append(f"install jax {environment.versions['jax']}")
            else:
                steps.append(f"unset {variable}" if value is None else f"export {variable}={value}")
        problem = f"{self.folder}: the run began with {began}, and this process has {now}"
        raise RunError(problem, fix=f"{'; '.join(steps)}; or start over with --force")

    def _clear(self) -> None:
        """Removes the files of an earlier run: its result first, because it describes the
        checkpoints, and its config last, because the folder is a run as long as it is there."""
        with writing(self.folder):
            (self.folder / "result.json").unlink(missing_ok=True)
            for name in ("checkpoints", "private", "tensorboard", "profile"):
                for path in sorted((self.folder / name).rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()
            for name in _FILES:
                (self.folder / name).unlink(missing_ok=True)

    # -- the lock ----------------------------------------------------------------------------------

    def lock(self, wait: float = 0) -> None:
        """Locks the folder against other processes until `close`.

        Raises ResumableError if another process holds the lock for more than `wait` seconds.
        """
        deadline = time.monotonic() + max(wait, LOCK_SECONDS)
        with writing(self.folder, "choose another --workdir"):
            self._lock = open(self.folder / "lock", "w")  # noqa: SIM115 - held until `close`
            busy = f"{self.folder}: another process is training here"
            if wait and self.in_training():
                say(f"{busy}; waiting for it, up to {wait:.0f} s")
            while True:
                try:
                    locked = lock_file(self._lock)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        fix = "wait for it and give --resume, or choose another --workdir"
                        raise ResumableError(busy, fix=fix) from None
                    time.sleep(0.1)
        check_locks(self.folder, locked)

    def in_training(self) -> bool:
        """Whether any process holds the lock."""
        try:
            with open(self.folder / "lock") as file:
                lock_file(file, shared=True)  # closing the file releases it
        except BlockingIOError:
            return True
        except OSError:  # there is no lock file
            return False
        return False

    def close(self) -> None:
        """Writes the points of TensorBoard that are still waiting and releases the lock."""
        for file in (self._scalars, self._lock):
            if file is not None:
                file.close()

    # -- reading -----------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Json]:
        """The content of config.json."""
        return read_json(self.folder / "config.json")

    @property
    def task(self) -> str:
        """The task that the config names."""
        return str(read_json(self.folder / "config.json", "task")["task"])

    def result(self) -> RunResult:
        """The content of result.json. A run that was killed before it wrote the file has the status
        `running`. Raises RunError for a run of another format."""
        path = self.folder / "result.json"
        if self.is_exported:
            values = self._exported_values()["result"]
        elif path.is_file():
            values = read_json(path, "status", fix=WRITE_AGAIN)
        else:
            return RunResult("running")
        number = values.get("format", 0)
        if number != FORMAT:
            problem = f"{self.folder}: the run has format {number!r}, this version reads {FORMAT}"
            fix = "train it again with --force, or use the version of mednli_jax in its env.json"
            raise RunError(problem, fix=fix)
        return RunResult.from_json(values)

    def status(self) -> str:
        return self.result().status

    def data(self) -> RunData:
        """The content of data.json; empty for a run that lacks it."""
        path = self.folder / "data.json"
        if self.is_exported:
            values = self._exported_values()["data"]
        else:
            values = read_json(path, fix=RESTORE) if path.is_file() else {}
        return RunData.from_json(values)

    @property
    def is_exported(self) -> bool:
        return (self.folder / MODEL).is_file()

    def _exported_values(self) -> dict[str, Json]:
        """The content of model.json: "result" and "data"."""
        return _read_sealed(self.folder / MODEL, "export the run again")

    def environment(self) -> RunEnvironment:
        """The content of env.json; empty for a run that lacks it."""
        path = self.folder / "env.json"
        values = read_json(path, fix=RESTORE) if path.is_file() else {}
        return RunEnvironment(**values)

    def unfinished_error(self, status: str) -> RunError:
        """The error for a run that is not complete: its state and the fix."""
        if self.in_training():
            problem = f"{self.folder}: the run is in training"
            return RunError(problem, fix="wait until it is finished")
        workdir = f"--workdir={self.folder}"
        fix = f"continue with it: train with its flags, {workdir} and --resume"
        if status == "failed":
            resumable = self.result().resumable
            go_on = "--resume to continue with the same flags, or " if resumable else ""
            fix = f"{FAILED}, then train with {workdir} and {go_on}--force to start over"
        return RunError(f"{self.folder}: the run is not finished (status {status})", fix=fix)

    def metrics(self) -> list[MetricsRow]:
        """The rows of metrics.jsonl. A last line without a line break, which a kill cut short, is
        left out."""
        path, rows = self.folder / "metrics.jsonl", []
        lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(MetricsRow(int(json.loads(line)["epoch"]), line))
            except (ValueError, TypeError, KeyError):
                problem = f"{path}:{number}: is not a row of metrics (a JSON object with its epoch)"
                raise RunError(problem, fix="restore the line, or remove it") from None
        return rows

    # -- writing -----------------------------------------------------------------------------------

    def write_result(self, status: str, values: Mapping[str, Json]) -> None:
        write_json(self.folder / "result.json", {"format": FORMAT, **values, "status": status})

    def append_metrics(self, row: Mapping[str, Json]) -> None:
        """Writes one line to metrics.jsonl at once, so that an interrupted run keeps it."""
        append_line(self.folder / "metrics.jsonl", json.dumps(row, allow_nan=False))

    def truncate_metrics(self, epochs: int) -> None:
        """Deletes the rows after the first `epochs` epochs, which a resumed run trains again."""
        lines = [row.line + b"\n" for row in self.metrics() if row.epoch <= epochs]
        write_atomic(self.folder / "metrics.jsonl", b"".join(lines))

    def write_scalars(self, row: Mapping[str, Json]) -> None:
        """Writes an epoch for TensorBoard, a curve per seed, and hides later points, which a killed
        process wrote."""
        epoch = row["epoch"]
        if self._scalars is None:
            self._scalars = self._new_scalars(epoch)
        values = {"examples_per_second": row["examples_per_second"]}
        for name in ("train_loss", "train_accuracy", "dev_loss", "dev_accuracy"):
            for seed, value in zip(row["seeds"], row[name], strict=True):
                values[f"{name}/seed{seed}"] = value
        for tag, value in values.items():
            if value is not None:
                self._scalars.add_scalar(tag, value, epoch)
        self._scalars.flush()

    def _new_scalars(self, epoch: int) -> SummaryWriter:
        """The writer of a new file for TensorBoard, which hides the points from `epoch` on of
        earlier files."""
        from tensorboardX import SummaryWriter  # imported here because only training needs it

        folder = self.folder / "tensorboard"
        with writing(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
            # The number tells apart the files of two processes that begin in one second.
            suffix = f".{len(list(folder.iterdir()))}"
        return SummaryWriter(str(folder), purge_step=epoch, filename_suffix=suffix)

    def write_lines(self, name: str, rows: Iterable[Mapping[str, Json]]) -> None:
        """Writes a file of private/, a line of JSON for each row."""
        lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
        write_atomic(self.private / name, "".join(lines))

    def log(self, line: str) -> None:
        append_line(self.folder / "log.txt", f"{_now()} {line}")


def read_saved(directory: RunDirectory, name: str) -> dict[str, Json]:
    """Reads a manifest in private/, whose values may be words of the corpus."""
    return _read_sealed(directory.private / name, "restore the run directory")


def _read_sealed(path: Path, fix: str) -> dict[str, Json]:
    try:
        return read_sealed(path)
    except (OSError, ValueError, KeyError, TypeError):
        problem = f"{path}: is missing or differs from what the run wrote"
        raise RunError(problem, fix=fix) from None


def differing(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """The fields in which two trees of JSON values differ, such as `train.epochs`."""
    old_leaves, new_leaves = flat(old), flat(new)
    names = sorted(old_leaves.keys() | new_leaves.keys())
    return [name for name in names if old_leaves.get(name, ...) != new_leaves.get(name, ...)]


def flat(tree: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """The leaves of a tree of JSON values by name, such as `train.epochs`."""
    leaves: dict[str, Json] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves |= flat(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves
