"""DisKnE as a corpus: all examples, encoded once, and the split of each example in each fold.

The corpus has one split, `train`, which each fold divides. Besides the arrays of nli/encode it
has
  fold [F, N] int8      the split of an example in a fold: an index into FOLD_SPLITS
  disease, target [N]   places in the manifest's `diskne.diseases`
  category [N] int8     a place in CATEGORIES
and the manifest's `diskne` has the folds, the names of the diseases, and the sources.
Folds share one vocabulary, of the words or pieces of all examples.

A benchmark of launch/data/build_diskne.py is a folder:
  examples.jsonl   one line of JSON per example, as corpora of the user have them: pairID,
                   gold_label, sentence1, sentence2, captionID, genre; disease, target, category
  benchmark.json   names and synonyms of the diseases, provenance, sizes of the folds
  dropped.tsv      the examples that were kept out of a fold's training: group, disease, uid,
                   reason; no text
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
from mednli_jax.diskne import data
from mednli_jax.diskne.data import CATEGORIES, Benchmark, DiseaseExample, Positive
from mednli_jax.diskne.folds import LEAST, Fold
from mednli_jax.diskne.folds import folds as divide
from mednli_jax.diskne.negatives import Kinship, negatives_of, rank_randomly, similar
from mednli_jax.errors import ConfigError, Problems, UsageError
from mednli_jax.files.writing import atomic_folder, private_folder, write_atomic, write_json
from mednli_jax.knowledge import load
from mednli_jax.knowledge.load import load_ontology, ontology_files
from mednli_jax.nli.corpus import BuiltCorpus, NLICorpus
from mednli_jax.nli.read.pair_rows import json_rows
from mednli_jax.nli.read.readers import read_nli_file
from mednli_jax.rundir import read_json
from mednli_jax.types import JsonObject

FORMAT = 7  # when to raise it: tests/data/test_prepared_content.py
NEGATIVES = ("similar", "random")
NAMES = ("demo_diskne", "file", "mednli")
DEMO, FILE = NAMES[:2]
FOLD_SPLITS = ("", "train", "dev", "test")
ALL = "train"
FIELDS = ("fold", "disease", "target", "category")
EXAMPLES, ABOUT, DROPPED = "examples.jsonl", "benchmark.json", "dropped.tsv"


@dataclass(frozen=True, eq=False, kw_only=True)
class DisKnECorpus(NLICorpus):
    """The examples of DisKnE and their folds (see nli.corpus.NLICorpus, whose choices of training
    pairs it lacks).

    Args:
      name: one of NAMES; file is a folder that launch/data/build_diskne.py wrote, mednli the
        published annotations.
      wording: see data.WORDINGS; "" takes the wording of the files.
      negatives: see data.annotation_files.
      names_from: the ontology that names the annotated diseases; "" takes the words of the
        hypotheses.
      least: positive examples that a disease needs in a category to have a fold.
    """

    wording: str = ""
    negatives: str = ""
    names_from: str = ""
    least: int = LEAST

    @property
    def _cache_name(self) -> str:
        return f"diskne-{self.name}"

    def key(self, cache: Cache) -> JsonObject:
        settings = [self.wording, self.negatives, self.names_from or "none", self.least]
        return {**super().key(cache), "diskne": settings}

    def _formats(self) -> dict[str, int]:
        formats = {**super()._formats(), "diskne": FORMAT}
        if self.names_from:
            formats["ontology"] = load.FORMAT
        return formats

    def _licensed_files(self) -> list[str]:
        return [*super()._licensed_files(), self.names_from or "none"]

    def corpus_files(self) -> list[Path]:
        """The files of the examples."""
        if self.name == DEMO:
            return [*demo.demo_files("diskne"), *ontology_files("mesh")]
        folder = self._folder()
        if self.name == FILE:
            files = [folder / EXAMPLES, folder / ABOUT]
            for path in files:
                if not path.is_file():
                    problem = f"{path}: there is no such file"
                    fix = "give the folder that launch/data/build_diskne.py wrote"
                    raise ConfigError(problem, field="data.dir", fix=fix)
            return files
        files = [*data.pair_files(folder), *self._annotation_files]
        if self.names_from:
            files += filter(Path.is_file, ontology_files(self.names_from, folder))
        return files

    @cached_property
    def _annotation_files(self) -> list[Path]:
        files = data.annotation_files(self._folder(), self.negatives)
        if not files:
            kind = f" of {self.negatives} negatives" if self.negatives else ""
            problem = f"{self._folder() / 'diskne'}: holds no annotation file{kind} (.csv)"
            raise ConfigError(problem, field="data.dir", fix="put the published ones there")
        return files

    @cached_property
    def benchmark(self) -> Benchmark:
        """Reads all examples with their texts."""
        if self.name == DEMO:
            return load_demo_diskne(negatives=self.negatives, wording=self.wording)
        folder = self._folder()
        if self.name == FILE:
            return read_benchmark(folder)
        pairs, facts = data.source_pairs(folder)
        ontology = load_ontology(self.names_from, folder) if self.names_from else None
        return data.read_published(
            self._annotation_files, pairs, ontology, wording=self.wording, facts=facts
        )

    def _read(self) -> dict[str, Split[NLIExample]]:
        pairs = []
        for example in self.benchmark.examples:
            pairs.append(replace(example.pair, tags=(example.category,)))
        facts = self.benchmark.facts
        note = {"note": facts["note"]} if "note" in facts else {}
        return {ALL: Split(ALL, tuple(pairs), note)}

    def build(self) -> BuiltCorpus:
        """Builds the corpus and its folds."""
        built = super().build()
        examples = self.benchmark.examples
        folds = divide(self.benchmark, least=self.least)
        split_FN = np.zeros((len(folds), len(examples)), np.int8)
        for split_N, fold in zip(split_FN, folds, strict=True):
            for split in FOLD_SPLITS[1:]:
                split_N[fold.rows(split)] = FOLD_SPLITS.index(split)
        diseases = list(self.benchmark.names)
        number_of = {disease: number for number, disease in enumerate(diseases)}
        disease_N, target_N, category_N = [], [], []
        for example in examples:
            disease_N.append(number_of[example.disease])
            target_N.append(number_of[example.target])
            category_N.append(CATEGORIES.index(example.category))
        arrays = {
            **built.arrays,
            "fold": split_FN,
            "disease": np.array(disease_N, np.int32),
            "target": np.array(target_N, np.int32),
            "category": np.array(category_N, np.int8),
        }
        description = {
            "diseases": diseases,
            "folds": list(map(_fold_facts, folds)),
            **self.benchmark.description(),
        }
        return built._replace(arrays=arrays, facts={**built.facts, "diskne": description})


def load_demo_diskne(*, negatives: str, wording: str, seed: int = 0) -> Benchmark:
    """Loads the demo benchmark: twenty-two diseases in two clusters, two premises for each disease
    and category.

    negatives: "similar" (the other diseases of the cluster) or "random" (ten diseases). seed: of
    random negatives.
    """
    ontology, diseases = load_ontology("mesh"), demo.facts("diskne")
    names = {disease: facts["name"] for disease, facts in diseases.items()}
    _, mesh_synonyms = data.disease_names(ontology, names)
    clusters = np.eye(1 + max(facts["cluster"] for facts in diseases.values()))
    synonyms, cluster_of = {}, {}
    for disease, facts in diseases.items():
        synonyms[disease] = (*mesh_synonyms[disease], *facts["short"])
        cluster_of[disease] = clusters[facts["cluster"]]
    is_random = negatives == "random"
    ranking = rank_randomly(seed) if is_random else similar(cluster_of)
    positives = _demo_positives()
    facts = {
        "note": "demo benchmark, synthetic: not comparable with DisKnE",
        "seed": 20210801,
        "negatives_are": negatives,
        "negatives_seed": seed if is_random else -1,
        "ontology_sha256": ontology.sha256,
    }
    chosen = negatives_of(positives, ranking, Kinship(ontology))
    return data.assemble(DEMO, positives, chosen, names, synonyms, wording, facts)


def _demo_positives() -> list[Positive]:
    path = demo.FOLDER / "diskne" / "positives.jsonl.gz"
    pairs = read_nli_file(path, split="diskne").examples
    positives = []
    for pair, (_, row) in zip(pairs, json_rows(path, Problems()), strict=True):
        values = row.values
        place = (values["start"], values["end"])
        positives.append(Positive(pair, values["disease"], values["category"], *place))
    return positives


def _fold_facts(fold: Fold) -> JsonObject:
    return {
        "disease": fold.disease,
        "group": fold.group,
        "categories": list(fold.categories),
        "dropped": {reason: len(rows) for reason, rows in fold.dropped.items()},
    }


def benchmark_of(prepared: Prepared) -> Benchmark:
    """The examples of a prepared DisKnE without their texts."""
    description, arrays = prepared.manifest["diskne"], prepared.arrays
    rows, diseases = prepared.splits[ALL], description["diseases"]
    examples = []
    for row, uid in enumerate(rows.uids):
        example = DiseaseExample(
            NLIExample(uid, "", "", LABELS[rows.label[row]], (), ()),
            diseases[arrays["disease"][row]],
            diseases[arrays["target"][row]],
            CATEGORIES[arrays["category"][row]],
        )
        examples.append(example)
    return Benchmark.from_description(description, examples)


def folds_of(prepared: Prepared) -> tuple[Fold, ...]:
    """The folds of a prepared DisKnE; the examples left out of them are counted in the manifest
    only."""
    folds = []
    facts_of_folds = prepared.manifest["diskne"]["folds"]
    for split_N, facts in zip(prepared.arrays["fold"], facts_of_folds, strict=True):
        rows = {}
        for split in FOLD_SPLITS[1:]:
            rows[split] = np.flatnonzero(split_N == FOLD_SPLITS.index(split)).astype(np.int32)
        categories = tuple(facts["categories"])
        folds.append(Fold(facts["disease"], facts["group"], categories, **rows, dropped={}))
    return tuple(folds)


def write_benchmark(benchmark: Benchmark, folds: Sequence[Fold], folder: Path) -> Path:
    """Writes the folder of a benchmark whole or not at all, for its owner alone; returns the
    folder."""
    folder = Path(folder).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "give a folder that is empty or not there yet"
        raise UsageError(f"{folder}: exists already", fix=fix)
    lines = []
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
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    facts_of_folds = []
    dropped = ["group\tdisease\tuid\treason\n"]
    for fold in folds:
        facts = _fold_facts(fold)
        facts["name"] = benchmark.names[fold.disease]
        facts["examples"] = {split: len(fold.rows(split)) for split in FOLD_SPLITS[1:]}
        facts_of_folds.append(facts)
        for reason, rows in fold.dropped.items():
            for row in rows:
                uid = benchmark.examples[row].uid
                dropped.append(f"{fold.group}\t{fold.disease}\t{uid}\t{reason}\n")
    with atomic_folder(folder, keep=False) as temporary:
        private_folder(temporary)  # git adds none of its files
        write_atomic(temporary / EXAMPLES, "".join(lines))
        write_json(temporary / ABOUT, {**benchmark.description(), "folds": facts_of_folds})
        write_atomic(temporary / DROPPED, "".join(dropped))
    return folder


def read_benchmark(folder: Path) -> Benchmark:
    """Reads the folder of `write_benchmark`. Tokens come from the Treebank tokeniser."""
    folder = Path(folder).expanduser()
    fix = "build the benchmark again"
    description = read_json(folder / ABOUT, "name", "names", "synonyms", "facts", fix=fix)
    pair_of = {pair.uid: pair for pair in read_nli_file(folder / EXAMPLES, split="all").examples}
    examples = []
    for _, row in json_rows(folder / EXAMPLES, Problems()):
        values = row.values
        pair = pair_of.get(values.get("pairID", ""))
        if pair is not None:
            disease, target = values["disease"], values["target"]
            examples.append(DiseaseExample(pair, disease, target, values["category"]))
    return Benchmark.from_description(description, examples)
