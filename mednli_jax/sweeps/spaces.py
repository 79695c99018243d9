"""The fields that a sweep varies: a product of choices, or a random search (Bergstra & Bengio 2012).

A config file defines `get_sweep()` beside `get_config()`:

    def get_sweep():
        return search({"model.hidden_size": Whole(32, 96), "model.dropout": Real(0.2, 0.7)}, trials=30)

The values of trial K depend only on the sweep and K, so that all workers agree on them.
"""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from mednli_jax.errors import ConfigError

SCALARS = (bool, int, float, str)


def _error(problem: str, fix: str) -> ConfigError:
    return ConfigError(f"get_sweep: {problem}. Fix: {fix}.")


@dataclass(frozen=True)
class Real:
    """Numbers from low to high. log: on a logarithmic scale, e.g. as many draws from .001-.01 as from .01-.1."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self):
        kind = type(self).__name__
        if not all(type(end) in (int, float) and math.isfinite(end) for end in (self.low, self.high)):
            raise _error(f"{kind} takes two numbers", f"write e.g. {kind}(2, 7)")
        if not self.low <= self.high or (self.log and self.low <= 0):
            raise _error(f"{kind}: low is above high, or not above 0 with log", "correct the range")

    def at(self, share: float) -> float:
        """The number at a share of the range, 0 <= share < 1, rounded to four digits for legible commands."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        drawn = low + share * (high - low)
        return min(max(float(f"{math.exp(drawn) if self.log else drawn:.4g}"), float(self.low)), float(self.high))


@dataclass(frozen=True)
class Whole(Real):
    """Whole numbers from low to high, both included. log: on a logarithmic scale."""

    def __post_init__(self):
        super().__post_init__()
        if not type(self.low) is type(self.high) is int:
            raise _error("Whole takes whole numbers", "write e.g. Whole(32, 96)")

    def at(self, share: float) -> int:
        """The number at a share of the range, 0 <= share < 1."""
        if not self.log:
            return self.low + int(share * (self.high - self.low + 1))
        low, high = math.log(self.low), math.log(self.high + 1)
        return min(max(int(math.exp(low + share * (high - low))), self.low), self.high)


@dataclass(frozen=True)
class Sweep:
    """A sweep, made by `product` or `search`.

    Args:
      fields: config field -> its choices (a tuple) or its range.
      trials: number of trials.
      metric: name in result.json, with dots between levels.
      maximize: whether a larger metric is better.
      seed: of the draws; None for a product.
    """

    fields: Mapping[str, tuple | Whole | Real]
    trials: int
    metric: str
    maximize: bool
    seed: int | None

    def __post_init__(self):
        if not self.fields or not all(isinstance(field, str) for field in self.fields):
            raise _error("it varies no field", "give e.g. {'train.learning_rate': (0.001, 0.0003)}")
        if not isinstance(self.metric, str) or not all(self.metric.split(".")):
            raise _error("the metric is not a name of a number in result.json", "give e.g. 'dev.accuracy.mean'")
        for name, least, value in (("trials", 1, self.trials), ("seed", 0, self.seed or 0)):
            if type(value) is not int or value < least:
                raise _error(f"{name} is not a whole number of at least {least}", "correct it")
        if self.most is not None and self.trials > self.most:
            raise _error(f"trials is more than the product has, {self.most}", "leave it out")

    @property
    def most(self) -> int | None:
        """The largest possible number of trials; None for a search, which has no limit."""
        return math.prod(map(len, self.fields.values())) if self.seed is None else None

    def values(self, trial: int) -> dict[str, bool | int | float | str]:
        """{field: value} of the trial with this number, from 0; the same on every machine."""
        if self.seed is None:
            chosen, rest = {}, trial
            for field, choices in reversed(self.fields.items()):  # the last field changes fastest
                rest, place = divmod(rest, len(choices))
                chosen[field] = choices[place]
            return {field: chosen[field] for field in self.fields}
        draws = random.Random(f"{self.seed}/{trial}")  # of its methods only random() is stable across Python versions
        return {field: _at(space, draws.random()) for field, space in self.fields.items()}

    def flags(self) -> list[str]:
        """Every choice and both ends of every range as flags of the command line, for checking the fields."""
        ends = {f: s if isinstance(s, tuple) else (s.at(0.0), s.at(1 - 1e-9)) for f, s in self.fields.items()}
        return [flag(field, value) for field, values in ends.items() for value in values]

    def description(self, config: dict) -> dict:
        """The sweep and the config to which it is applied, as JSON. With its number they determine a trial."""
        fields = {f: list(s) if isinstance(s, tuple) else asdict(s) for f, s in self.fields.items()}
        sweep = {"fields": fields, "metric": self.metric, "maximize": self.maximize, "seed": self.seed}
        return json.loads(json.dumps({"sweep": sweep, "config": config}))


def flag(field: str, value: bool | int | float | str) -> str:
    """A flag such as `--config.train.learning_rate=0.001`."""
    return f"--config.{field}={value}"


def product(
    fields: Mapping[str, tuple], *, metric: str = "dev.accuracy.mean", maximize: bool = True, trials: int = 0
) -> Sweep:
    """Every combination of the choices, or the first `trials` of them. The last field changes fastest.

    Raises: ConfigError for choices that are not tuples of distinct values.
    """
    if any(not isinstance(space, tuple) for space in fields.values()):
        raise _error("product takes only choices", "give tuples, or use search")
    checked = _checked(fields)
    return Sweep(checked, trials or math.prod(map(len, checked.values())), metric, maximize, None)


def search(
    fields: Mapping[str, tuple | Whole | Real],
    *,
    trials: int,
    metric: str = "dev.accuracy.mean",
    maximize: bool = True,
    seed: int = 0,
) -> Sweep:
    """Random draws: uniform over choices and ranges. Raises: ConfigError for a field without choices or a range."""
    return Sweep(_checked(fields), trials, metric, maximize, seed)


def _at(space, share):
    return space[int(share * len(space))] if isinstance(space, tuple) else space.at(share)


def _checked(fields):
    """The fields, checked. A choice that is a tuple becomes its text, because the database has no such type."""
    found = {}
    for field, space in fields.items():
        if isinstance(space, tuple):
            space = tuple(repr(choice) if isinstance(choice, tuple) else choice for choice in space)
            if not space or len(set(map(str, space))) < len(space) or not all(isinstance(c, SCALARS) for c in space):
                raise _error(f"the choices of {field} are not distinct values", "give numbers, texts, True or False")
        elif not isinstance(space, Real):
            raise _error(f"{field} has neither choices nor a range", "give a tuple, Whole or Real")
        found[field] = space
    return found
