"""Progress with ETA: a bar on a terminal, a plain line now and then elsewhere. Everything goes to stderr."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from mednli_jax.errors import PrintableStream, printable

PLAIN_SECONDS = 15.0
SLOW_SECONDS = 2.0  # work that takes no longer shows no bar
_STRIDE = 256  # examples between two looks at the clock


def say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)  # while a bar is shown, rich takes the place of the stream


def warn(line: str) -> None:
    """A line on what a user should look at, though the work goes on."""
    say(f"warning: {line}")


class Bar:
    """`with Bar("epoch 1/6", total) as bar: bar.advance(n, "loss 1.02")`.

    Args:
      total: None where it is not known, as of lines from a pipe.
      first: units that were done before, by another process: no part of the rate.
      delay: seconds since `begun` (time.monotonic(), default: now) before which a terminal shows nothing.
    """

    def __init__(
        self,
        title: str,
        total: int | None,
        *,
        unit: str = "examples",
        first: int = 0,
        delay: float = 0.0,
        begun: float | None = None,
    ):
        self.title, self.total, self.unit, self.first = printable(title), total, unit, first
        self.done, self.started, self.printed = first, time.monotonic(), time.monotonic()
        self._shown_from = (self.started if begun is None else begun) + delay
        self._bar = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}", markup=False),  # the name of a file is no markup
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
            )
            console = Console(file=PrintableStream(sys.stderr).stream)  # a bar is made of what a terminal obeys
            self._bar = Progress(*columns, console=console, transient=True, expand=True)
            self._task = self._bar.add_task(self.title, total=total, completed=first, note="")

    def __enter__(self):
        self._show()
        return self

    def __exit__(self, *_):
        if self._bar and self._bar.live.is_started:
            self._bar.stop()

    def _show(self):
        if self._bar and not self._bar.live.is_started and time.monotonic() >= self._shown_from:
            self._bar.start()

    def advance(self, count: int, note: str = "") -> None:
        self.done += count
        if self.total is not None:
            self.done = min(self.done, self.total)
        if self._bar:
            self._show()
            self._bar.update(self._task, advance=count, note=printable(note))
            self._show()
        elif time.monotonic() - self.printed > PLAIN_SECONDS:
            self.printed = time.monotonic()
            rate = (self.done - self.first) / (self.printed - self.started)
            done = f"{self.title}: {self.done}"
            if self.total is None:
                say(f"{done} {self.unit}, {rate:.0f}/s  {note}".rstrip())
            else:
                eta = (self.total - self.done) / max(rate, 1e-9)
                say(f"{done}/{self.total} {self.unit}, {rate:.0f}/s, ETA {eta:.0f} s  {note}".rstrip())

    def reach(self, done: int, total: int) -> None:
        """Advances to `done` of `total`."""
        self.total = total
        if self._bar:
            self._bar.update(self._task, total=total)
        self.advance(done - self.done)


@contextlib.contextmanager
def spinner(title: str):
    """Shows on a terminal that something of unknown length is under way; elsewhere it is said once."""
    if not sys.stderr.isatty():
        say(title)
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(file=PrintableStream(sys.stderr).stream)
    with Progress(*columns, console=console, transient=True) as shown:
        shown.add_task(title, total=None)
        yield


class Watch(Bar):
    """Counts the examples of each pass over a corpus; total: of all passes together. begun: see Bar."""

    def __init__(self, total: int, begun: float | None = None):
        super().__init__("preparing", total, unit="steps", delay=SLOW_SECONDS, begun=begun)

    def __call__(self, examples: Sequence, note: str) -> Iterator:
        """The examples one by one; note: what the pass does."""
        for first in range(0, len(examples), _STRIDE):
            part = examples[first : first + _STRIDE]
            yield from part
            self.advance(len(part), note)


def unwatched(examples: Sequence, note: str) -> Sequence:
    """Replaces a Watch where no progress is shown."""
    return examples
