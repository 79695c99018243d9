"""DisKnE as a corpus: all examples, encoded once, and the part of each example in each fold.

The corpus has one split, `train`, which each fold divides. Besides the arrays of nli.encoding it
has
  fold [F, N] int8      the part of an example in a fold: a place in PARTS
  disease, target [N]   places in the manifest's `diskne.diseases`; category [N] int8, a place in CATEGORIES
and the manifest's `diskne` has the folds, the names of the diseases, and the sources.
Folds share one vocabulary, of the words or pieces of all examples.

A benchmark of launch/build_diskne.py is a folder:
  examples.jsonl   one line of JSON per example, as corpora of the user have them: pairID, gold_label, sentence1,
                   sentence2, captionID, genre; disease, target, category
  benchmark.json   names and synonyms of the diseases, provenance, sizes of the folds
  dropped.tsv      what was kept out of which fold's training: group, disease, uid, reason; no text
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mednli_jax import demo
from mednli_jax.data.arrays import Prepared
from mednli_jax.data.cache import Cache
from mednli_jax.data.examples import LABELS, NLIExample, Split
from mednli_jax.diskne import builder, data
from mednli_jax.diskne.data import CATEGORIES, Benchmark, DiseaseExample, Positive
from mednli_jax.diskne.folds import LEAST, Fold, folds
from mednli_jax.errors import ConfigError, Problems, UsageError
from mednli_jax.files import atomic_folder, write_atomic, write_json
from mednli_jax.knowledge import load
from mednli_jax.knowledge.load import load_ontology, ontology_files
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.readers import json_rows, read_nli_file
from mednli_jax.rundir import read_json

FORMAT = 3  # when to raise it: tests/data/test_prepared_content.py
NEGATIVES = ("similar", "random")
NAMES = ("demo_diskne", "file", "mednli")
PARTS = ("", "train", "dev", "test")
ALL = "train"
FIELDS = ("fold", "disease", "target", "category")
EXAMPLES, ABOUT, DROPPED = "examples.jsonl", "benchmark.json", "dropped.tsv"


@dataclass(frozen=True, eq=False, kw_only=True)
class DisKnECorpus(NLICorpus):
    """The examples of DisKnE and their folds (see nli.corpus.NLICorpus, whose choices of training
    pairs it lacks).

    name: one of NAMES; file is a folder that launch/build_diskne.py wrote, mednli the published
    annotations. wording: see data.WORDINGS, "" = as the files have it. negatives: see
    data.annotation_files. names_from: the ontology that names the annotated diseases, "" = the
    words of the hypotheses. least: positive examples that a disease needs in a category to have a
    fold.
    """

    wording: str = ""
    negatives: str = ""
    names_from: str = ""
    least: int = LEAST

    _cache_name = property(lambda self: f"diskne-{self.name}")

    def key(self, cache: Cache) -> dict:
        how = [self.wording, self.negatives, self.names_from or "none", self.least]
        return {**super().key(cache), "diskne": how}

    def _formats(self):
        formats = {**super()._formats(), "diskne": FORMAT}
        if self.names_from:
            formats["ontology"] = load.FORMAT
        return formats

    def _licensed(self):
        return [*super()._licensed(), self.names_from or "none"]

    def _corpus_files(self):
        if self.name == "demo_diskne":
            return [*demo.demo_files("diskne"), *ontology_files("mesh")]
        if self.name == "file":
            files = [self._folder() / name for name in (EXAMPLES, ABOUT)]
            if missing := [path for path in files if not path.is_file()]:
                problem = f"{missing[0]}: there is no such file"
                raise ConfigError(problem, fix="give the folder that launch/build_diskne.py wrote")
            return files
        files = [*data.pair_files(self._folder()), *self._annotation_files]
        if self.names_from:
            files += filter(Path.is_file, ontology_files(self.names_from, self._folder()))
        return files

    @cached_property
    def _annotation_files(self) -> list[Path]:
        found = data.annotation_files(self._folder(), self.negatives)
        if not found:
            kind = f" of {self.negatives} negatives" if self.negatives else ""
            problem = f"{self._folder() / 'diskne'}: holds no annotation file{kind} (.csv)"
            raise ConfigError(problem, fix="put the published ones there")
        return found

    @cached_property
    def benchmark(self) -> Benchmark:
        """All examples with their texts."""
        if self.name == "file":
            return read_benchmark(self._folder())
        if self.name == "mednli":
            pairs, facts = data.source_pairs(self._folder())
            ontology = load_ontology(self.names_from, self._folder()) if self.names_from else None
            return data.read_published(
                self._annotation_files, pairs, ontology, wording=self.wording, facts=facts
            )
        return load_demo_diskne(negatives=self.negatives, wording=self.wording)

    def _read(self) -> dict[str, Split]:
        examples = tuple(
            replace(example.pair, tags=(example.category,)) for example in self.benchmark.examples
        )
        note = {"note": self.benchmark.facts["note"]} if "note" in self.benchmark.facts else {}
        return {ALL: Split(ALL, examples, note)}

    def build(self):
        """(splits, arrays, vocabulary, vectors, facts) of the corpus and its folds."""
        splits, arrays, vocabulary, vectors, facts = super().build()
        benchmark, found = self.benchmark, folds(self.benchmark, least=self.least)
        part = np.zeros((len(found), len(benchmark)), np.int8)
        for row, fold in zip(part, found, strict=True):
            for number, name in enumerate(PARTS[1:], 1):
                row[getattr(fold, name)] = number
        place = {disease: number for number, disease in enumerate(benchmark.names)}
        arrays = {
            **arrays,
            "fold": part,
            "disease": np.array(
                [place[example.disease] for example in benchmark.examples], np.int32
            ),
            "target": np.array([place[example.target] for example in benchmark.examples], np.int32),
            "category": np.array(
                [CATEGORIES.index(example.category) for example in benchmark.examples], np.int8
            ),
        }
        about = {"diseases": list(benchmark.names), "folds": list(map(_about, found))}
        about |= benchmark.description()
        return splits, arrays, vocabulary, vectors, {**facts, "diskne": about}


def load_demo_diskne(
    *, negatives: str = "similar", wording: str = "name", seed: int = 0
) -> Benchmark:
    """The demo benchmark: twenty-two diseases in two clusters, two premises for each disease and
    category.

    negatives: "similar", the other diseases of the cluster, or ten "random" ones. seed: of random
    negatives.
    """
    if negatives not in NEGATIVES:
        raise ConfigError(f"negatives are '{negatives}'", fix=f"give one of {', '.join(NEGATIVES)}")
    ontology, diseases = read_mesh(), demo.facts("diskne")
    path, problems = demo.FOLDER / "diskne" / "positives.jsonl.gz", Problems()
    pairs = read_nli_file(path, split="diskne").examples
    positives = [
        Positive(pair, *(row.values[name] for name in ("disease", "category", "start", "end")))
        for pair, (_, row) in zip(pairs, json_rows(path, problems), strict=True)
    ]
    names = {disease: row["name"] for disease, row in diseases.items()}
    synonyms = data.disease_names(ontology, names)[1]
    synonyms = {disease: (*synonyms[disease], *row["short"]) for disease, row in diseases.items()}
    clusters = np.eye(1 + max(row["cluster"] for row in diseases.values()))
    ranking = builder.similar(
        {disease: clusters[row["cluster"]] for disease, row in diseases.items()}
    )
    if drawn := negatives == "random":
        ranking = builder.shuffled(seed)
    facts = {
        "note": "demo benchmark, synthetic: not comparable with DisKnE",
        "seed": 20210801,
        "negatives_are": negatives,
        "negatives_seed": seed if drawn else -1,
        "ontology_sha256": ontology.sha256,
    }
    made_up = builder.negatives(positives, ranking, builder.Kinship(ontology))
    return data.assembled("demo_diskne", positives, made_up, names, synonyms, wording, facts)


def _about(fold):
    dropped = {reason: len(rows) for reason, rows in fold.dropped.items()}
    return {
        "disease": fold.disease,
        "group": fold.group,
        "categories": list(fold.categories),
        "dropped": dropped,
    }


def benchmark_of(prepared: Prepared) -> Benchmark:
    """The examples of a prepared DisKnE without their texts."""
    about, arrays, rows = prepared.manifest["diskne"], prepared.arrays, prepared.splits[ALL]
    columns = (arrays[name].tolist() for name in ("disease", "target", "category"))
    ids = about["diseases"]
    examples = (
        DiseaseExample(
            NLIExample(uid, "", "", LABELS[label], (), ()),
            ids[disease],
            ids[target],
            CATEGORIES[category],
        )
        for uid, label, disease, target, category in zip(
            rows.uids, rows.label, *columns, strict=True
        )
    )
    return Benchmark.described(about, examples)


def folds_of(prepared: Prepared) -> tuple[Fold, ...]:
    """The folds of a prepared DisKnE; the examples left out of them are counted in the manifest
    only."""
    found = []
    for part, fold in zip(
        prepared.arrays["fold"], prepared.manifest["diskne"]["folds"], strict=True
    ):
        rows = (np.flatnonzero(part == number).astype(np.int32) for number in range(1, len(PARTS)))
        found.append(Fold(fold["disease"], fold["group"], tuple(fold["categories"]), *rows, {}))
    return tuple(found)


def write_benchmark(benchmark: Benchmark, folds: Sequence[Fold], folder: Path) -> Path:
    """Writes the folder whole or not at all, for its owner alone; returns it."""
    folder = Path(folder).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder}: exists already", fix="give a folder that is empty or not there yet"
        )
    about = []
    for fold in folds:
        sizes = {part: len(getattr(fold, part)) for part in PARTS[1:]}
        about.append({**_about(fold), "name": benchmark.names[fold.disease], "examples": sizes})
    rows = []
    for example in benchmark.examples:
        row = {
            "pairID": example.uid,
            "gold_label": example.pair.label,
            "sentence1": example.pair.premise,
            "sentence2": example.pair.hypothesis,
            "captionID": example.pair.group,
            "genre": example.category,
            "disease": example.disease,
            "target": example.target,
            "category": example.category,
        }
        rows.append(json.dumps(row, ensure_ascii=False) + "\n")
    dropped = ["group\tdisease\tuid\treason\n"]
    for fold in folds:
        for reason, of_reason in fold.dropped.items():
            uids = (benchmark.examples[row].uid for row in of_reason)
            dropped += (f"{fold.group}\t{fold.disease}\t{uid}\t{reason}\n" for uid in uids)
    with atomic_folder(folder, keep=False) as temporary:
        write_atomic(temporary / EXAMPLES, "".join(rows))
        write_json(temporary / ABOUT, {**benchmark.description(), "folds": about})
        write_atomic(temporary / DROPPED, "".join(dropped))
    return folder


def read_benchmark(folder: Path) -> Benchmark:
    """What `write_benchmark` wrote; tokens come from the Treebank tokeniser. Folds are made again,
    and are the same."""
    folder = Path(folder).expanduser()
    about = read_json(
        folder / ABOUT, "name", "names", "synonyms", "facts", fix="build the benchmark again"
    )
    pairs = {pair.uid: pair for pair in read_nli_file(folder / EXAMPLES, split="all").examples}
    found = []
    for _, row in json_rows(folder / EXAMPLES, Problems()):
        if (pair := pairs.get(row.values.get("pairID"))) is not None:
            found.append(
                DiseaseExample(
                    pair, *(row.values[name] for name in ("disease", "target", "category"))
                )
            )
    return Benchmark.described(about, found)
