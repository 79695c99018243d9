"""DisKnE on disk, from the published annotations, from any NLI corpus, or as a demo without
credentials.

    python launch/build_diskne.py --out=FOLDER                                     the bundled demo
    python launch/build_diskne.py --out=FOLDER --annotations A.csv B.csv --ontology=umls
                                                                                   the published files over MedNLI
    python launch/build_diskne.py --out=FOLDER --corpus=mednli --ontology=umls --vectors=cui2vec_pretrained.csv
                                                                                   from scratch, any corpus of ours

Writes examples.jsonl, benchmark.json and dropped.tsv, which mednli_jax/diskne/corpus.py describes.
Only the owner can read them; an interrupted build leaves none of them. The counts are printed as
JSON. Without annotations, the negatives of a disease are the diseases most similar to it: by
--vectors (of concepts), else by their common ancestors.
"""

import argparse
import json
import sys

from mednli_jax import cli
from mednli_jax.data.corpus import data_folder
from mednli_jax.demo import SIZES
from mednli_jax.diskne import builder
from mednli_jax.diskne.corpus import load_demo_diskne, write_benchmark
from mednli_jax.diskne.data import WORDINGS, Benchmark, read_published, source_pairs
from mednli_jax.diskne.folds import folds
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.nli.readers import load_demo, load_nli


def made(arguments: argparse.Namespace) -> Benchmark:
    """Builds the benchmark that the flags describe."""
    if arguments.annotations:
        pairs, facts = source_pairs(_data(arguments))
        ontology = (
            None
            if arguments.ontology == "none"
            else load_ontology(arguments.ontology, arguments.data)
        )
        return read_published(
            arguments.annotations, pairs, ontology, wording=arguments.wording, facts=facts
        )
    if not arguments.corpus:
        return load_demo_diskne(
            negatives=arguments.negatives, wording=arguments.wording, seed=arguments.seed
        )
    pairs, facts = _pairs(arguments)
    linker = Linker(load_ontology(arguments.ontology, arguments.data))
    facts |= {
        "corpus": arguments.corpus,
        "negatives_are": arguments.negatives,
        "negatives_seed": arguments.seed,
    }
    return builder.build(
        f"diskne-{arguments.corpus}",
        pairs,
        linker,
        lambda diseases: _ranking(arguments, linker.ontology, diseases),
        wording=arguments.wording,
        count=arguments.count,
        facts=facts,
    )


def _pairs(arguments):
    if arguments.corpus == "mednli":
        return source_pairs(_data(arguments))  # together with MEDIQA-NLI, as in the paper
    demo = arguments.corpus in SIZES
    splits = load_demo(arguments.corpus) if demo else load_nli(arguments.corpus, _data(arguments))
    return [pair for split in splits.values() for pair in split.examples], {"files": {}}


def _data(arguments):
    folder = data_folder(arguments.data)
    if folder is None:
        raise ConfigError(
            "no data folder is set", fix="set $MEDNLI_JAX_DATA, or give --data=FOLDER"
        )
    return folder


def _ranking(arguments, ontology, diseases):
    if arguments.negatives == "random":
        return builder.shuffled(arguments.seed)
    if arguments.vectors:
        return builder.similar(builder.read_vectors(arguments.vectors, diseases))
    return builder.similar(builder.vectors_of_ancestors(ontology, diseases))


def main_build(arguments: argparse.Namespace) -> None:
    """Makes the benchmark, writes it and prints the counts."""
    benchmark = made(arguments)
    found = folds(benchmark)
    folder = write_benchmark(benchmark, found, arguments.out)
    print(json.dumps({"folder": str(folder), "folds": len(found), **benchmark.facts}, indent=2))


def main() -> int:
    """Reads the flags and builds; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=cli.path, required=True, help="folder of the benchmark, empty or new"
    )
    parser.add_argument(
        "--annotations", type=cli.path, nargs="+", default=[], help="published CSV files"
    )
    parser.add_argument(
        "--corpus", default="", help="mednli, snli, multinli, file, demo, ...: build from scratch"
    )
    parser.add_argument("--data", type=cli.path, help="default: $MEDNLI_JAX_DATA")
    parser.add_argument(
        "--ontology", default="mesh", help="mesh, umls, snomed, a path; none with --annotations"
    )
    parser.add_argument("--negatives", choices=("similar", "random"), default="similar")
    parser.add_argument("--vectors", type=cli.path, help="vectors of concepts, a .csv as cui2vec's")
    parser.add_argument(
        "--count", type=int, default=builder.COUNT, help="negatives of a positive example"
    )
    parser.add_argument("--seed", type=int, default=0, help="of random negatives")
    parser.add_argument(
        "--wording", choices=WORDINGS, default="name", help="what the hypotheses are"
    )
    arguments = parser.parse_args()
    return cli.script(lambda: main_build(arguments))


if __name__ == "__main__":
    sys.exit(main())
