"""The terminal: progress bars, messages, and streams whose reader may leave."""

import contextlib
import errno
import io
import os
import sys
import time
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Example = TypeVar("Example")
PLAIN_SECONDS = 15.0
RATE_SECONDS = 86_400.0  # of which a bar takes the rate: one item, as a run, may take hours
_STRIDE = 256  # examples between two updates


# File descriptors of standard streams whose reader has left.
_unread: set[int] = set()


class _LossyStream(io.FileIO):
    """A standard stream whose reader may leave. Output after that is lost without an error.

    Args:
      number: the file descriptor, which stays open.
      losses: numbers of the errors by which a lost reader shows.
    """

    def __init__(self, number: int, losses: Container[int]) -> None:
        super().__init__(number, "w", closefd=False)
        self._losses = losses

    def write(self, data: "ReadableBuffer", /) -> int:
        if self.fileno() not in _unread:
            try:
                return super().write(data)
            except OSError as error:
                if error.errno not in self._losses:
                    raise
                _unread.add(self.fileno())
        return memoryview(data).nbytes


@contextlib.contextmanager
def lossy_streams() -> Iterator[None]:
    """Replaces the standard streams, so that a command goes on if their reader has left or they
    were closed at its start."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: another file would take its descriptor
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends
    before = sys.stdout, sys.stderr
    _unread.clear()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        on_terminal = {errno.EIO} if sys.stdout.isatty() else set()
        sys.stdout = _lossy(sys.stdout, {errno.EPIPE} | on_terminal)
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        sys.stderr = _lossy(sys.stderr, errno.errorcode)  # messages are never worth the work
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # the end of the process would report it again
            _unread.add(sys.stdout.fileno())
        sys.stdout, sys.stderr = before


def _lossy(stream: io.TextIOWrapper, losses: Container[int]) -> io.TextIOWrapper:
    raw = _LossyStream(stream.fileno(), losses)
    # Ctrl-C within a write would leave the line in a buffer, to be written again.
    is_unbuffered = stream.write_through or stream is sys.__stderr__
    buffer = raw if is_unbuffered else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def output_is_read() -> bool:
    """Whether the output still has a reader. It has none after the end of `head` in `predict ... |
    head`."""
    return 1 not in _unread


def say(line: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # its reader may have left
            # rich replaces sys.stderr while a bar is shown
            print(line, file=sys.stderr, flush=True)


def warn(line: str) -> None:
    say(f"warning: {line}")


def rate_text(rate: float) -> str:
    """Formats a rate per second: `12/s`, or `2.5 s each` below 1."""
    return f"{rate:.0f}/s" if rate > 0.95 else f"{1 / max(rate, 1e-9):.1f} s each"


class Bar:
    """A progress bar: `with Bar("epoch 1/6", total) as bar: bar.advance(n, "loss 1.02")`.

    Args:
      total: the number of items, if it is known.
      noun: names the items.
      first: items that another process did; they do not count for the rate.
    """

    def __init__(
        self, title: str, total: int | None, *, noun: str = "examples", first: int = 0
    ) -> None:
        self.title, self.total, self.noun, self.first = title, total, noun, first
        self.done, self.started, self.printed = first, time.monotonic(), time.monotonic()
        text = TextColumn("{task.description}", markup=False)  # a file name may look like markup
        note = TextColumn("{task.fields[note]}", markup=False)
        columns = (
            text,
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        on_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar = Progress(
            *columns,
            note,
            console=Console(stderr=True),
            speed_estimate_period=RATE_SECONDS,
            transient=True,
            disable=not on_terminal,
        )
        self._task = self._bar.add_task(title, total=total, completed=first, note="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, count: int, note: str = "") -> None:
        self.done += count
        self._bar.update(self._task, advance=count, note=note)
        if self._bar.disable and time.monotonic() - self.printed > PLAIN_SECONDS:
            self.printed = time.monotonic()
            say(f"{self.title}: {self._speed()}  {note}".rstrip())

    def _speed(self) -> str:
        """The items so far, their rate and the time left; the seconds before the first item."""
        elapsed = self.printed - self.started
        rate = (self.done - self.first) / elapsed
        if not rate:
            return f"{elapsed:.0f} s"
        if self.total is None:
            return f"{self.done} {self.noun}, {rate_text(rate)}"
        left = f"ETA {(self.total - self.done) / rate:.0f} s"
        return f"{self.done}/{self.total} {self.noun}, {rate_text(rate)}, {left}"

    def reach(self, done: int, total: int) -> None:
        """Advances to `done` of `total`."""
        self.total = total
        self._bar.update(self._task, total=total)
        self.advance(done - self.done)


def with_progress(examples: Sequence[Example], title: str) -> Iterator[Example]:
    """Yields the examples, with a progress bar if there are many."""
    if len(examples) <= _STRIDE:
        yield from examples
        return
    with Bar(title, len(examples)) as bar:
        for first in range(0, len(examples), _STRIDE):
            stride = examples[first : first + _STRIDE]
            yield from stride
            bar.advance(len(stride))
