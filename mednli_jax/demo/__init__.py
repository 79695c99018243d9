"""The bundled demo corpora: rows free of any patient record, with which every command runs without credentials.

The data files beside this module have the layouts of MedNLI, CliCR and DisKnE. docs/demo.md describes the rows and how
they were made. facts.json has the facts of each split for the manifest, and the diseases of the benchmark.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from mednli_jax.cloze import clicr
from mednli_jax.data.examples import Split
from mednli_jax.diskne.benchmark import Benchmark, Positive, assembled
from mednli_jax.diskne.builder import Kinship, disease_names, shuffled, similar
from mednli_jax.diskne.builder import negatives as others_of
from mednli_jax.errors import ConfigError, Problems
from mednli_jax.io import opened
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.nli.readers import json_rows, read_nli_file

FOLDER = Path(__file__).parent
SIZES = ("demo", "demo_full")  # of the pairs; demo_full has the counts of MedNLI
CLOZE, DISKNE = "cloze", "diskne"
NEGATIVES = ("similar", "random")


def _facts(name):
    return json.loads((FOLDER / "facts.json").read_text(encoding="utf-8"))[name]


def demo_files(name: str) -> list[Path]:
    """The files of a demo corpus: one of SIZES, CLOZE or DISKNE."""
    return [*sorted((FOLDER / name).iterdir()), FOLDER / "facts.json"]


def load_demo(size: str = "demo") -> dict[str, Split]:
    """The splits of the demo pairs: 3,000, 600 and 600, or for demo_full 11,232, 1,395 and 1,422.

    Pairs of one premise are kept together, in the order of LABELS. Only an is-a path of MeSH decides pairs with the tag
    `relation` (in train) or `unseen_relation` (in dev and test, where the two concepts are a new pair).
    """
    if size not in SIZES:
        raise ConfigError(f"unknown demo size '{size}'. Fix: give one of {', '.join(SIZES)}.")
    folder, facts = FOLDER / size, _facts(size)
    splits = {name: read_nli_file(folder / f"{name}.jsonl.gz", split=name) for name in facts}
    return {name: replace(split, facts=facts[name]) for name, split in splits.items()}


def load_demo_cloze() -> dict[str, Split]:
    """The splits of the demo queries: 1,400, 300 and 300, report by report.

    Each has the tag "circumstance" or "name": what its fact relates the answer to.
    """
    found = {}
    for name, facts in _facts(CLOZE).items():
        path = FOLDER / CLOZE / f"{clicr.FILES[name]}.gz"
        with opened(path) as stream:
            reports = json.load(stream)["data"]
        tags = {query["id"]: (query["tag"],) for report in reports for query in report["document"]["qas"]}
        queries = clicr.read_clicr(path, split=name).examples
        found[name] = Split(name, tuple(replace(query, tags=tags[query.uid]) for query in queries), facts)
    return found


def load_demo_diskne(*, negatives: str = "similar", wording: str = "name", seed: int = 0) -> Benchmark:
    """The demo benchmark: twenty-two diseases in two clusters, two premises for each disease and category.

    Args:
      negatives: "similar", the other diseases of the cluster, or "random" ones of all, ten for a positive example.
      wording: of the hypotheses, one of WORDINGS.
      seed: of random negatives.
    """
    if negatives not in NEGATIVES:
        raise ConfigError(f"negatives are '{negatives}'. Fix: give one of {', '.join(NEGATIVES)}.")
    ontology, diseases = read_mesh(), _facts(DISKNE)
    path, problems = FOLDER / DISKNE / "positives.jsonl.gz", Problems()
    pairs = read_nli_file(path, split=DISKNE).examples
    positives = [
        Positive(pair, *(row.values[name] for name in ("disease", "category", "start", "end")))
        for pair, (_, row) in zip(pairs, json_rows(path, problems), strict=True)
    ]
    names = {disease: row["name"] for disease, row in diseases.items()}
    synonyms = disease_names(ontology, list(names))[1]
    synonyms = {disease: (*synonyms[disease], *row["short"]) for disease, row in diseases.items()}
    clusters = np.eye(1 + max(row["cluster"] for row in diseases.values()))
    ranking = similar({disease: clusters[row["cluster"]] for disease, row in diseases.items()})
    drawn = negatives == "random"
    facts = {
        "note": "demo benchmark, synthetic: not comparable with DisKnE",
        "seed": 20210801,
        "negatives_are": negatives,
        "negatives_seed": seed if drawn else -1,
        "ontology_sha256": ontology.sha256,
    }
    made_up = others_of(positives, shuffled(seed) if drawn else ranking, Kinship(ontology))
    return assembled("demo_diskne", positives, made_up, names, synonyms, wording, facts)
