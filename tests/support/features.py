"""Five pairs with vectors and concepts, whose features are worked out by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mednli_jax.data.examples import Mention, Split
from mednli_jax.data.text import SPECIALS, Vocab
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.nli import features
from support.ontologies import small
from support.pairs import ENCODING, pair
from support.pairs import mentions as mentions_of

PAIRS = (  # the first three pairs are the training split
    ("The patient has no chest pain .", "Patient denies pain", "entailment"),
    ("History of heart failure", "History of heart failure", "entailment"),
    ("He takes aspirin", "CT normal", "neutral"),
    ("Atrial fibrillation , on warfarin", "Has not had heart disease .", "contradiction"),
    ("heart failure", "chest pain and heart disease", "neutral"),
)
VECTORS = {
    "<pad>": (0, 0),
    "<unk>": (9, 9),  # an unknown word adds nothing to a sum
    "patient": (1, 0),
    "pain": (0, 2),
    "chest": (1, 1),
    "heart": (3, 0),
    "failure": (0, 4),
    "history": (1, 1),
    "aspirin": (2, 0),
    "normal": (0, -1),
    "disease": (1, 1),
    "atrial": (-1, 0),
}
# Heart disease D1 is-a D0. Heart failure D2 and atrial fibrillation D3 are kinds of D1. Chest pain
# S1 is-a pain S0. Aspirin is M.
IDS = ("D0", "D1", "D2", "D3", "S0", "S1", "M")
EDGES = (
    (1, 0),
    (2, 1),
    (3, 1),
    (5, 4),
)
MENTIONS = (
    [["S1"], ["D2"], ["M"], ["D3", "Z"], ["D2"]],  # Z, warfarin, is not in the ontology
    [["S0"], ["D2"], [], ["D1"], ["S1", "D1"]],
)


def corpus(pairs: Sequence[tuple[str, str, str]] = PAIRS) -> dict[str, Split]:
    """The pairs as splits; the first three are train."""
    examples = [pair(*texts, uid=f"u{number}") for number, texts in enumerate(pairs)]
    train = Split("train", tuple(examples[:3]))
    return {"train": train, "test": Split("test", tuple(examples[3:]))}


def ontology() -> Ontology:
    return small(EDGES, IDS, name="graph", ids=IDS, names=())


def mentions(
    concepts: Sequence[Sequence[Sequence[str]]] = MENTIONS,
) -> tuple[list[list[Mention]], ...]:
    """The mentions of the premises and of the hypotheses."""
    premises, hypotheses = concepts
    of_premises = [mentions_of(*row) for row in premises]
    return of_premises, [mentions_of(*row) for row in hypotheses]


def computed(splits: Mapping[str, Split] | None = None, **settings: Any) -> Any:
    """The features of the pairs; settings: arguments of features.matrix, or fields of the
    encoding."""
    arguments = {
        "vocab": Vocab(SPECIALS + tuple(VECTORS)[2:]),
        "vectors": np.array(list(VECTORS.values()), np.float32),
        "mentions": mentions(),
        "ontology": ontology(),
    }
    fields = {"direction": "undirected"}
    for name, value in settings.items():
        (arguments if name in arguments else fields)[name] = value
    encoding = replace(ENCODING, **fields)
    return features.matrix(splits or corpus(), encoding=encoding, **arguments)
