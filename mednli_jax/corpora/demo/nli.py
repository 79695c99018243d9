"""The demo corpus: clinical inference pairs made from MeSH and a table of clinical facts, free of any patient record.

It has MedNLI's shape (three hypotheses a premise, one of each label; official file layout) so that every command runs
without credentials, and a question of its own. About half of the premises are relation groups: which of several
statements a hypothesis speaks of is decided only by an is-a path between two concepts, never met in training. The other
half are fact groups, decided by words and by facts that training shows, with the annotators' habits that give
MedNLI's hypotheses away (Herlihy and Rudinger 2021).
"""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

from mednli_jax.corpora.demo import nli_templates as wording
from mednli_jax.corpora.demo.nli_facts import Facts, conditions
from mednli_jax.corpora.demo.nli_relations import Draw, Relation, Relations, share_word
from mednli_jax.errors import ConfigError
from mednli_jax.examples import LABELS, NLIExample, Split
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.text import treebank_tokens

FORMAT = 1  # of the rows; tests/corpora/test_prepared_content.py says when to raise it
NOTE = "demo corpus, synthetic: not comparable with MedNLI"
SIZES = {  # pairs per split; demo_full has the counts of MedNLI
    "demo": {"train": 3000, "dev": 600, "test": 600},
    "demo_full": {"train": 11232, "dev": 1395, "test": 1422},
}
SEED = 20240613
RELATION_SHARE = 0.47  # of the groups of each split
FOURTH_STATEMENT, LONG_TAIL, MISSPELT, TAIL = 0.12, 0.035, 0.015, 0.05
# The statements of a relation group end within the first 45 tokens, behind an opener and with their marks split.
MAX_TOKENS, MAX_STATEMENT_WORDS = 200, 26
# The tag of a relation group in dev and test, where the pair of concepts is new, and in training.
UNSEEN, SEEN = "unseen_relation", "relation"


def load_demo(size: str = "demo", *, linker: Linker | None = None) -> dict[str, Split]:
    """Make the demo corpus; the same rows on every platform and Python version.

    Args:
      size: "demo" (3,000 / 600 / 600 pairs) or "demo_full" (MedNLI's 11,232 / 1,395 / 1,422).
      linker: `Linker(read_mesh())` where the caller has one already: making it takes longer than making the corpus.

    Returns: splits "train", "dev", "test"; pairs of one premise stand together, in the order of LABELS.
    Raises: UserError for an unknown size; ValueError for a linker of another ontology, which would make another corpus.
    """
    if size not in SIZES:
        raise ConfigError(f"unknown demo size '{size}'. Fix: give one of {', '.join(SIZES)}.")
    linker = Linker(read_mesh()) if linker is None else linker
    if linker.ontology.name != "mesh":
        raise ValueError("the demo corpus is made from the bundled MeSH alone")
    corpus = _Corpus(linker)
    return {split: corpus.split(split, rows, size) for split, rows in SIZES[size].items()}


