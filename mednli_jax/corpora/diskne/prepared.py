"""From a config's sections to a prepared DisKnE: all examples encoded once, and which of them each fold takes.

The corpus has one split, `train`, which the folds divide among themselves. Beside the arrays of `encode` it has
  fold [F, N] int8      what an example is in a fold: a place in PARTS
  disease, target [N]   places in the manifest's `diskne.diseases`; category [N] int8, a place in CATEGORIES
and the manifest says under `diskne` which folds there are, what the diseases are called, and where all came from.
Folds share one vocabulary: vectors are of the words of all examples, and pieces made of texts are made of all.

Faults: E-DIS-023 a setting that DisKnE does not have; E-DIS-024 no annotations.
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.demo import diskne as demo_diskne
from mednli_jax.corpora.demo.diskne import load_demo_diskne
from mednli_jax.corpora.demo.nli_facts import demo_files
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, POSITIVE, Benchmark, DiseaseExample
from mednli_jax.corpora.diskne.folds import Fold, folds
from mednli_jax.corpora.diskne.published import annotation_files, pair_files, read_published, source_pairs
from mednli_jax.corpora.diskne.store import ABOUT, EXAMPLES, read_benchmark
from mednli_jax.corpora.nli import encoding as encode
from mednli_jax.corpora.nli import prepared as prepared_data
from mednli_jax.corpora.nli.concepts import Linking
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS, NLIExample, Split
from mednli_jax.knowledge import load
from mednli_jax.knowledge.load import load_ontology, ontology_files

FORMAT = 1  # of the arrays, from the corpus's files on; tests/test_prepared_content.py says when to raise it
CORPORA = ("demo_diskne", "file", "mednli")
PARTS = ("", "train", "dev", "test")
ALL = "train"
FIELDS = ("fold", "disease", "target", "category")  # that encode's arrays do not have
MIXED_PARTS = ("genre", "limit", "sample", "mix", "features")  # settings of config.data that other corpora have


def prepare(config) -> tuple[encode.Prepared, bool]:
    """The config's DisKnE as arrays, prepared if it is not yet; and whether it was there already.

    Raises: UserError, DataError(s) for a bad config or bad files; nothing half-built is kept.
    """
    source = DisKnESource(config)
    cache = Cache(prepared_data.cache_folder())
    found = cache.get(f"diskne-{source.name}", source.key(cache), source.build)
    prepared_data.warn_of_readers(config)
    return found


class DisKnESource(prepared_data.Source):
    """What a config says about its DisKnE; see prepared.Source."""

    known = CORPORA

    def __init__(self, config):
        data, wish = config.data, config.diskne
        for name in MIXED_PARTS:
            if data[name]:
                raise UserError(f"E-DIS-023 config.data.{name}: DisKnE has no such setting. Fix: leave it out.")
        if data.builder != "direct":
            raise UserError("E-DIS-023 config.data.builder: DisKnE has no TFDS builder. Fix: leave it out.")
        if wish.least < 1:
            raise UserError(f"E-CONF-003 config.diskne.least is {wish.least}. Fix: give at least 1.")
        if not 0 < wish.dev < 1:
            raise UserError(f"E-CONF-003 config.diskne.dev is {wish.dev}. Fix: give a share over 0 and under 1.")
        super().__init__(config)
        for name in ("wording", "negatives") if self.name == "file" else ("negatives",) * (self.name == "mednli"):
            if wish[name]:
                problem = f"config.diskne.{name}: is what the files have"
                raise UserError(f"E-DIS-023 {problem}. Fix: leave it out, or build other files.")

    def key(self, cache: Cache) -> dict:
        """As of any corpus, with what shapes the examples and the folds."""
        wish = self.config.diskne
        how = [wish.wording, wish.negatives, wish.negatives_seed, wish.ontology, wish.least, wish.dev, wish.pool]
        return {**super().key(cache), "diskne": how}

    def _formats(self):
        formats = {**super()._formats(), "diskne": FORMAT}
        if self._names_of:
            formats["ontology"] = load.FORMAT
        if self.name == "demo_diskne":
            formats["demo"] = demo_diskne.FORMAT
        return formats

    def _corpus_files(self):
        if self.name == "demo_diskne":
            return demo_files()
        if self.name == "file":
            missing = [path for path in (self._folder / name for name in (EXAMPLES, ABOUT)) if not path.is_file()]
            if missing:
                problem = f"{missing[0]}: there is no such file"
                raise UserError(f"E-DIS-024 {problem}. Fix: give the folder that launch/build_diskne.py wrote.")
            return [self._folder / EXAMPLES, self._folder / ABOUT]
        files = [*pair_files(self._folder), *self._annotations]
        if self._names_of:
            files += filter(Path.is_file, ontology_files(self._names_of, self._folder))
        return files

    @property
    def _names_of(self):
        """The ontology that names the diseases; "" for none: what the hypotheses call them."""
        return "" if self.config.diskne.ontology == "none" else self.config.diskne.ontology

    @cached_property
    def _annotations(self) -> list[Path]:
        """The published files: those that the config names, else all of the data folder."""
        if named := several(self.config.diskne.annotations):
            return [self._path(path) for path in named]
        found = annotation_files(self._folder)
        if not found:
            problem = f"{self._folder / 'diskne'}: holds no annotation file (.csv)"
            raise UserError(
                f"E-DIS-024 {problem}. Fix: put the published ones there, or give --config.diskne.annotations."
            )
        return found

    @cached_property
    def benchmark(self) -> Benchmark:
        """All examples with their texts. Raises: as the readers of each corpus."""
        wish = self.config.diskne
        if self.name == "file":
            return read_benchmark(self._folder)
        if self.name == "mednli":
            pairs, facts = source_pairs(self._folder)
            ontology = load_ontology(self._names_of, self._folder) if self._names_of else None
            return read_published(self._annotations, pairs, ontology, wording=wish.wording, facts=facts)
        bundled = self.ontology_name == "mesh" and self._permute is None and self.linking == Linking()
        return load_demo_diskne(
            negatives=wish.negatives,
            wording=wish.wording,
            seed=wish.negatives_seed,
            ontology=self.ontology if bundled else None,
        )

    def _read(self) -> dict[str, Split]:
        examples = tuple(replace(example.pair, tags=(example.category,)) for example in self.benchmark.examples)
        note = {"note": self.benchmark.facts["note"]} if "note" in self.benchmark.facts else {}
        return {ALL: Split(ALL, examples, note)}

    def build(self):
        """(splits, arrays, vocabulary, vectors, facts) of the corpus and its folds."""
        splits, arrays, vocabulary, vectors, facts = super().build()
        wish, benchmark = self.config.diskne, self.benchmark
        found = folds(benchmark, least=wish.least, dev=wish.dev, pool=wish.pool)
        arrays, facts = {**arrays, **_arrays(benchmark, found)}, {**facts, "diskne": _facts(benchmark, found)}
        return splits, arrays, vocabulary, vectors, facts


def several(values: tuple[str, ...]) -> list[str]:
    """The names of a config's tuple; a command line gives those of an empty one as one, with commas."""
    return [name for value in values for name in value.split(",") if name]


