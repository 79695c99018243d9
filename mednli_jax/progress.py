"""Progress with ETA on stderr: a bar on a terminal, elsewhere a plain line every 15 seconds."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_SECONDS = 15.0
_STRIDE = 256  # examples between two updates


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # rich replaces sys.stderr while a bar is shown


def warn(line: str) -> None:
    """Prints a warning line; the work continues."""
    say(f"warning: {line}")


class Bar:
    """`with Bar("epoch 1/6", total) as bar: bar.advance(n, "loss 1.02")`.

    Args:
      total: number of units; None where it is not known, such as for lines from a pipe.
      unit: name of the units.
      first: units that another process did before; they do not count for the rate.
    """

    def __init__(self, title: str, total: int | None, *, unit: str = "examples", first: int = 0):
        self.title, self.total, self.unit, self.first = title, total, unit, first
        self.done, self.started, self.printed = first, time.monotonic(), time.monotonic()
        text = TextColumn("{task.description}", markup=False)  # a file name may look like markup
        note = TextColumn("{task.fields[note]}", markup=False)
        columns = (text, BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        on_terminal = sys.stderr.isatty()
        self._bar = Progress(*columns, note, console=Console(stderr=True), transient=True, disable=not on_terminal)
        self._task = self._bar.add_task(title, total=total, completed=first, note="")

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    def advance(self, count: int, note: str = "") -> None:
        self.done += count
        self._bar.update(self._task, advance=count, note=note)
        if self._bar.disable and time.monotonic() - self.printed > PLAIN_SECONDS:
            self.printed = time.monotonic()
            rate = (self.done - self.first) / (self.printed - self.started)
            of, eta = "", ""
            if self.total is not None:
                of, eta = f"/{self.total}", f", ETA {(self.total - self.done) / max(rate, 1e-9):.0f} s"
            say(f"{self.title}: {self.done}{of} {self.unit}, {rate:.0f}/s{eta}  {note}".rstrip())

    def reach(self, done: int, total: int) -> None:
        """Advances to `done` of `total`."""
        self.total = total
        self._bar.update(self._task, total=total)
        self.advance(done - self.done)


@contextlib.contextmanager
def spinner(title: str):
    """Shows a spinner on a terminal for work of unknown length; elsewhere prints the title once."""
    if not sys.stderr.isatty():
        say(title)
        yield
        return
    with Console(stderr=True).status(title):
        yield


class Watch(Bar):
    """A bar over the examples of several passes over a corpus. total: examples of all passes."""

    def __init__(self, total: int):
        super().__init__("preparing", total, unit="steps")

    def __call__(self, examples: Sequence, note: str) -> Iterator:
        """Yields the examples. note: description of the pass."""
        for first in range(0, len(examples), _STRIDE):
            part = examples[first : first + _STRIDE]
            yield from part
            self.advance(len(part), note)


def unwatched(examples: Sequence, note: str) -> Sequence:
    """Has the signature of a Watch and shows no progress."""
    return examples