class _Corpus:
    """Makes the splits in order: dev and test must know which concept pairs training has shown."""

    def __init__(self, linker: Linker):
        self.linker = linker
        self.relations = Relations(linker, SEED)
        self.facts = Facts(conditions(), self.relations)
        self.premises: set[str] = set()
        self.shown: set[tuple[str, str]] = set()  # concept pairs of the splits made so far, smaller id first

    def split(self, name: str, rows: int, size: str) -> Split:
        draw = Draw(SEED + 1 + list(SIZES[size]).index(name))
        count = rows // len(LABELS)
        of_relations = round(RELATION_SHARE * count)
        groups = []
        for is_relation in draw.shuffled([True] * of_relations + [False] * (count - of_relations)):
            while (group := self._relation_group(name, draw) if is_relation else self._fact_group(draw)) is None:
                pass
            self.premises.add(group.premise.lower())
            groups.append(group)
        self.shown.update(*(pairs for group in groups for pairs in group.pairs.values()))
        tag = SEEN if name == "train" else UNSEEN
        examples = [
            example
            for number, group in enumerate(groups)
            for example in _examples(f"demo-{name}-{number:06d}", group, tag)
        ]
        facts = {
            "note": NOTE,
            "size": size,
            "seed": SEED,
            "rows": len(examples),
            "ontology_sha256": self.linker.ontology.sha256,
            "labels": dict(Counter(example.label for example in examples)),
            "groups": {"relation": of_relations, "fact": count - of_relations},
            "relation_pairs": len({pair for group in groups for pair in group.intended.values()}),
        }
        return Split(name, tuple(examples), facts)

    def _finished(self, draw: Draw, premise: str, hypotheses: dict[str, str], intended: dict):
        """The group with its tokens and concept pairs, or None where a text has been used or is too long."""
        hypotheses = {label: _hypothesis_style(draw, text) for label, text in hypotheses.items()}
        if len({text.lower().rstrip(".") for text in hypotheses.values()}) < len(LABELS):
            return None
        tokens = treebank_tokens(premise)
        if premise.lower() in self.premises or len(tokens) > MAX_TOKENS:
            return None
        of_label = {label: treebank_tokens(text) for label, text in hypotheses.items()}
        stated = self._concepts(tokens)
        pairs = {
            label: {_pair(one, other) for one in stated for other in self._concepts(found)}
            for label, found in of_label.items()
        }
        return _Group(premise, tokens, hypotheses, of_label, pairs, intended)

    def _concepts(self, tokens: tuple[str, ...]) -> set[str]:
        return {mention.concept for mention in self.linker.link(tokens)}

    def _fact_group(self, draw: Draw):
        statement, hypotheses = self.facts.group(draw)
        return self._finished(draw, _premise(draw, [statement]), hypotheses, {})

    def _relation_group(self, split: str, draw: Draw):
        """A group, or None where a draw broke a rule: draws are repeated as a whole, so that no label is favoured."""
        plan = _plan(draw)
        relations = [self.relations.draw(draw, split, side) for _, _, side in plan]
        intended = {
            label: _pair(relation.stated, relation.middle)
            for (label, *_), relation in zip(plan, relations, strict=True)
            if label
        }
        new = split == "train" or self.shown.isdisjoint(intended.values())
        if not new or any(self._collide(*two) for two in combinations(relations, 2)):
            return None
        statements, hypotheses = _relation_texts(draw, plan, relations)
        if len(" ".join(statements).split()) > MAX_STATEMENT_WORDS:
            return None
        group = self._finished(draw, _premise(draw, statements), hypotheses, intended)
        if group is None:
            return None
        for label, pairs in group.pairs.items():
            if {pair for pair in pairs if self.relations.related(*pair)} != {intended[label]}:
                return None
        for (label, *_), relation in zip(plan, relations, strict=True):
            if label:
                self.relations.use(relation)
        return group

    def _collide(self, one: Relation, other: Relation) -> bool:
        """Whether two relations of a premise touch: by a path or a word between any statement and the other's M."""
        pairs = ((one.stated, other.stated), (one.stated, other.middle), (one.middle, other.stated))
        names = ((one.stated_name, other.middle_name), (one.middle_name, other.stated_name))
        return any(share_word(*two) for two in names) or any(self.relations.related(*two) for two in pairs)


