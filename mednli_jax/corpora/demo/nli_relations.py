"""What the demo corpus's relation groups are about: pairs of concepts at one or two is-a steps, split by split.

A pair is a narrow concept and a wide one above it. The hypothesis speaks of the middle concept M, the premise states
something of a concept below M (affirmed) or above M (denied). Everything that a model could use in place of the path
is held equal: M is drawn from one pool, before and independently of the label, and so is the number of steps.
"""

import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache

from mednli_jax.examples import Mention
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.ontology import Ontology

# MeSH tree numbers of what a note calls a disease or a sign; parasites, animals and processes sound out of place.
DISEASE_TREES = (
    *("C01", "C04", "C05", "C06", "C07", "C08", "C09", "C10", "C11", "C12", "C14", "C15", "C16", "C17", "C18", "C19"),
    *("C20", "C23.300", "C23.550", "C23.888", "C25", "C26", "F03"),
)
NOT_TREES = (
    "C22",
    "C01.610",
    "C04.619",
    "C04.651",
    "C23.888.144",
    "C23.888.119",
    "C23.550.210",
    "C23.550.291",
    "C23.550.727",
)
# Families of medicines: only below these do MeSH's chemical classes read like a medication list.
DRUG_FAMILIES = {
    "D007769": "Lactams",
    "D000305": "Adrenal Cortex Hormones",
    "D000617": "Aminoglycosides",
    "D015363": "Quinolones",
    "D018942": "Macrolides",
    "D013754": "Tetracyclines",
    "D001569": "Benzodiazepines",
    "D001463": "Barbiturates",
    "D013449": "Sulfonamides",
    "D061385": "Insulins",
    "D053610": "Opiate Alkaloids",
    "D012459": "Salicylates",
    "D000662": "Amphetamines",
    "D011412": "Propanolamines",
    "D006493": "Heparin",
    "D010640": "Phenothiazines",
    "D013453": "Sulfonylurea Compounds",
    "D004095": "Dihydropyridines",
    "D001645": "Biguanides",
}
PLAIN_NAME = re.compile(r"[A-Za-z][a-z]{3,}(?: [A-Za-z][a-z]{2,}){0,2}")
UNNATURAL = re.compile(r"neoplasm|viridae|aceae|derivative|compound|agent|iii| and |signs|[^aeiouy ]{6}")
SHARES = {"train": 0.5, "dev": 0.25, "test": 0.25}  # of all pairs, allotted before any sentence is made
STEPS, ONE_STEP = (1, 2), 0.66  # ONE_STEP: share of the relations at one step, near what MeSH offers
CANDIDATES = 8
MAX_NAMES, MAX_TRIED = 3, 5


