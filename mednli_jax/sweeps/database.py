"""The database of a study: opening it by optuna, and taking turns where it has no locks."""

import contextlib
import fcntl
import os
import random
import time
import warnings
from pathlib import Path

from mednli_jax.errors import RunError

OPENINGS = 4


def optuna():
    """The library. Raises UserError where it is not installed."""
    try:
        import optuna
    except ImportError:
        raise RunError("optuna is not installed, and a sweep needs it. Fix: pip install 'mednli_jax[sweep]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def no_answer() -> tuple[type[Exception], ...]:
    """What is raised while a database does not answer."""
    from sqlalchemy import exc

    return optuna().exceptions.StorageInternalError, exc.SQLAlchemyError


def lock_of(url: str, *, must_exist: bool) -> Path | None:
    """The lock file of an SQLite database, None for one that has a server. Raises UserError for no URL.

    SQLite has no row locks: two workers may both find an attempt waiting and both take it. A file's lock, which ends
    with the process however it ends, makes them take turns.
    """
    optuna()
    from sqlalchemy import exc
    from sqlalchemy.engine import make_url

    try:
        parsed = make_url(url)
        sqlite = parsed.get_backend_name() == "sqlite"
    except (exc.ArgumentError, ValueError):  # a password may stand in it: it is not repeated
        raise RunError(
            "--storage is no database URL. Fix: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME."
        ) from None
    if not sqlite:
        return None
    if parsed.database in (None, "", ":memory:"):
        raise RunError("--storage names no file, and would keep nothing. Fix: sqlite:///FILE.")
    path = Path(parsed.database)
    if must_exist and not path.is_file():
        raise RunError(f"{path}: there is no such database. Fix: check --study and --storage.")
    if not path.parent.is_dir():
        raise RunError(f"{path}: there is no such folder. Fix: make it, or check --storage.")
    return path.with_name(f"{path.name}.lock")


@contextlib.contextmanager
def held(lock: Path | None):
    """One process at a time; the lock is let go of with the file."""
    if lock is None:
        yield
        return
    with open(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def storage(url: str, grace: int, lock: Path | None):
    """optuna's storage over the database; grace: seconds without a heartbeat. Raises UserError if it cannot be opened.

    Two workers that make the tables of a server's database at once disturb each other: it is tried again.
    """
    library = optuna()
    from sqlalchemy import exc

    options = {"connect_args": {"timeout": 60}} if lock else {"pool_pre_ping": True}
    for left in reversed(range(OPENINGS)):
        try:
            with held(lock), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # optuna calls heartbeats experimental
                return library.storages.RDBStorage(
                    url, engine_kwargs=options, heartbeat_interval=max(1, grace // 4), grace_period=grace
                )
        except (exc.ArgumentError, ImportError, RuntimeError) as error:
            fix = "install its driver" if isinstance(error, ImportError) else "check --storage"
            reason = type(error).__name__
        except (exc.SQLAlchemyError, library.exceptions.OptunaError) as error:
            reason, fix = type(error).__name__, "check --storage, and that the database is there and may be written"
            if left and lock is None:
                time.sleep(1 + random.random())
                continue
        raise RunError(f"--storage: the database cannot be opened ({reason}). Fix: {fix}.")
    raise AssertionError("unreachable")
