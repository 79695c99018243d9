"""What `evaluate` is asked for, and what it found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mednli_jax.corpora.nli.partitions import Partition


@dataclass(frozen=True)
class Options:
    """split: what is scored. partitions: parts of it that are scored besides. vectors: a file of word vectors for the
    embedding score, skills: a file of the skills that queries need, None for none. each: whether each query's scores
    are wanted."""

    split: str
    partitions: Sequence[Partition] = ()
    vectors: Path | None = None
    skills: Path | None = None
    each: bool = False


@dataclass(frozen=True)
class Evaluation:
    """figures: JSON values. lines: the same for a terminal. rows: what each query scores, where that was wanted."""

    figures: dict
    lines: list[str]
    rows: Sequence[dict] = ()


def seeds_named(seeds: Sequence[int]) -> str:
    """`seed 3`, `seeds 0, 1`."""
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