class Draw:
    """Random choices from `random.Random(seed).random()` alone, whose stream is the same on every Python."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def below(self, size: int) -> int:
        return int(self._random() * size)

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def choice(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items) -> list:
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items


@dataclass(frozen=True)
class Relation:
    """A middle concept, and the concept of a premise at `steps` is-a steps from it ("below" or "above")."""

    split: str
    kind: str
    middle: str
    middle_name: str
    stated: str
    stated_name: str
    side: str
    steps: int


@lru_cache(maxsize=1 << 16)
def _stems(name: str) -> frozenset[str]:
    return frozenset(word[:4] for word in name.lower().split())


def share_word(name: str, other: str) -> bool:
    """Whether a word of one begins like a word of the other: such names give the relation away without the ontology."""
    return not _stems(name).isdisjoint(_stems(other))


class Relations:
    """The usable concepts and pairs of an ontology, allotted to splits.

    names: concept -> up to three plain names, each linked to exactly that concept by `linker`.
    """

    def __init__(self, linker: Linker, seed: int):
        self.ontology, self.linker = linker.ontology, linker
        self._ancestors: dict[str, dict[str, int]] = {}
        self.kinds = _kinds(self.ontology)
        self.names = self._usable_names()
        self.pools = self._allot(Draw(seed))
        self._used, self._known = Counter(), set()

    def above(self, concept: str) -> dict[str, int]:
        """The ancestors of a concept and their distances."""
        if concept not in self._ancestors:
            self._ancestors[concept] = self.ontology.ancestors(concept)
        return self._ancestors[concept]

    def related(self, one: str, other: str) -> bool:
        """Whether one of the two is the other or above it."""
        return one == other or one in self.above(other) or other in self.above(one)

    def draw(self, draw: Draw, split: str, side: str) -> Relation:
        """A relation whose stated concept lies `side` ("below", "above") of M; M and steps do not depend on `side`.

        Rarely used concepts are preferred, so that a corpus shows many pairs; and in dev and test those that training
        showed in other pairs, so that what is new is the relation. `use` says that a relation was used.
        """
        steps = 1 if draw.chance(ONE_STEP) else 2
        pool = self.pools[split, steps]
        candidates = [draw.choice(pool) for _ in range(CANDIDATES)]
        middle, middle_name, sides = min(
            candidates, key=lambda unit: (self._is_strange(split, unit[0]), self._used[split, steps, side, unit[0]])
        )
        others = [draw.choice(sides[side]) for _ in range(CANDIDATES)]
        stated, names = min(others, key=lambda other: (self._is_strange(split, other[0]), self._used[middle, other[0]]))
        return Relation(split, self.kinds[middle], middle, middle_name, stated, draw.choice(names), side, steps)

    def use(self, relation: Relation) -> None:
        """Count a relation that went into the corpus."""
        self._used[relation.split, relation.steps, relation.side, relation.middle] += 1
        self._used[relation.middle, relation.stated] += 1
        self._used[relation.stated, relation.middle] += 1
        if relation.split == "train":
            self._known |= {relation.middle, relation.stated}

    def _is_strange(self, split: str, concept: str) -> bool:
        return split != "train" and concept not in self._known

    def _usable_names(self) -> dict[str, tuple[str, ...]]:
        index = {self.ontology.index(concept): concept for concept in self.kinds}
        surfaces = defaultdict(list)
        for name, position in self.ontology.names:
            if position in index and PLAIN_NAME.fullmatch(name) and not UNNATURAL.search(name.lower()):
                surfaces[index[position]].append(name.lower())
        return {concept: names for concept in self.kinds if (names := self._linked(concept, surfaces[concept]))}

    def _linked(self, concept: str, surfaces: list[str]) -> tuple[str, ...]:
        """The best surfaces that the linker takes for the concept: near the preferred name, then the short ones.

        A plural is used only where the ontology has no singular.
        """
        label = {word.strip(",") for word in self.ontology.labels[self.ontology.index(concept)].lower().split()}
        singular = {name for name in surfaces if not _is_plural(name)}
        order = sorted(singular or set(surfaces), key=lambda name: (-len(label & set(name.split())), len(name), name))
        found = []
        for name in order[:MAX_TRIED]:
            tokens = name.split()
            if self.linker.link(tokens) == [Mention(0, len(tokens), concept)]:
                found.append(name)
        return tuple(found[:MAX_NAMES])

    def _allot(self, draw: Draw) -> dict:
        """(split, steps) -> tuple of (M, name of M, {side: ((concept, its names), ...)}), no side empty.

        A pair of concepts goes to one split. M stands there once per name, with the names of other concepts that share
        no word with it: were names chosen after the partner, a name would tell on which side the partner lies.
        """
        sides = defaultdict(lambda: {"below": [], "above": []})
        for narrow in sorted(self.names):
            for wide, steps in sorted(self.above(narrow).items()):
                if steps not in STEPS or self.kinds[narrow] != self.kinds.get(wide) or wide not in self.names:
                    continue
                split = _allotted(draw)
                for middle, stated, side in ((wide, narrow, "below"), (narrow, wide, "above")):
                    for name in self.names[middle]:
                        partners = tuple(other for other in self.names[stated] if not share_word(name, other))
                        if partners:
                            sides[split, steps, middle, name][side].append((stated, partners))
        pools = defaultdict(list)
        for (split, steps, middle, name), found in sides.items():
            if found["below"] and found["above"]:
                pools[split, steps].append((middle, name, found))
        return {key: tuple(found) for key, found in pools.items()}


def _allotted(draw: Draw) -> str:
    for split, share in (("dev", SHARES["dev"]), ("test", SHARES["test"] / (1 - SHARES["dev"]))):
        if draw.chance(share):
            return split
    return "train"


def _kinds(ontology: Ontology) -> dict[str, str]:
    """Concept -> "disease" or "drug", for those that the corpus speaks of."""
    kinds = {}
    for concept, types in zip(ontology.ids, ontology.types, strict=True):
        trees = types.split("|")
        if any(tree.startswith(DISEASE_TREES) and not tree.startswith(NOT_TREES) for tree in trees):
            kinds[concept] = "disease"
    for family in DRUG_FAMILIES:
        for concept in (family, *ontology.descendants(family)):
            kinds.setdefault(concept, "drug")
    return kinds


def _is_plural(name: str) -> bool:
    return name.endswith("s") and not name.endswith(("ss", "is", "us", "as"))