def _arrays(benchmark, found):
    place = {disease: number for number, disease in enumerate(benchmark.names)}
    part = np.zeros((len(found), len(benchmark)), np.int8)
    for own, fold in zip(part, found, strict=True):
        for number, name in enumerate(PARTS[1:], 1):
            own[getattr(fold, name)] = number
    return {
        "fold": part,
        "disease": np.array([place[example.disease] for example in benchmark.examples], np.int32),
        "target": np.array([place[example.target] for example in benchmark.examples], np.int32),
        "category": np.array([CATEGORIES.index(example.category) for example in benchmark.examples], np.int8),
    }


def _facts(benchmark, found):
    return {
        "name": benchmark.name,
        "facts": benchmark.facts,
        "diseases": list(benchmark.names),
        "names": benchmark.names,
        "synonyms": {disease: list(names) for disease, names in benchmark.synonyms.items()},
        "folds": [
            {
                "disease": fold.disease,
                "group": fold.group,
                "categories": list(fold.categories),
                "dropped": {reason: len(rows) for reason, rows in fold.dropped.items()},
            }
            for fold in found
        ],
    }


def benchmark_of(prepared: encode.Prepared) -> Benchmark:
    """The examples of a prepared DisKnE without their texts."""
    about, arrays, rows = prepared.manifest["diskne"], prepared.arrays, prepared.splits[ALL]
    columns = (arrays[name].tolist() for name in ("disease", "target", "category"))
    examples = tuple(
        example_of(uid, LABELS[label], about["diseases"][disease], about["diseases"][target], CATEGORIES[category])
        for uid, label, disease, target, category in zip(rows.uids, rows.label, *columns, strict=True)
    )
    return Benchmark(about["name"], examples, about["names"], synonyms_of(about), about["facts"])


def folds_of(prepared: encode.Prepared) -> tuple[Fold, ...]:
    """The folds of a prepared DisKnE; what was kept out of them is counted in the manifest alone."""
    found = []
    for part, fold in zip(prepared.arrays["fold"], prepared.manifest["diskne"]["folds"], strict=True):
        rows = (np.flatnonzero(part == number).astype(np.int32) for number in range(1, len(PARTS)))
        found.append(Fold(fold["disease"], fold["group"], tuple(fold["categories"]), *rows, {}))
    return tuple(found)


def example_of(uid: str, label: str, disease: str, target: str, category: str) -> DiseaseExample:
    """An example without texts: what scores and tables ask for."""
    return DiseaseExample(NLIExample(uid, "", "", label, (), ()), disease, target, category)


def synonyms_of(about: dict) -> dict[str, tuple[str, ...]]:
    return {disease: tuple(names) for disease, names in about["synonyms"].items()}


def is_positive(label: np.ndarray) -> np.ndarray:
    """Of places in LABELS."""
    return np.asarray(label) == LABELS.index(POSITIVE)
