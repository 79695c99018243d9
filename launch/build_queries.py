"""Cloze queries from case reports: `python launch/build_queries.py --reports=FILE --out=FOLDER
[--ontology=mesh ...]`.

Reads case reports with marked phrases and learning points; mednli_jax/cloze/query_builder.py
describes the JSON lines. Builds one query for every phrase of a learning point, except for queries
that the report repeats. Adds the names of an ontology to the answers (from the UMLS all English
names of all vocabularies). Writes train1.0.json, dev1.0.json and test1.0.json in CliCR's layout, so
that FOLDER is a corpus like CliCR. All queries of a report are in one file. The counts of corrected
and omitted parts are printed as JSON.
"""

import argparse
import json
import sys

from mednli_jax import cli
from mednli_jax.cloze.clicr import FILES, write_clicr
from mednli_jax.cloze.query_builder import build_queries, divided, read_reports
from mednli_jax.errors import UserError
from mednli_jax.files import private_folder
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.knowledge.ontology import OntologyOptions


def build(arguments: argparse.Namespace) -> None:
    """Reads the reports, writes the corpus and prints the counts."""
    paths = {split: arguments.out / file for split, file in FILES.items()}
    for path in paths.values():
        if path.exists():
            fix = "give --out another folder, or remove it"
            raise UserError(f"{path}: exists already", fix=fix)
    reports = read_reports(arguments.reports)
    ontology = None
    if arguments.ontology != "none":
        names = OntologyOptions(sources=tuple(arguments.sources))
        ontology = load_ontology(arguments.ontology, arguments.data, names)
    whole = build_queries(reports, ontology)
    splits = divided(whole, arguments.dev, arguments.test)
    private_folder(arguments.out)
    for name, split in splits.items():
        write_clicr(split.examples, paths[name])
    sizes = {name: len(split) for name, split in splits.items()}
    print(json.dumps({**whole.facts, "queries": sizes}, indent=2))


def main() -> int:
    """Reads the flags and builds; returns the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--reports", type=cli.path, required=True, help="JSON lines, plain or gzipped")
    add("--out", type=cli.path, required=True, help="folder of the new corpus")
    add("--ontology", default="mesh", help="mesh, umls, snomed, a path, or none for no synonyms")
    sources = "vocabularies of the UMLS to use, e.g. SNOMEDCT_US MSH (default: all)"
    add("--sources", nargs="+", default=(), metavar="SAB", help=sources)
    add("--data", type=cli.path, help="default: $MEDNLI_JAX_DATA")
    add("--dev", type=float, default=0.06, help="share of the reports")
    add("--test", type=float, default=0.07, help="share of the reports")
    arguments = parser.parse_args()
    return cli.script(lambda: build(arguments))


if __name__ == "__main__":
    sys.exit(main())