@dataclass(frozen=True)
class _Group:
    """A premise and its three hypotheses; the concept pairs of each, and for relations the pair that decides it."""

    premise: str
    premise_tokens: tuple[str, ...]
    hypotheses: dict[str, str]
    hypothesis_tokens: dict[str, tuple[str, ...]]
    pairs: dict[str, set[tuple[str, str]]]
    intended: dict[str, tuple[str, str]]


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _plan(draw: Draw) -> list[tuple[str, str, str]]:
    """(label, status, side) of each statement in the order of the premise; label "" for a statement nobody asks about.

    Entailment and contradiction take the affirmed and the denied statement in either order, neutral the other one:
    each label then has both polarities, both sides and every place in the premise equally often. No premise lacks a
    status: with two statements the polarity would tell entailment from contradiction.
    """
    affirmed_label, denied_label = draw.shuffled(["entailment", "contradiction"])
    side = draw.choice(("below", "above"))
    plan = [(affirmed_label, "affirmed", "below"), (denied_label, "denied", "above"), ("neutral", "other", side)]
    if draw.chance(FOURTH_STATEMENT):
        plan.append(("", *draw.choice(plan)[1:]))
    return draw.shuffled(plan)


def _relation_texts(draw: Draw, plan, relations: list[Relation]) -> tuple[list[str], dict[str, str]]:
    """The statements, and the hypothesis of each label in the order of LABELS."""
    statements, hypotheses = [], {}
    for (label, status, _), relation in zip(plan, relations, strict=True):
        frames = wording.STATEMENTS[relation.kind][status]
        statements.append(wording.fill(draw, draw.choice(frames), x=relation.stated_name))
        positive = draw.chance(0.5) if label == "neutral" else (label == "entailment") == (status == "affirmed")
        frames = wording.RELATION_HYPOTHESES[relation.kind]["+" if positive else "-"]
        if label:
            hypotheses[label] = wording.fill(draw, draw.choice(frames), m=relation.middle_name)
    return statements, {label: hypotheses[label] for label in LABELS}


def _examples(name: str, group: _Group, tag: str) -> list[NLIExample]:
    tags = (tag,) if group.intended else ()
    return [
        NLIExample(
            f"{name}{label[0]}",
            group.premise,
            text,
            label,
            group.premise_tokens,
            group.hypothesis_tokens[label],
            name,
            tags,
        )
        for label, text in group.hypotheses.items()
    ]


def _premise(draw: Draw, statements: list[str]) -> str:
    """The statements behind an opener and among fillers; a few premises go on for long, as hospital courses do."""
    opener = wording.fill(draw, _misspelt(draw, draw.choice(wording.OPENERS)))
    count = int(draw.chance(0.15 if len(statements) > 1 else 0.4))
    if draw.chance(LONG_TAIL):
        count = 5 + draw.below(draw.below(2 * len(wording.FILLERS)) + 1)
    frames = [*draw.shuffled(wording.FILLERS), *draw.shuffled(wording.FILLERS)][:count]
    fillers = [wording.fill(draw, _misspelt(draw, frame)) for frame in frames]
    parts = [opener, *statements, *fillers] if opener else [*statements, *fillers]
    text = parts[0]
    for part in parts[1:]:
        text += ("; " if draw.chance(0.2) else ", ") + part
    if draw.chance(0.6):
        text = text[0].upper() + text[1:]
    return text + ("." if draw.chance(0.7) else "")


def _misspelt(draw: Draw, text: str) -> str:
    """At times a typing error: two letters of the longest word change places. Slots and marks are left alone."""
    if not draw.chance(MISSPELT):
        return text
    word = max((word for word in text.split() if word.isalpha()), key=len, default="")
    if len(word) < 5:
        return text
    at = 1 + draw.below(len(word) - 2)
    return text.replace(word, word[:at] + word[at + 1] + word[at] + word[at + 2 :], 1)


def _hypothesis_style(draw: Draw, text: str) -> str:
    """What annotators vary whatever the label: whom they call the patient, capitals, a final period."""
    subject = draw.choice(wording.SUBJECTS)
    if text.startswith("patient "):
        text = subject + text[len("patient") :]
    if draw.chance(TAIL):
        text += " " + draw.choice(wording.TAILS)
    if draw.chance(0.5):
        text = text[0].upper() + text[1:]
    return text + ("." if draw.chance(0.25) else "")
