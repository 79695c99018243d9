"""The options of `evaluate` and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.data.partitions import Partition


@dataclass(frozen=True)
class Options:
    """What is scored.

    Args:
      partitions: parts of the split that are scored, too.
      vectors: a file of word vectors for the embedding score.
      skills: a file of the skills that queries need.
      each: whether to return the scores of each query.
    """

    split: str
    partitions: Sequence[Partition] = ()
    vectors: Path | None = None
    skills: Path | None = None
    each: bool = False


@dataclass(frozen=True)
class Evaluation:
    """Scores.

    Args:
      figures: JSON values.
      lines: the same for a terminal.
      rows: the scores of each query, if Options.each.
    """

    figures: dict
    lines: list[str]
    rows: Sequence[dict] = ()


def seeds_named(seeds: Sequence[int]) -> str:
    """`seed 3`, `seeds 0, 1`."""
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
