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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

MAX_PROBLEMS = 20
MOST_LINES = 3  # numbers of lines that one message names
PACKAGE = Path(__file__).parent
SHOW_ALL = "MEDNLI_JAX_TRACEBACK"
PLUGINS = "MEDNLI_JAX_PLUGINS"  # packages of the user that may be imported, separated by commas
MOST_FRAMES = 24  # innermost frames of a bug's report


class UserError(Exception):
    """Bad input or usage: `PROBLEM. Fix: FIX.` A command prints `error: ` and this line, and exits
    with code 2.

    Messages name fields as `config.train.clip` and flags as `--resume`, in Python, too.

    Args:
      problem: the description of the fault.
      fix: what the user can do; "" if `problem` says it.
    """

    def __init__(self, problem: str = "", *, fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix

    def __str__(self) -> str:
        message = self._headline()
        if self.fix:
            message = f"{_sentence(message)} Fix: {_sentence(self.fix)}"
        return message.replace("\n", "\\n")

    def _headline(self) -> str:
        """The message without its fix."""
        return self.problem


def _sentence(text: str) -> str:
    """Ends the text with a period, unless it ends with one or with a question mark."""
    return text if text.endswith((".", "?")) else f"{text}."


class UsageError(UserError):
    """A wrong flag or a wrong use of a command."""


class ConfigError(UserError):
    """A config field with a wrong value: `config.FIELD: PROBLEM. Fix: FIX.`

    Args:
      problem, fix: as in UserError.
      field: the field with its section, such as `model.name`; "" if `problem` names it.
    """

    def __init__(self, problem: str = "", *, field: str = "", fix: str = "") -> None:
        super().__init__(problem, fix=fix)
        self.field = field

    def _headline(self) -> str:
        return f"config.{self.field}: {self.problem}" if self.field else self.problem


class RunError(UserError):
    """A run directory, a checkpoint, a process or the disk is not in the required state."""


class ResumableError(RunError):
    """The same command can succeed later: another process holds the run, or was interrupted. Exit
    code 3."""


class DataError(UserError):
    """One error in one file: `mli_dev_v1.jsonl:18: field 'gold_label' is missing. Fix: ...`.

    Args:
      problem: describes the fault in terms of fields and counts, without a quotation of the text.
        It also names the field.
      line: the number of the line, or the place in a file that is not read by lines, such as the
        path of a value in a JSON document.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | str | None = None,
        field: str | None = None,
        fix: str = "",
    ) -> None:
        super().__init__(problem, fix=fix)
        self.file, self.line, self.field = file, line, field

    def _headline(self) -> str:
        problem = _sentence(self.problem)
        place = "".join(
            f"{position}:" for position in (self.file, self.line) if position is not None
        )
        return f"{place} {problem}" if place else problem


class DataErrors(UserError):
    """Several errors of one pass over a file: the first 20 and the number of further ones."""

    def __init__(self, errors: Sequence[DataError], total: int) -> None:
        super().__init__()
        self.errors, self.total = errors, total

    def __str__(self) -> str:
        lines = list(map(str, self.errors))
        if self.total > len(self.errors):
            lines.append(f"... and {self.total - len(self.errors)} more problems.")
        return "\n".join(lines)


@dataclass
class _Repeated:
    """Equal errors of several lines."""

    first: list[DataError]  # at most MOST_LINES
    count: int = 0

    def as_one(self) -> DataError:
        """Joins them to one error with the numbers of the first lines."""
        error = self.first[0]
        if self.count == 1:
            return error
        lines = [str(repeated.line) for repeated in self.first if repeated.line is not None]
        where = f"{self.count:,} times"
        if lines:
            noun = "" if isinstance(error.line, str) else "lines "
            where += f", in {noun}{', '.join(lines)}"
        if self.count > len(self.first):
            where += ", ..."
        return DataError(
            f"{error.problem} ({where})",
            file=error.file,
            line=error.line,
            field=error.field,
            fix=error.fix,
        )


class Problems:
    """Collects the errors of one file, so that the user sees the first 20 at once; equal ones are
    counted as one."""

    def __init__(self) -> None:
        self.total = 0
        self._unlisted = 0
        self._by_message: dict[tuple[str | None, str, str], _Repeated] = {}

    def add(self, error: DataError) -> None:
        self.total += 1
        message = (error.file, error.problem, error.fix)
        if message not in self._by_message:
            if len(self._by_message) == MAX_PROBLEMS:
                self._unlisted += 1
                return
            self._by_message[message] = _Repeated([])
        repeated = self._by_message[message]
        repeated.count += 1
        if len(repeated.first) < MOST_LINES:
            repeated.first.append(error)

    def raise_if_any(self) -> None:
        errors = [repeated.as_one() for repeated in self._by_message.values()]
        if len(errors) > 1:
            raise DataErrors(errors, len(errors) + self._unlisted)
        if errors:
            raise errors[0]


def plugin_message(error: BaseException) -> str:
    """The line `mymodel.py:12 (__call__): TypeError: ...` for an error in code of a package in
    $PLUGINS, else ""."""
    packages = os.environ.get(PLUGINS, "").split(",")
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_globals.get("__name__", "").partition(".")[0] in packages:
            code = frame.f_code
            reason, _, _ = str(error).partition("\n")  # jax explains itself in further lines
            place = f"{code.co_filename}:{line} ({code.co_name})"
            problem = f"{place}: {type(error).__name__}: {reason}"
            return str(UserError(problem, fix="correct this module, or the file that it reads"))
    return ""


def print_traceback_if_asked(error: BaseException) -> None:
    """Prints the traceback if $MEDNLI_JAX_TRACEBACK asks for it."""
    if os.environ.get(SHOW_ALL, "") not in ("", "0"):
        traceback.print_exception(error)


def hide_messages() -> None:
    """Installs hooks that report uncaught exceptions without their messages, in all threads."""

    def process_hook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        report_bug(error)

    def thread_hook(thread: threading.ExceptHookArgs) -> None:
        report_bug(thread.exc_value or Exception())

    sys.excepthook = process_hook
    threading.excepthook = thread_hook


def report_bug(error: BaseException) -> None:
    """Prints `bug: KeyError in mednli_jax/data/text.py:9 (pad). Fix: ...` on stderr, then the
    frames, outermost first.

    The exceptions that led to this one follow in the same form. No line holds a message, source
    code or a value.
    """
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return
    print_traceback_if_asked(error)
    fix = (
        f"report these lines, which quote no text; {SHOW_ALL}=1 shows all, where text may be shown"
    )
    lines = [f"bug: {summary(error)}. Fix: {fix}."]
    lines += [f"  {place}" for place in _places(error)[-MOST_FRAMES:]]
    cause = _cause(error)
    while cause:
        lines.append(f"  after {summary(cause)}")
        cause = _cause(cause)
    print("\n".join(lines), file=sys.stderr, flush=True)


def _cause(error: BaseException) -> BaseException | None:
    """The exception that led to this one."""
    context = None if error.__suppress_context__ else error.__context__
    return error.__cause__ or context


def summary(error: BaseException) -> str:
    """Names an error and its place, `KeyError in mednli_jax/data/text.py:120 (pad)`: the innermost
    frame of this package, else of all frames."""
    places = _places(error)
    own = [place for place in places if place.startswith(PACKAGE.name)]
    innermost = (own or places)[-1:]
    return f"{type(error).__name__}{''.join(f' in {place}' for place in innermost)}"


def _places(error: BaseException) -> list[str]:
    """The place `mednli_jax/data/text.py:120 (pad)` of each frame. traceback.extract_tb would read
    the source lines."""
    places = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            shown = path.relative_to(PACKAGE.parent)
        else:
            shown = Path(*path.parts[-2:])
        places.append(f"{shown}:{line} ({frame.f_code.co_name})")
    return places
