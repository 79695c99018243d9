"""From a config's `knowledge` section to what finds concepts in a corpus: the linker, or a file of mentions."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mednli_jax.corpora.lines import SLOW_SECONDS
from mednli_jax.errors import UserError
from mednli_jax.examples import Split
from mednli_jax.knowledge.linking import MIN_LENGTH
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.paths import stored_paths
from mednli_jax.knowledge.readers.metamap import read_metamap
from mednli_jax.knowledge.readers.spans import Recognised, read_spans
from mednli_jax.knowledge.wordlists import BUNDLED, bundled_abbreviations, read_abbreviations, read_stop_words
from mednli_jax.progress import Bar

MENTION_READERS = {".tsv": read_spans, ".jsonl": read_spans, ".mmi": read_metamap, ".txt": read_metamap}


@dataclass(frozen=True)
class Linking:
    """How concepts are found; None where the config names no file.

    mentions: what another program found, in place of the linker. The other fields are the linker's; types () leaves
    the choice to the ontology. The defaults are those of defaults.py, and of a Linker made without arguments.
    """

    mentions: Path | None = None
    types: tuple[str, ...] = ()
    min_length: int = MIN_LENGTH
    abbreviations: Path | str | None = None
    stop: Path | None = None

    def files(self) -> list[Path]:
        """The files whose content shapes the mentions."""
        abbreviations = bundled_abbreviations() if self.abbreviations == BUNDLED else self.abbreviations
        return [path for path in (self.mentions, abbreviations, self.stop) if path is not None]

    def key(self) -> dict:
        """The settings as JSON, without the content of the files."""
        return {"types": list(self.types), "min_length": self.min_length} | {
            name: str(getattr(self, name) or "") for name in ("mentions", "abbreviations", "stop")
        }

    def settings(self) -> dict:
        """The arguments of a Linker besides its ontology. Raises DataError(s) for the files of words."""
        settings = {"min_length": self.min_length}
        if self.types:
            settings["types"] = self.types
        if self.stop:
            settings["stop"] = read_stop_words(self.stop)
        if self.abbreviations:
            settings["abbreviations"] = read_abbreviations(self.abbreviations)
        return settings

    def recognised(self, ontology: Ontology, splits: dict[str, Split], filtered: bool) -> Recognised:
        """What the file of mentions says of the sentences of these splits.

        filtered: the splits are known to leave out pairs of the corpus's files; pairs without label are seen here.
        Raises: DataError(s) where the file is damaged or does not fit the splits.
        """
        examples = [example for split in splits.values() for example in split.examples]
        partial = filtered or any(split.facts.get("dropped_unlabelled") for split in splits.values())
        return Recognised(ontology, *MENTION_READERS[_ending(self.mentions)](self.mentions, examples, partial=partial))


def linking(knowledge, resolve: Callable[[str], Path | None]) -> Linking:
    """The `Linking` of a config's knowledge section. resolve: path as a config has it ("" for none) -> the file.

    Raises: UserError for values that cannot be, or that do not go together.
    """
    found = Linking(
        mentions=resolve(knowledge.mentions),
        types=tuple(_prefixes(knowledge.types)),
        min_length=knowledge.min_length,
        abbreviations=BUNDLED if knowledge.abbreviations == BUNDLED else resolve(knowledge.abbreviations),
        stop=resolve(knowledge.stop),
    )
    if not 1 <= found.min_length < 1 << 15:
        raise UserError(f"E-CONF-003 config.knowledge.min_length is {found.min_length}. Fix: give at least 1.")
    if found.mentions is not None:
        _check_mentions(found, knowledge.permute_seed)
    return found


def _check_mentions(found: Linking, permute_seed: int | None) -> None:
    ending = _ending(found.mentions)
    if ending not in MENTION_READERS:
        known = ", ".join(MENTION_READERS)
        problem = f"config.knowledge.mentions: a file '{ending}' is none of those read"
        raise UserError(f"E-CONF-004 {problem}. Fix: give one that ends in {known} (.gz may follow).")
    if permute_seed is not None:
        # The control moves names to other concepts, and a file of mentions names concepts themselves.
        problem = "config.knowledge.permute_seed has no effect on the concepts of config.knowledge.mentions"
        raise UserError(f"E-CONF-005 {problem}. Fix: leave one of them out.")
    own = [name for name in ("types", "abbreviations", "stop") if getattr(found, name)]
    if own:
        problem = f"config.knowledge.{own[0]} is for the linker, which config.knowledge.mentions replaces"
        raise UserError(f"E-CONF-005 {problem}. Fix: leave one of them out.")


def _prefixes(types) -> Iterator[str]:
    """The prefixes of a config's tuple; on a command line A,B is one string. An empty string is a prefix of all."""
    for given in map(str, types):
        yield from filter(None, map(str.strip, given.split(","))) if given else ("",)


def _ending(path: Path) -> str:
    """The ending of a file's name, less .gz."""
    return Path(path.name.removesuffix(".gz")).suffix


def corpus_paths(folder: Path) -> Callable[..., np.ndarray]:
    """`distance.shortest_paths` for a whole corpus: kept on disk in `folder`, with a bar where it takes a while."""

    def paths(ontology: Ontology, pairs: np.ndarray, **how) -> np.ndarray:
        with ExitStack() as stack:
            begun, bar, shown = time.monotonic(), None, 0

            def progress(done: int, total: int) -> None:
                nonlocal bar, shown
                if bar is None and time.monotonic() - begun > SLOW_SECONDS:
                    bar = stack.enter_context(Bar("paths between concepts", total, unit="concepts"))
                if bar is not None:
                    bar.advance(done - shown)
                    shown = done

            return stored_paths(ontology, pairs, folder=folder, progress=progress, **how)

    return paths
