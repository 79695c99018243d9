"""The demo corpus: clinical inference pairs made from MeSH and a table of clinical facts, free of any patient record.

It has MedNLI's shape (three hypotheses a premise, one of each label; official file layout) so that every door runs
without credentials, and a question of its own. About half of the premises are relation groups: which of several
statements a hypothesis speaks of is told only by an is-a path between two concepts, never met in training. The other
half are fact groups, decided by words and by facts that training shows, with the annotators' habits that give
MedNLI's hypotheses away (Herlihy and Rudinger 2021).
"""

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path

from mednli_jax.data import demo_templates as wording
from mednli_jax.data.demo_facts import Facts
from mednli_jax.data.demo_relations import Draw, Relation, Relations, share_word
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS, NLIExample, Split
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.mesh import read_mesh
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.text import treebank_tokens

NOTE = "demo corpus, synthetic: not comparable with MedNLI"
SIZES = {  # pairs per split; demo_full has the counts of MedNLI
    "demo": {"train": 3000, "dev": 600, "test": 600},
    "demo_full": {"train": 11232, "dev": 1395, "test": 1422},
}
SEED = 20240613
RELATION_SHARE = 0.47  # of the groups of each split
FOURTH_STATEMENT, LONG_TAIL, MISSPELT = 0.15, 0.045, 0.015
MAX_TOKENS, MAX_STATEMENT_TOKENS = 200, 45
# The tag of a relation group in dev and test, where the pair of concepts is new, and in training.
UNSEEN, SEEN = "unseen_relation", "relation"


def load_demo(size: str = "demo", *, ontology: Ontology | None = None) -> dict[str, Split]:
    """Make the demo corpus; the same rows on every platform and Python version.

    Args:
      size: "demo" (3,000 / 600 / 600 pairs) or "demo_full" (MedNLI's 11,232 / 1,395 / 1,422).
      ontology: the bundled MeSH where the caller has read it already.

    Returns: splits "train", "dev", "test"; pairs of one premise stand together, in the order of LABELS.
    Raises: UserError for an unknown size.
    """
    if size not in SIZES:
        raise UserError(f"unknown demo size '{size}'. Known: {', '.join(SIZES)}")
    ontology = read_mesh() if ontology is None else ontology
    corpus = _Corpus(ontology)
    return {split: corpus.split(split, rows, size) for split, rows in SIZES[size].items()}


