"""New premise-hypothesis pairs for a run of the feature-based system, by its stored trees and TF-IDF terms."""

import json
from functools import cached_property

import numpy as np

from mednli_jax.baselines import boosting, trees
from mednli_jax.errors import RunError, UsageError
from mednli_jax.examples import LABELS, NLIExample
from mednli_jax.files import digest as digest_of
from mednli_jax.files import write_atomic
from mednli_jax.runs import RunDirectory, read_json
from mednli_jax.text import TOKENISERS

FILE = "trees.json"  # in private/, because the terms are words of the corpus


def write(directory: RunDirectory, fitted: boosting.Boosted, terms: dict) -> None:
    """Writes private/trees.json: the trees of each seed and the TF-IDF terms."""
    values = {"trees": list(fitted.trees), "terms": terms}
    write_atomic(directory.private / FILE, json.dumps({**values, "sha256": digest_of(values)}))


def read(directory: RunDirectory) -> dict | None:
    """Reads the file of `write`; None where there is none. Raises RunError where it is damaged."""
    path = directory.private / FILE
    if not path.is_file():
        return None
    values = read_json(path, "trees", "terms", "sha256", fix="restore the run directory")
    if values.pop("sha256") != digest_of(values):
        raise RunError(f"{path}: differs from what the run wrote. Fix: restore the run directory.")
    return values


class TreePairs:
    """New pairs for a run (finished_run.FinishedRun) of features, with the interface of tasks.nli.NewPairs."""

    def __init__(self, run):
        self.run, self.truncated = run, {}
        self.unknown_words = dict.fromkeys(run.task.sides, 0)

    @cached_property
    def _linker(self):
        linker, digest = self.run.experiment.corpus.linker, self.run.manifest["knowledge"].get("sha256", "")
        if linker and linker.ontology.sha256 != digest:
            name = linker.ontology.name
            raise RunError(f"the ontology '{name}' changed since the run was trained. Fix: restore it, or train again.")
        return linker

    def predict(self, inputs) -> list[dict]:
        run, tokenise = self.run, TOKENISERS[self.run.manifest["tokeniser"]]
        examples = [NLIExample(str(i), *pair, "", *map(tokenise, pair)) for i, pair in enumerate(inputs)]
        if not examples:
            return []
        corpus = run.experiment.corpus
        texts = corpus.texts(run.vocabulary, None)
        arrays = texts.arrays(examples)
        self.unknown_words = {side: int((arrays[side] == texts.unknown).sum()) for side in run.task.sides}
        table = boosting.of_new(corpus, examples, self._linker, run.vocabulary, run.vectors, run.trees["terms"])
        mean_NC = np.mean([trees.probabilities(one, table, len(LABELS)) for one in run.trees["trees"]], axis=0)
        return [dict(zip(LABELS, map(float, row), strict=True)) for row in mean_NC]

    def attention(self, inputs):
        raise UsageError("model 'features' has no attention. Fix: give a run of esim.")
