"""DisKnE on disk, from the published annotations, from any NLI corpus, or as a demo without
credentials.

    python launch/data/build_diskne.py --out=FOLDER              the bundled demo
    python launch/data/build_diskne.py --out=FOLDER --annotations A.csv B.csv --ontology=umls
                                                            the published files over MedNLI
    python launch/data/build_diskne.py --out=FOLDER --corpus=mednli --ontology=umls \\
        --vectors=cui2vec_pretrained.csv                    from scratch, any corpus of ours

Writes examples.jsonl, benchmark.json and dropped.tsv, which mednli_jax/diskne/corpus.py describes.
Only the owner can read them; an interrupted build leaves none of them. The counts are printed as
JSON. Without annotations, the negatives of a disease are the diseases most similar to it: by
--vectors (of concepts), else by their common ancestors.
"""

import argparse
import json
import sys
from collections.abc import Collection
from pathlib import Path

from diskne_from_pairs import build as build_from_pairs
from diskne_from_pairs import read_vectors, vectors_of_ancestors

from mednli_jax import cli
from mednli_jax.data.corpus import data_folder
from mednli_jax.demo import SIZES
from mednli_jax.diskne.corpus import load_demo_diskne, write_benchmark
from mednli_jax.diskne.data import WORDINGS, Benchmark, SourcePairs, read_published, source_pairs
from mednli_jax.diskne.folds import folds
from mednli_jax.diskne.negatives import COUNT, Ranking, shuffled, similar
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.nli.readers import load_demo, load_nli


def benchmark_of(arguments: argparse.Namespace) -> Benchmark:
    """Builds the benchmark that the flags describe."""
    if arguments.annotations:
        return published_benchmark(arguments)
    if arguments.corpus:
        return new_benchmark(arguments)
    return load_demo_diskne(
        negatives=arguments.negatives, wording=arguments.wording, seed=arguments.seed
    )


def published_benchmark(arguments: argparse.Namespace) -> Benchmark:
    """The published annotations over the pairs that they refer to."""
    pairs, facts = source_pairs(data_of(arguments))
    ontology = None
    if arguments.ontology != "none":
        ontology = load_ontology(arguments.ontology, arguments.data)
    return read_published(
        arguments.annotations, pairs, ontology, wording=arguments.wording, facts=facts
    )


def new_benchmark(arguments: argparse.Namespace) -> Benchmark:
    """A benchmark from the pairs of any corpus."""
    pairs, facts = pairs_of(arguments)
    linker = Linker(load_ontology(arguments.ontology, arguments.data))

    def ranking(diseases: Collection[str]) -> Ranking:
        if arguments.negatives == "random":
            return shuffled(arguments.seed)
        if arguments.vectors:
            return similar(read_vectors(arguments.vectors, diseases))
        return similar(vectors_of_ancestors(linker.ontology, diseases))

    return build_from_pairs(
        f"diskne-{arguments.corpus}",
        pairs,
        linker,
        ranking,
        wording=arguments.wording,
        count=arguments.count,
        facts={
            **facts,
            "corpus": arguments.corpus,
            "negatives_are": arguments.negatives,
            "negatives_seed": arguments.seed,
        },
    )


def pairs_of(arguments: argparse.Namespace) -> SourcePairs:
    """The pairs of a corpus; those of MedNLI together with MEDIQA-NLI, as in the paper."""
    if arguments.corpus == "mednli":
        return source_pairs(data_of(arguments))
    if arguments.corpus in SIZES:
        splits = load_demo(arguments.corpus)
    else:
        splits = load_nli(arguments.corpus, data_of(arguments))
    pairs = [pair for split in splits.values() for pair in split.examples]
    return pairs, {"files": {}}


def data_of(arguments: argparse.Namespace) -> Path:
    folder = data_folder(arguments.data)
    if folder is None:
        fix = "set $MEDNLI_JAX_DATA, or give --data=FOLDER"
        raise ConfigError("no data folder is set", fix=fix)
    return folder


def build(arguments: argparse.Namespace) -> None:
    """Makes the benchmark, writes it and prints the counts."""
    benchmark = benchmark_of(arguments)
    divisions = folds(benchmark)
    folder = write_benchmark(benchmark, divisions, arguments.out)
    counts = {"folder": str(folder), "folds": len(divisions), **benchmark.facts}
    print(json.dumps(counts, indent=2))


def main() -> int:
    """Reads the flags and builds; returns the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--out", type=cli.path, required=True, help="folder of the benchmark, empty or new")
    add("--annotations", type=cli.path, nargs="+", default=[], help="published CSV files")
    add("--corpus", default="", help="mednli, snli, multinli, file, demo, ...: build from scratch")
    add("--data", type=cli.path, help="default: $MEDNLI_JAX_DATA")
    add("--ontology", default="mesh", help="mesh, umls, snomed, a path; none with --annotations")
    add("--negatives", choices=("similar", "random"), default="similar")
    add("--vectors", type=cli.path, help="vectors of concepts, a .csv as cui2vec's")
    add("--count", type=int, default=COUNT, help="negatives of a positive example")
    add("--seed", type=int, default=0, help="of random negatives")
    add("--wording", choices=WORDINGS, default="name", help="what the hypotheses are")
    arguments = parser.parse_args()
    return cli.script(lambda: build(arguments))


if __name__ == "__main__":
    sys.exit(main())