def write_demo(folder: Path | str, size: str = "demo", *, ontology: Ontology | None = None) -> list[Path]:
    """Write the corpus as mli_{train,dev,test}_v1.jsonl in MedNLI's official layout; returns the paths.

    Binary parses branch to the right, so that reading them gives back the tokens of `load_demo`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, split in load_demo(size, ontology=ontology).items():
        path = folder / f"mli_{name}_v1.jsonl"
        lines = (json.dumps(_row(example)) + "\n" for example in split.examples)
        path.write_text("".join(lines), encoding="utf-8", newline="\n")
        paths.append(path)
    return paths


def _row(example: NLIExample) -> dict[str, str]:
    row = {"pairID": example.uid, "gold_label": example.label}
    sides = ((1, example.premise, example.premise_tokens), (2, example.hypothesis, example.hypothesis_tokens))
    for side, text, tokens in sides:
        leaves = [_escaped(token) for token in tokens]
        row |= {
            f"sentence{side}": text,
            f"sentence{side}_parse": f"(ROOT (FRAG {' '.join(f'(X {leaf})' for leaf in leaves)}))",
            f"sentence{side}_binary_parse": "".join(f"( {leaf} " for leaf in leaves[:-1])
            + leaves[-1] + " )" * (len(leaves) - 1),
        }
    return row


def _escaped(token: str) -> str:
    for bracket, name in (("(", "-LRB-"), (")", "-RRB-"), ("[", "-LSB-"), ("]", "-RSB-")):
        token = token.replace(bracket, name)
    return token


class _Corpus:
    """Makes the splits in order: dev and test must know which concept pairs training has shown."""

    def __init__(self, ontology: Ontology):
        self.ontology, self.linker = ontology, Linker(ontology)
        self.relations = Relations(ontology, self.linker, SEED)
        self.facts = Facts(json.loads(_facts_text())["conditions"], self.relations)
        self.premises: set[str] = set()
        self.shown: set[tuple[str, str]] = set()  # concept pairs of the splits made so far, smaller id first

    def split(self, name: str, rows: int, size: str) -> Split:
        draw = Draw(SEED + 1 + list(SIZES[size]).index(name))
        groups = rows // len(LABELS)
        relation_groups = round(RELATION_SHARE * groups)
        kinds = draw.shuffled([True] * relation_groups + [False] * (groups - relation_groups))
        shown, related, examples = set(), set(), []
        for number, is_relation in enumerate(kinds):
            make = self._relation_group if is_relation else self._fact_group
            while (group := make(name, draw)) is None:
                pass
            premise, hypotheses, pairs, intended = group
            self.premises.add(premise.lower())
            shown |= pairs
            related |= intended
            tags = ((SEEN if name == "train" else UNSEEN),) if is_relation else ()
            examples += _examples(f"demo-{name}-{number:06d}", premise, hypotheses, tags)
        self.shown |= shown
        facts = {
            "note": NOTE, "size": size, "seed": SEED, "rows": len(examples), "ontology_sha256": self.ontology.sha256,
            "labels": dict(Counter(example.label for example in examples)),
            "groups": {"relation": relation_groups, "fact": groups - relation_groups},
            "relation_pairs": len(related),
        }
        return Split(name, tuple(examples), facts)

    def _concepts(self, text: str) -> set[str]:
        return {mention.concept for mention in self.linker.link(treebank_tokens(text))}

    def _finished(self, draw: Draw, premise: str, hypotheses: dict[str, str]):
        """(premise, hypotheses, concept pairs by label), or None where a text has been used or is too long."""
        hypotheses = {label: _hypothesis_style(draw, text) for label, text in hypotheses.items()}
        repeated = len({text.lower().rstrip(".") for text in hypotheses.values()}) < len(LABELS)
        if repeated or premise.lower() in self.premises or len(treebank_tokens(premise)) > MAX_TOKENS:
            return None
        above = self._concepts(premise)
        pairs = {
            label: {(min(one, other), max(one, other)) for one in above for other in self._concepts(text)}
            for label, text in hypotheses.items()
        }
        return premise, hypotheses, pairs

    def _fact_group(self, split: str, draw: Draw):
        statement, hypotheses = self.facts.group(draw)
        group = self._finished(draw, _premise(draw, [statement]), hypotheses)
        return group and (*group[:2], set().union(*group[2].values()), set())

    def _relation_group(self, split: str, draw: Draw):
        """A group, or None where a draw broke a rule: draws are repeated as a whole, so that no label is favoured."""
        drawn = self._relations_of_group(split, draw)
        if drawn is None:
            return None
        statements, hypotheses, intended = drawn
        statements = draw.shuffled(statements)
        if len(treebank_tokens(", ".join(statements))) > MAX_STATEMENT_TOKENS - 14:  # room for the opener
            return None
        group = self._finished(draw, _premise(draw, statements), hypotheses)
        if group is None:
            return None
        for label, pairs in group[2].items():
            if {pair for pair in pairs if self.relations.related(*pair)} != {intended[label]}:
                return None
            if split != "train" and intended[label] in self.shown:
                return None
        return (*group[:2], set().union(*group[2].values()), set(intended.values()))

    def _relations_of_group(self, split: str, draw: Draw):
        """Statements, hypotheses by label and the related pair of each label; None where concepts collide.

        Entailment and contradiction take the affirmed and the denied statement in either order, neutral the other one:
        each label then has both polarities, both sides and both statements equally often, and no premise without all
        three statuses (with two statements, a label would follow from the polarity).
        """
        affirmed_label, denied_label = draw.shuffled(["entailment", "contradiction"])
        side = "below" if draw.chance(0.5) else "above"
        plan = [(affirmed_label, "affirmed", "below"), (denied_label, "denied", "above"), ("neutral", "other", side)]
        if draw.chance(FOURTH_STATEMENT):
            plan.append(("", *draw.choice(plan)[1:]))
        statements, hypotheses, intended, chosen = [], {}, {}, []
        for label, status, side in draw.shuffled(plan):
            relation = self.relations.draw(draw, split, side)
            if any(self._collide(relation, earlier) for earlier in chosen):
                return None
            chosen.append(relation)
            statements.append(wording.fill(draw, draw.choice(wording.STATEMENTS[relation.kind][status]), x=relation.stated_name))
            if label:
                positive = (label == "entailment") == (status == "affirmed")
                polarity = "+" if (draw.chance(0.5) if label == "neutral" else positive) else "-"
                frames = wording.RELATION_HYPOTHESES[relation.kind][polarity]
                hypotheses[label] = wording.fill(draw, draw.choice(frames), m=relation.middle_name)
                intended[label] = tuple(sorted((relation.stated, relation.middle)))
        return statements, {label: hypotheses[label] for label in LABELS}, intended

    def _collide(self, one: Relation, other: Relation) -> bool:
        """Whether two relations of a premise touch: by a path or a word between any statement and the other's M."""
        pairs = ((one.stated, other.stated), (one.stated, other.middle), (one.middle, other.stated))
        names = ((one.stated_name, other.middle_name), (one.middle_name, other.stated_name))
        return any(self.relations.related(*pair) for pair in pairs) or any(share_word(*pair) for pair in names)


def _facts_text() -> str:
    return (files("mednli_jax.data") / "clinical_facts.json").read_text(encoding="utf-8")


def _examples(group: str, premise: str, hypotheses: dict[str, str], tags: tuple[str, ...]) -> list[NLIExample]:
    tokens = treebank_tokens(premise)
    return [
        NLIExample(f"{group}{label[0]}", premise, text, label, tokens, treebank_tokens(text), group, tags)
        for label, text in hypotheses.items()
    ]


def _premise(draw: Draw, statements: list[str]) -> str:
    """The statements behind an opener and among fillers; a few premises go on for long, as hospital courses do."""
    opener = wording.fill(draw, _misspelt(draw, draw.choice(wording.OPENERS)))
    count = draw.below(2) if len(statements) > 1 else draw.below(3)
    if draw.chance(LONG_TAIL):
        count = 5 + draw.below(24)
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
    if draw.chance(0.5):
        text = text[0].upper() + text[1:]
    return text + ("." if draw.chance(0.25) else "")
