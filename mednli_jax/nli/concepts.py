"""The ontology that a corpus is linked to, and how its concepts are found: by the linker or in a file of mentions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mednli_jax.data.corpus import cache_folder
from mednli_jax.data.examples import Split
from mednli_jax.io import Bar
from mednli_jax.knowledge.distances import stored_paths
from mednli_jax.knowledge.linking import (
    BUNDLED,
    Lemmas,
    Linker,
    bundled_abbreviations,
    read_abbreviations,
    read_stop_words,
)
from mednli_jax.knowledge.load import load_ontology, ontology_files
from mednli_jax.knowledge.mentions import Recognised, read_mentions
from mednli_jax.knowledge.ontology import Ontology, OntologyOptions, permuted

WORDNET = "wordnet"  # the name of the ontology; that of a permuted one has a suffix


@dataclass(frozen=True)
class Linking:
    """How concepts are found; None where the config names no file.

    mentions: what another program found, in place of the linker; candidates: "best", one of those for the same tokens,
    or "all" (a token's distance is then the least over them). lemmas: words of WordNet are found by their base forms.
    The other fields are the linker's; types () leaves the choice to the ontology.
    """

    mentions: Path | None = None
    candidates: str = "best"
    types: tuple[str, ...] = ()
    abbreviations: Path | str | None = None
    stop: Path | None = None
    lemmas: bool = False

    def files(self) -> list[Path]:
        """The files whose content shapes the mentions."""
        abbreviations = bundled_abbreviations() if self.abbreviations == BUNDLED else self.abbreviations
        return [path for path in (self.mentions, abbreviations, self.stop) if path is not None]

    def key(self) -> dict:
        """The settings as JSON, without the content of the files."""
        key = {"types": list(self.types), "candidates": self.candidates}
        key |= {name: str(getattr(self, name) or "") for name in ("mentions", "abbreviations", "stop")}
        return key | ({"lemmas": True} if self.lemmas else {})

    def linker(self, ontology: Ontology, vocabulary: Iterable[str] | None = None) -> Linker | Lemmas:
        """The linker of one ontology."""
        if self.lemmas and ontology.name.startswith(WORDNET):
            return Lemmas(ontology)
        how = {"types": self.types} if self.types else {}
        if self.stop:
            how["stop"] = read_stop_words(self.stop)
        if self.abbreviations:
            how["abbreviations"] = read_abbreviations(self.abbreviations)
        return Linker(ontology, vocabulary=vocabulary, **how)

    def recognised(self, ontology: Ontology, splits: dict[str, Split], filtered: bool) -> Recognised:
        """The mentions that the file has for the sentences of these splits.

        filtered: the splits are known to leave out pairs of the corpus's files; pairs without label are seen here.
        """
        examples = [example for split in splits.values() for example in split.examples]
        partial = filtered or any(split.facts.get("dropped_unlabelled") for split in splits.values())
        given = read_mentions(self.mentions, examples, partial=partial, candidates=self.candidates)
        return Recognised(ontology, *given)


@dataclass(frozen=True)
class Terminology:
    """An ontology as a config names it.

    name: see knowledge.load.load_ontology, or several with + between them. folder: the data folder. permute_seed: of
    the control in which names belong to other concepts; None leaves them.
    """

    name: str
    folder: Path | None = None
    options: OntologyOptions = field(default_factory=OntologyOptions)
    permute_seed: int | None = None

    @property
    def names(self) -> list[str]:
        """The name of each ontology. A path may contain a +."""
        return [self.name] if Path(self.name).exists() else self.name.split("+")

    def read(self) -> list[Ontology]:
        """Loads each ontology."""
        cache = cache_folder()
        loaded = [load_ontology(name, self.folder, self.options, cache_dir=cache) for name in self.names]
        return loaded if self.permute_seed is None else [permuted(each, self.permute_seed) for each in loaded]

    def files(self) -> list[Path]:
        """The files of all ontologies, also missing ones, which their readers refuse."""
        found = (path for name in self.names for path in ontology_files(name, self.folder))
        return [path for path in found if path.is_file()]

    def key(self) -> dict:
        """The settings as JSON, without the content of the files."""
        options = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self.options).items()}
        return {"permute_seed": -1 if self.permute_seed is None else self.permute_seed, "ontology_options": options}


def prefixes(types) -> tuple[str, ...]:
    """The prefixes of a config's tuple; on a command line A,B is one string. An empty string is a prefix of all."""
    given = [[part.strip() for part in str(value).split(",")] if value else [""] for value in types]
    return tuple(part for value, parts in zip(types, given, strict=True) for part in parts if part or not value)


def ending(path: Path | str) -> str:
    """The ending of a file's name, less .gz."""
    return Path(Path(path).name.removesuffix(".gz")).suffix


def corpus_paths(ontology: Ontology, pairs: np.ndarray, **how) -> np.ndarray:
    """`distances.shortest_paths` for a whole corpus: kept in the cache, with a progress bar if it takes long."""
    with Bar("paths between concepts", 0, unit="concepts") as bar:
        return stored_paths(ontology, pairs, folder=cache_folder() / "paths", progress=bar.reach, **how)
