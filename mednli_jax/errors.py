"""Errors that a user can correct, each in one line, and reports of bugs. Neither quotes the text of
a corpus.

Errors of code that a user plugs in are shown with their message, which its author chose.

The message of a bug may quote the data, so only its type and place are reported.
$MEDNLI_JAX_TRACEBACK=1 shows the whole report, for places where text may be shown.
"""

import os
import sys
import threading
import traceback
from pathlib import Path

MAX_PROBLEMS = 20
PACKAGE = Path(__file__).parent
SHOW_ALL = "MEDNLI_JAX_TRACEBACK"
PLUGINS = "MEDNLI_JAX_PLUGINS"  # packages of the user that may be imported, separated by commas
MOST_FRAMES = 24  # innermost frames of a bug's report


class UserError(Exception):
    """Bad input or usage: `PROBLEM. Fix: FIX.` A command prints `error: ` and this line, and exits
    with code 2.

    Args:
      problem: what is wrong.
      fix: what the user can do; "" where `problem` says it.
    """

    def __init__(self, problem: str = "", *, fix: str = ""):
        message = f"{_sentence(problem)} Fix: {fix}." if fix else problem
        super().__init__(message.replace("\n", "\\n"))


def _sentence(text: str) -> str:
    """The text with a period, unless it ends with one or with a question mark."""
    return text if text.endswith((".", "?")) else f"{text}."


class UsageError(UserError):
    """A wrong flag or a wrong use of a command."""


class ConfigError(UserError):
    """A config field with a wrong value: `config.FIELD: PROBLEM. Fix: FIX.`

    Args:
      problem, fix: as in UserError.
      field: the name of the field with its sections, such as `model.name`; "" where `problem` names it.
    """

    def __init__(self, problem: str = "", *, field: str = "", fix: str = ""):
        super().__init__(f"config.{field}: {problem}" if field else problem, fix=fix)


class RunError(UserError):
    """A run directory, a checkpoint, a process or the disk is not in the required state."""


class ResumableError(RunError):
    """The same command can succeed later: another process holds the run, or was interrupted. Exit
    code 3."""


class DataError(UserError):
    """One error in one file: `mli_dev_v1.jsonl:18: field 'gold_label' is missing. Fix: ...`.

    problem: what is wrong, in terms of fields and counts, without a quotation of the text. It also
    names the field.
    """

    def __init__(self, problem, *, file=None, line=None, field=None, fix=""):
        self.problem, self.file, self.line, self.field, self.fix = problem, file, line, field, fix
        where = "".join(f"{part}:" for part in (file, line) if part is not None)
        super().__init__(f"{where} {_sentence(problem)}".lstrip(), fix=fix.removesuffix("."))


class DataErrors(UserError):
    """Several errors of one pass over a file: the first 20 and the number of further ones."""

    def __init__(self, errors, total):
        self.errors, more = errors, total - len(errors)
        lines = [*map(str, errors), *[f"... and {more} more problems."] * bool(more)]
        Exception.__init__(self, "\n".join(lines))


class Problems:
    """Collects the errors of one file, so that the user sees the first 20 at once; equal ones are
    counted as one."""

    def __init__(self):
        self.total, self._more = 0, 0
        # (file, problem, fix) -> errors that differ in their lines alone: the first three, and
        # their number
        self._found = {}

    def add(self, error: DataError):
        self.total += 1
        key = (error.file, error.problem, error.fix)
        if key not in self._found and len(self._found) == MAX_PROBLEMS:
            self._more += 1
            return
        first, count = self._found.get(key, ([], 0))
        self._found[key] = (first + [error] * (count < 3), count + 1)

    def raise_if_any(self):
        errors = [_counted(first, count) for first, count in self._found.values()]
        if len(errors) > 1:
            raise DataErrors(errors, len(errors) + self._more)
        if errors:
            raise errors[0]


def _counted(first: list[DataError], count: int) -> DataError:
    """One error for `count` equal ones, with the numbers of the first lines."""
    one = first[0]
    if count == 1:
        return one
    lines = ", ".join(str(error.line) for error in first if error.line is not None)
    where = (
        f"{count:,} times"
        + (f", in lines {lines}" if lines else "")
        + (", ..." if count > len(first) else "")
    )
    return DataError(
        f"{one.problem} ({where})", file=one.file, line=one.line, field=one.field, fix=one.fix
    )


def of_plugin(error: BaseException) -> str:
    """`mymodel.py:12 (__call__): TypeError: ...` for an error in code of a package in $PLUGINS,
    else ""."""
    packages = os.environ.get(PLUGINS, "").split(",")
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_globals.get("__name__", "").partition(".")[0] in packages:
            code = frame.f_code
            reason, _, _ = str(error).partition("\n")  # jax explains itself in further lines
            place = f"{code.co_filename}:{line} ({code.co_name})"
            return (
                f"{place}: {type(error).__name__}: {reason.rstrip('.')}. Fix: correct this module."
            )
    return ""


def hide_messages() -> None:
    """Reports exceptions that nothing catches without their messages, in all threads."""
    sys.excepthook = lambda kind, error, trace: report_bug(error)
    threading.excepthook = lambda thread: report_bug(thread.exc_value or Exception())


def report_bug(error: BaseException) -> None:
    """Prints `bug: KeyError in mednli_jax/data/text.py:9 (pad). Fix: ...` on stderr, then the
    frames, outermost first.

    The exceptions that led to this one follow in the same form. No line holds a message, source
    code or a value.
    """
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return
    if os.environ.get(SHOW_ALL, "") not in ("", "0"):
        traceback.print_exception(error)
    fix = (
        f"report these lines, which quote no text; {SHOW_ALL}=1 shows all, where text may be shown"
    )
    lines = [
        f"bug: {summary(error)}. Fix: {fix}.",
        *(f"  {place}" for place in _places(error)[-MOST_FRAMES:]),
    ]
    while error := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        lines.append(f"  after {summary(error)}")
    print("\n".join(lines), file=sys.stderr, flush=True)


def summary(error: BaseException) -> str:
    """`KeyError in mednli_jax/data/text.py:120 (pad)`: the innermost frame of this package, else of
    all frames."""
    places = _places(error)
    innermost = ([place for place in places if place.startswith(PACKAGE.name)] or places)[-1:]
    return f"{type(error).__name__}{''.join(f' in {place}' for place in innermost)}"


def _places(error):
    """`mednli_jax/data/text.py:120 (pad)` for each frame. traceback.extract_tb would read the
    source lines."""
    places = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        path = (
            path.relative_to(PACKAGE.parent)
            if path.is_relative_to(PACKAGE)
            else Path(*path.parts[-2:])
        )
        places.append(f"{path}:{line} ({frame.f_code.co_name})")
    return places
