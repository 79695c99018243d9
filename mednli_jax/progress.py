"""Progress with ETA on stderr: a bar on a terminal, elsewhere a plain line every 15 seconds."""

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
SLOW_SECONDS = 2.0  # shorter work shows no bar
_STRIDE = 256  # examples between two updates


def say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)  # rich replaces sys.stderr while a bar is shown


def warn(line: str) -> None:
    """Prints a warning line; the work continues."""
    say(f"warning: {line}")


class Bar:
    """`with Bar("epoch 1/6", total) as bar: bar.advance(n, "loss 1.02")`.

    Args:
      total: number of units; None where it is not known, such as for lines from a pipe.
      unit: name of the units.
      first: units that another process did before; they do not count for the rate.
      delay: seconds after `begun` before which a terminal shows nothing.
      begun: start of the work (time.monotonic()); default: now.
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
                TextColumn("{task.description}", markup=False),  # a file name may look like markup
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
            )
            console = Console(file=PrintableStream(sys.stderr).stream)  # a bar needs control characters
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
    """Shows a spinner on a terminal for work of unknown length; elsewhere prints the title once."""
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
    """A bar over the examples of several passes over a corpus. total: examples of all passes. begun: see Bar."""

    def __init__(self, total: int, begun: float | None = None):
        super().__init__("preparing", total, unit="steps", delay=SLOW_SECONDS, begun=begun)

    def __call__(self, examples: Sequence, note: str) -> Iterator:
        """Yields the examples. note: description of the pass."""
        for first in range(0, len(examples), _STRIDE):
            part = examples[first : first + _STRIDE]
            yield from part
            self.advance(len(part), note)


def unwatched(examples: Sequence, note: str) -> Sequence:
    """Has the signature of a Watch and shows no progress."""
    return examples
