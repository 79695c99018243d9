"""Progress with ETA: a bar on a terminal, a plain line now and then elsewhere. Everything goes to stderr."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_SECONDS = 15.0


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Bar:
    """`with Bar("epoch 1/6", total) as bar: bar.advance(n, "loss 1.02")`.

    first: units that were done before, by another process: no part of the rate.
    """

    def __init__(self, title: str, total: int, *, unit: str = "examples", first: int = 0):
        self.title, self.total, self.unit, self.first = title, total, unit, first
        self.done, self.started, self.told = first, time.monotonic(), time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(title, total=total, completed=first, note="")

    def __enter__(self):
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_):
        if self._bar:
            self._bar.stop()

    def advance(self, count: int, note: str = "") -> None:
        self.done = min(self.done + count, self.total)
        if self._bar:
            self._bar.update(self._task, advance=count, note=note)
        elif time.monotonic() - self.told > PLAIN_SECONDS:
            self.told = time.monotonic()
            rate = (self.done - self.first) / (self.told - self.started)
            eta = (self.total - self.done) / max(rate, 1e-9)
            say(f"{self.title}: {self.done}/{self.total} {self.unit}, {rate:.0f}/s, ETA {eta:.0f} s  {note}".rstrip())
