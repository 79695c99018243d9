"""Builds DisKnE on disk: from the published annotations, from any NLI corpus, or as a demo without
credentials.

  python launch/data/build_diskne.py --out=FOLDER
  python launch/data/build_diskne.py --out=FOLDER --annotations=A.csv,B.csv --ontology=umls
  python launch/data/build_diskne.py --out=FOLDER --corpus=mednli --ontology=umls \\
      --vectors=cui2vec_pretrained.csv

  --out=FOLDER                 of the benchmark, empty or new
  --annotations=FILE,...       published CSV files
  --corpus=NAME                mednli, snli, multinli, file, demo, ...: builds from scratch
  --data=FOLDER                the data folder (default: $MEDNLI_JAX_DATA)
  --ontology=NAME              mesh (default), umls, snomed or a path; none with --annotations
  --negatives=similar|random   negatives of a disease: the diseases most similar to it (default), by
                               --vectors or else by their common ancestors; or random ones
  --vectors=FILE               vectors of concepts, a .csv as cui2vec's
  --count=N                    negatives of a positive example, with --corpus (10)
  --seed=N                     of random negatives (0)
  --wording=name|mention|full  the hypotheses (default: name), see mednli_jax/diskne/data.py

Writes examples.jsonl, benchmark.json and dropped.tsv, which mednli_jax/diskne/corpus.py describes.
Only the owner can read them; an interrupted build leaves none of them. The counts are printed as
JSON.
"""

import json
import sys
from collections.abc import Collection
from pathlib import Path

from diskne_from_pairs import build as build_from_pairs
from diskne_from_pairs import read_vectors, vectors_of_ancestors

from mednli_jax import cli
from mednli_jax.data.corpus import corpora_folder
from mednli_jax.demo import SIZES
from mednli_jax.diskne.corpus import load_demo_diskne, write_benchmark
from mednli_jax.diskne.data import WORDINGS, Benchmark, SourcePairs, read_published, source_pairs
from mednli_jax.diskne.folds import folds
from mednli_jax.diskne.negatives import COUNT, Ranking, rank_randomly, similar
from mednli_jax.errors import ConfigError
from mednli_jax.files.paths import local_path
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.nli.read.readers import load_demo, load_nli


def benchmark_of(values: cli.Flags) -> Benchmark:
    """Builds the benchmark that the flags describe."""
    if values.annotations:
        return published_benchmark(values)
    if values.corpus:
        return new_benchmark(values)
    return load_demo_diskne(negatives=values.negatives, wording=values.wording, seed=values.seed)


def published_benchmark(values: cli.Flags) -> Benchmark:
    """Builds the benchmark of the published annotations over the pairs that they refer to."""
    pairs, facts = source_pairs(data_of(values))
    ontology = None
    if values.ontology != "none":
        ontology = load_ontology(values.ontology, values.data)
    files = [local_path(file, "--annotations") for file in values.annotations]
    return read_published(
        files,
        pairs,
        ontology,
        wording=values.wording,
        facts=facts,
    )


def new_benchmark(values: cli.Flags) -> Benchmark:
    """Builds a benchmark from the pairs of any corpus."""
    pairs, facts = pairs_of(values)
    linker = Linker(load_ontology(values.ontology, values.data))

    def ranking(diseases: Collection[str]) -> Ranking:
        if values.negatives == "random":
            return rank_randomly(values.seed)
        if values.vectors:
            return similar(read_vectors(values.vectors, diseases))
        return similar(vectors_of_ancestors(linker.ontology, diseases))

    return build_from_pairs(
        f"diskne-{values.corpus}",
        pairs,
        linker,
        ranking,
        wording=values.wording,
        count=values.count,
        facts={
            **facts,
            "corpus": values.corpus,
            "negatives_are": values.negatives,
            "negatives_seed": values.seed,
        },
    )


def pairs_of(values: cli.Flags) -> SourcePairs:
    """Reads the pairs of a corpus; MedNLI comes together with MEDIQA-NLI, as in the paper."""
    if values.corpus == "mednli":
        return source_pairs(data_of(values))
    if values.corpus in SIZES:
        splits = load_demo(values.corpus)
    else:
        splits = load_nli(values.corpus, data_of(values))
    pairs = [pair for split in splits.values() for pair in split.examples]
    return pairs, {"files": {}}


def data_of(values: cli.Flags) -> Path:
    folder = corpora_folder(values.data)
    if folder is None:
        fix = "set $MEDNLI_JAX_DATA, or give --data=FOLDER"
        raise ConfigError("no data folder is set", fix=fix)
    return folder


def main(values: cli.Flags) -> None:
    """Makes the benchmark, writes it and prints the counts."""
    out = cli.required_path(values, "out", "--out=FOLDER")
    benchmark = benchmark_of(values)
    divisions = folds(benchmark)
    folder = write_benchmark(benchmark, divisions, out)
    counts = {"folder": str(folder), "folds": len(divisions), **benchmark.facts}
    print(json.dumps(counts, indent=2))


def define(values: cli.Flags) -> None:
    cli.define(values, annotations=[], corpus="", ontology="mesh")
    cli.define(values, negatives=("similar", "random"), wording=WORDINGS)
    cli.define_paths(values, "out", "data", "vectors")
    cli.define_numbers(values, count=COUNT)
    cli.define_numbers(values, least=0, seed=0)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
