"""The run directory and the atomic writer: what a run leaves on disk, and how it gets there whole.

    config.json env.json data.json metrics.jsonl log.txt result.json tensorboard/ checkpoints/ private/

Only `private/` may hold text of a corpus. Files are 0600, folders 0700. `result.json` carries
`status`: running, interrupted, complete or failed; nothing but `complete` is a result.
"""

import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import mednli_jax
from mednli_jax.errors import UserError

STATUSES = ("running", "interrupted", "complete", "failed")
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "scipy", "ml-collections")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Writes a file so that readers see the old content or the new one, never a part: temporary name, fsync, rename."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"E-RUN-005 {path}: cannot be written ({error.strerror}). Fix: free space or check the folder's "
            "permissions."
        ) from error


def write_json(path: Path, value) -> None:
    write_atomic(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path):
    """A JSON file of a run directory. Raises UserError naming the file where it is missing or damaged."""
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise UserError(
            f"E-RUN-001 {path}: no such file. Fix: name the directory of a finished or interrupted run."
        ) from None
    except (ValueError, OSError) as error:
        raise UserError(
            f"E-RUN-002 {path}: cannot be read as JSON ({type(error).__name__}). Fix: restore the file."
        ) from None


def environment() -> dict:
    """Versions and machine of this process; the doors add the devices."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "missing"
    return {
        "mednli_jax": mednli_jax.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": versions,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else -1.0,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def _commit() -> str:
    """The commit of the checkout this package runs from, with + if it has changes; "" outside a checkout."""
    folder = Path(mednli_jax.__file__).parent
    try:
        head = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return head.stdout.strip()


def next_free(folder: Path) -> Path:
    """`folder`, or folder-2, folder-3, ...: the first that does not exist yet."""
    candidate, number = folder, 1
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


class RunDirectory:
    """One run's folder. Open it with `create` (new or resumed) or `existing` (finished, for reading)."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self._lock = None

    @classmethod
    def existing(cls, folder: Path) -> "RunDirectory":
        run = cls(folder)
        if not (run.folder / "config.json").is_file():
            raise UserError(
                f"E-RUN-001 {run.folder}: not a run directory (config.json is missing). Fix: give the "
                "directory that train printed, e.g. --run=runs/esim_kd-demo."
            )
        return run

    @classmethod
    def check(cls, folder: Path, *, resume: bool = False, force: bool = False) -> bool:
        """Whether the folder holds a run. Raises UserError where `create` may not use it."""
        run = cls(folder)
        # Other programs write a config.json, too; only a run has the lock beside it.
        found = all((run.folder / name).is_file() for name in ("config.json", "lock"))
        if run.folder.exists() and not run.folder.is_dir():
            raise UserError(f"E-RUN-006 {run.folder}: is a file. Fix: choose another --workdir.")
        if run.folder.is_dir() and not found and run._holds_files():
            raise UserError(f"E-RUN-006 {run.folder}: holds other files. Fix: choose an empty --workdir.")
        if found and not (resume or force):
            raise UserError(
                f"E-RUN-003 {run.folder}: holds a run already (status {run.status()}). "
                "Fix: --resume to go on, --force to start over, or another --workdir."
            )
        return found

    @classmethod
    def create(cls, folder: Path, config: dict, *, resume: bool = False, force: bool = False) -> "RunDirectory":
        """Makes the folder, or reopens it to resume.

        Raises UserError where it holds another run and neither resume nor force was asked for, where resume finds
        another config, or where another process trains in it.
        """
        run = cls(folder)
        found = cls.check(folder, resume=resume, force=force)
        try:
            for path in (run.folder, run.folder / "private"):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"E-RUN-005 {run.folder}: cannot be made ({error.strerror}). Fix: check --workdir."
            ) from error
        run.lock()
        if found and resume:
            run._check_config(config)
        else:
            run._clear()
            write_json(run.folder / "config.json", config)
        return run

    def _holds_files(self):
        """Whether there is anything but a lock and empty folders, which a start that failed leaves behind."""
        paths = (path for path in self.folder.rglob("*") if path != self.folder / "lock")
        return any(path.is_symlink() or not path.is_dir() for path in paths)

    def _check_config(self, config):
        old = _flat(read_json(self.folder / "config.json"))
        new = _flat(json.loads(json.dumps(config)))  # as it would be read back: tuples are lists
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key, ...) != new.get(key, ...))
        if changed:
            raise UserError(
                f"E-RUN-004 {self.folder}: the run was started with other values of {', '.join(changed[:5])}. "
                "Fix: resume with the same flags, or choose another --workdir."
            )

    def check_data(self, manifest: dict) -> None:
        """Refuses to go on with other data than the run began with."""
        path = self.folder / "data.json"
        if path.is_file() and read_json(path)["files"] != manifest["files"]:
            raise UserError(
                f"E-RUN-012 {self.folder}: the corpus, the vectors or the ontology changed since the run began. "
                "Fix: restore them, or start over with --force."
            )

    def _clear(self):
        """Removes what an earlier run left, and only names that a run writes."""
        for name in ("result.json", "metrics.jsonl", "log.txt", "env.json", "data.json", "config.json"):
            (self.folder / name).unlink(missing_ok=True)
        for name in ("checkpoints", "private", "tensorboard", "profile"):
            for path in sorted((self.folder / name).rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def lock(self):
        """Keeps a second process out until this one ends, however it ends."""
        try:
            self._lock = open(self.folder / "lock", "w")  # noqa: SIM115 - held for the life of the process
        except OSError as error:
            raise UserError(
                f"E-RUN-005 {self.folder}: cannot be written ({error.strerror}). Fix: choose another --workdir."
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"E-RUN-007 {self.folder}: another process is training here. Fix: wait for it, or choose "
                "another --workdir."
            ) from None

    @property
    def config(self) -> dict:
        return read_json(self.folder / "config.json")

    @property
    def private(self) -> Path:
        return self.folder / "private"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def status(self) -> str:
        path = self.folder / "result.json"
        return read_json(path)["status"] if path.is_file() else "running"

    def write_result(self, status: str, values: dict) -> None:
        if status not in STATUSES:
            raise ValueError(f"no such status: {status}")
        write_json(self.folder / "result.json", {**values, "status": status})

    def append_metrics(self, row: dict) -> None:
        """One line of metrics.jsonl, flushed: an interrupted run keeps what it measured."""
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")

    def keep_metrics(self, epochs: int) -> None:
        """Drops the lines of epochs that a resumed run will train again, and a last line that was cut short."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["epoch"] <= epochs]
        write_atomic(path, "".join(kept))

    def write_scalars(self, row: dict) -> None:
        """The epoch's losses, accuracies and speed for TensorBoard, one curve per seed."""
        from tensorboardX import SummaryWriter  # slow to import, and only training needs it

        with SummaryWriter(str(self.folder / "tensorboard")) as writer:
            for name in ("train_loss", "train_accuracy", "dev_loss", "dev_accuracy"):
                for seed, value in zip(row["seeds"], row[name], strict=True):
                    if value is not None:
                        writer.add_scalar(f"{name}/seed{seed}", value, row["epoch"])
            writer.add_scalar("examples_per_second", row["examples_per_second"], row["epoch"])

    def write_predictions(self, split: str, rows: list[dict]) -> None:
        """private/predictions.<split>.jsonl: one object per pair, joined to the corpus by uid."""
        content = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
        write_atomic(self.private / f"predictions.{split}.jsonl", content)

    def log(self, line: str) -> None:
        with open(self.folder / "log.txt", "a") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")


def _flat(tree, prefix=""):
    flat = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
