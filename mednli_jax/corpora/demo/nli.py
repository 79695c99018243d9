"""The demo corpus: clinical inference pairs made from MeSH and a table of clinical facts, free of any patient record.

It has MedNLI's shape (three hypotheses for a premise, one of each label; official file layout), so that every command
runs without credentials. About half of the premises are relation groups. Such a premise makes several statements, and
only an is-a path between two concepts says which of them a hypothesis is about. Training shows no pair of concepts that
decides in dev or test. The other premises are fact groups. Words, numbers and facts that training shows decide them,
and their hypotheses have the annotators' habits that reveal labels in MedNLI (Herlihy and Rudinger 2021).
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from mednli_jax.corpora.demo.words import Draw, concept_named, fill, share_word, styled, table
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
PLAIN_NAME = re.compile(r"[A-Za-z][a-z]{3,}(?: [A-Za-z][a-z]{2,}){0,2}")
UNNATURAL = re.compile(r"neoplasm|viridae|aceae|derivative|compound|agent|iii| and |signs|[^aeiouy ]{6}")
MAX_NAMES, MAX_TRIED = 3, 5  # of a concept
HELD_OUT = 0.25  # share of all pairs of concepts that dev has, and test; they are allotted before any sentence is made
ONE_STEP = 0.66  # share of the relations at one is-a step, near what MeSH offers; the others are at two
CANDIDATES = 8
HABIT_RATE = 0.72  # how often a hypothesis shows an annotator's habit, which reveals its label
NUMBERS_WEIGHT = 5  # against the weights of `fact_kinds` in nli_words.json
EVERY = 3  # one condition in three is used: few enough for a small model to meet each of them many times


def load_demo(size: str = "demo", *, linker: Linker | None = None) -> dict[str, Split]:
    """Make the demo corpus; the same rows on every platform and Python version.

    Args:
      size: "demo" (3,000 / 600 / 600 pairs) or "demo_full" (MedNLI's 11,232 / 1,395 / 1,422).
      linker: `Linker(read_mesh())` where the caller has one already: making it takes longer than making the corpus.

    Returns: splits "train", "dev", "test"; pairs of one premise are kept together, in the order of LABELS.
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
    """Makes the splits in order: dev and test must know which pairs of concepts training has shown.

    A pair of concepts is one of the premise and one of the hypothesis, the smaller id first.
    """

    def __init__(self, linker: Linker):
        self.linker, self.relations = linker, Relations(linker, SEED)
        self.facts = Facts(self.relations)
        self.premises: set[str] = set()
        self.shown: set[tuple[str, str]] = set()  # all pairs so far
        self.decisive: set[tuple[str, str]] = set()  # those of a split that decide a relation group

    def split(self, name: str, rows: int, size: str) -> Split:
        draw, examples, earlier = Draw(SEED + 1 + list(SIZES[size]).index(name)), [], frozenset(self.shown)
        count = rows // len(LABELS)
        of_relations = round(RELATION_SHARE * count)
        self.decisive.clear()
        for number, is_relation in enumerate(draw.shuffled([True] * of_relations + [False] * (count - of_relations))):
            while not (group := self._group(draw, name, f"demo-{name}-{number:06d}", is_relation, earlier)):
                pass
            examples += group
        facts = {
            "note": NOTE,
            "size": size,
            "seed": SEED,
            "rows": len(examples),
            "ontology_sha256": self.linker.ontology.sha256,
            "labels": dict(Counter(example.label for example in examples)),
            "groups": {"relation": of_relations, "fact": count - of_relations},
            "relation_pairs": len(self.decisive),
        }
        return Split(name, tuple(examples), facts)

    def _group(self, draw: Draw, split: str, uid: str, is_relation: bool, earlier: frozenset) -> list[NLIExample]:
        """The examples of a premise, or [] where a draw broke a rule.

        Draws are repeated as a whole, so that no label is favoured. earlier: the pairs of the splits before this one.
        """
        labelled, decisive, tags = [], {}, ()
        if is_relation:
            statements = [self.relations.draw(draw, split, *which) for which in statement_plan(draw)]
            labelled, tags = [one for one in statements if one.label], (SEEN if split == "train" else UNSEEN,)
            decisive = {one.label: _pair(one.concept, one.middle) for one in labelled}
            collide = any(self.relations.collide(*two) for two in combinations(statements, 2))
            if collide or not earlier.isdisjoint(decisive.values()):
                return []
            texts, hypotheses = relation_texts(draw, statements)
            if len(" ".join(texts).split()) > MAX_STATEMENT_WORDS:
                return []
        else:
            text, hypotheses = self.facts.group(draw)
            texts = [text]
        premise = _premise(draw, texts)
        hypotheses = {label: _hypothesis_style(draw, hypotheses[label]) for label in LABELS}
        tokens = treebank_tokens(premise)
        distinct = {text.lower().rstrip(".") for text in hypotheses.values()}
        if len(distinct) < len(LABELS) or premise.lower() in self.premises or len(tokens) > MAX_TOKENS:
            return []
        stated, examples, shown = self.linker.link(tokens), [], set()
        for label, text in hypotheses.items():
            words = treebank_tokens(text)
            pairs = {_pair(one.concept, other.concept) for one in stated for other in self.linker.link(words)}
            if is_relation and {pair for pair in pairs if self.relations.related(*pair)} != {decisive[label]}:
                return []
            examples.append(NLIExample(f"{uid}{label[0]}", premise, text, label, tokens, words, uid, tags))
            shown |= pairs
        self.premises.add(premise.lower())
        self.shown |= shown
        self.decisive.update(decisive.values())
        self.relations.use(split, labelled)
        return examples


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def statement_plan(draw: Draw) -> list[tuple[str, str, str]]:
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


def relation_texts(draw: Draw, statements: list["Statement"]) -> tuple[list[str], dict[str, str]]:
    """The texts of the statements, and the hypothesis of each label."""
    texts, hypotheses = [], {}
    for one in statements:
        frames = table("nli_words")["statements"][one.kind][one.status]
        texts.append(fill(draw, draw.choice(frames), x=one.name))
        is_positive = (
            draw.chance(0.5) if one.label == "neutral" else (one.label == "entailment") == (one.status == "affirmed")
        )
        frames = table("nli_words")["relation_hypotheses"][one.kind]["+" if is_positive else "-"]
        if one.label:
            hypotheses[one.label] = fill(draw, draw.choice(frames), m=one.middle_name)
    return texts, hypotheses


def _premise(draw: Draw, statements: list[str]) -> str:
    """The statements behind an opener and among fillers; a few premises go on for long, as hospital courses do."""
    openers, fillers = table("nli_words")["openers"], table("nli_words")["fillers"]
    opener = fill(draw, _misspelt(draw, draw.choice(openers)))
    count = int(draw.chance(0.15 if len(statements) > 1 else 0.4))
    if draw.chance(LONG_TAIL):
        count = 5 + draw.below(draw.below(2 * len(fillers)) + 1)
    frames = [*draw.shuffled(fillers), *draw.shuffled(fillers)][:count]
    text, *parts = filter(None, [opener, *statements, *(fill(draw, _misspelt(draw, frame)) for frame in frames)])
    for part in parts:
        text += ("; " if draw.chance(0.2) else ", ") + part
    return styled(draw, text, 0.6, 0.7)


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
    subject = draw.choice(table("nli_words")["subjects"])
    if text.startswith("patient "):
        text = subject + text.removeprefix("patient")
    if draw.chance(TAIL):
        text += " " + draw.choice(table("nli_words")["tails"])
    return styled(draw, text, 0.5, 0.25)


@dataclass(frozen=True)
class Statement:
    """A statement of a relation group: of a concept that lies `steps` is-a steps below or above a middle concept M.

    label: of the hypothesis, which speaks of M; "" for none. status: "affirmed", "denied" or "other".
    """

    label: str
    status: str
    side: str
    steps: int
    kind: str
    middle: str
    middle_name: str
    concept: str
    name: str


class Relations:
    """The usable concepts of an ontology, and their pairs, which are divided among the splits.

    A premise affirms a concept below M, or denies one above M. Whatever a model could use in place of the path is held
    equal: M and the number of steps are drawn from one pool, before the label and independently of it.

    kinds: concept -> "disease" or "drug". names: concept -> up to three plain names, each of which `linker` links to
    exactly that concept.
    """

    def __init__(self, linker: Linker, seed: int):
        self.ontology, self.linker = linker.ontology, linker
        self.above = cache(self.ontology.ancestors)  # concept -> its ancestors and their distances
        self.kinds = self._kinds()
        self.names = self._names()
        self.pools = self._pools(Draw(seed))
        self._used, self._known = Counter(), set()

    def related(self, one: str, other: str) -> bool:
        """Whether one of the two is the other or above it."""
        return one == other or one in self.above(other) or other in self.above(one)

    def collide(self, one: Statement, other: Statement) -> bool:
        """Whether two statements of a premise touch: by a path or a word between either of them and the other's M."""
        pairs = ((one.concept, other.concept), (one.concept, other.middle), (one.middle, other.concept))
        names = ((one.name, other.middle_name), (one.middle_name, other.name))
        return any(share_word(*two) for two in names) or any(self.related(*two) for two in pairs)

    def draw(self, draw: Draw, split: str, label: str, status: str, side: str) -> Statement:
        """A statement whose concept lies on that side of M; M and steps do not depend on it.

        Rarely used concepts are preferred, so that a corpus shows many pairs. In dev and test, so are those that
        training showed in other pairs: what is new is the relation.
        """

        def is_strange(concept: str) -> bool:
            return split != "train" and concept not in self._known

        steps = 1 if draw.chance(ONE_STEP) else 2
        units = [draw.choice(self.pools[split, steps]) for _ in range(CANDIDATES)]
        middle, middle_name, sides = min(units, key=lambda x: (is_strange(x[0]), self._used[split, steps, side, x[0]]))
        others = [draw.choice(sides[side]) for _ in range(CANDIDATES)]
        concept, names = min(others, key=lambda x: (is_strange(x[0]), self._used[middle, x[0]]))
        found = self.kinds[middle], middle, middle_name, concept, draw.choice(names)
        return Statement(label, status, side, steps, *found)

    def use(self, split: str, statements: list[Statement]) -> None:
        """Count statements that went into the corpus."""
        for one in statements:
            pair = one.middle, one.concept
            self._used.update([(split, one.steps, one.side, one.middle), pair, pair[::-1]])
            self._known.update(pair if split == "train" else ())

    def _kinds(self) -> dict[str, str]:
        words = table("nli_words")
        diseases, excluded = tuple(words["disease_trees"]), tuple(words["excluded_trees"])
        kinds = {
            concept: "disease"
            for concept, types in zip(self.ontology.ids, self.ontology.types, strict=True)
            if any(tree.startswith(diseases) and not tree.startswith(excluded) for tree in types.split("|"))
        }
        for family in words["drug_families"]:
            for concept in (family, *self.ontology.descendants(family)):
                kinds.setdefault(concept, "drug")
        return kinds

    def _names(self) -> dict[str, list[str]]:
        """Names near the preferred one come first, then short ones; a plural counts where there is no singular."""
        plain, names = defaultdict(set), {}
        for name, position in self.ontology.names:
            if PLAIN_NAME.fullmatch(name) and not UNNATURAL.search(name.lower()):
                plain[self.ontology.ids[position]].add(name.lower())
        for concept in self.kinds:
            label = {word.strip(",") for word in self.ontology.labels[self.ontology.index(concept)].lower().split()}
            found = [name for name in plain[concept] if re.search("[^s]$|[aisu]s$", name)]
            order = sorted(found or plain[concept], key=lambda name: (-len(label & {*name.split()}), len(name), name))
            if linked := [name for name in order[:MAX_TRIED] if concept_named(self.linker, name) == concept]:
                names[concept] = linked[:MAX_NAMES]
        return names

    def _pools(self, draw: Draw) -> dict[tuple[str, int], list[tuple]]:
        """(split, steps) -> [(M, name of M, {side: [(concept, its names), ...]}), ...], no side empty.

        A pair of concepts goes to one split. M stands there once per name, with the names of other concepts that share
        no word with it: were names chosen after the partner, a name would tell on which side the partner lies.
        """
        sides = defaultdict(lambda: {"below": [], "above": []})
        for narrow in sorted(self.names):
            for wide, steps in sorted(self.above(narrow).items()):
                if steps > 2 or self.kinds[narrow] != self.kinds.get(wide) or wide not in self.names:
                    continue
                held_out = "dev" if draw.chance(HELD_OUT) else "test" if draw.chance(HELD_OUT / (1 - HELD_OUT)) else ""
                for middle, stated, side in ((wide, narrow, "below"), (narrow, wide, "above")):
                    for name in self.names[middle]:
                        partners = [other for other in self.names[stated] if not share_word(name, other)]
                        if partners:
                            sides[held_out or "train", steps, middle, name][side].append((stated, partners))
        pools = defaultdict(list)
        for (split, steps, middle, name), found in sides.items():
            if found["below"] and found["above"]:
                pools[split, steps].append((middle, name, found))
        return pools


class Facts:
    """Draws fact groups from the conditions of clinical_facts.json.

    Nearly every premise also says something undecided about a second condition (a relative has it, it is to be ruled
    out), and neutral hypotheses name that one: whether a hypothesis repeats a concept of its premise therefore does not
    tell the label.
    """

    def __init__(self, relations: Relations):
        chosen = table("clinical_facts")["conditions"][::EVERY]
        count = Counter(treatment for condition in chosen for treatment in set(condition["treatments"]))
        self.conditions = [
            condition | {"own": [treatment for treatment in condition["treatments"] if count[treatment] == 1]}
            for condition in chosen
        ]
        self.relations, self.words = relations, table("nli_words")
        kinds = [kind for kind in self.words["fact_kinds"] for _ in range(kind["weight"])]
        self.kinds = kinds + [None] * NUMBERS_WEIGHT

    def group(self, draw: Draw) -> tuple[str, dict[str, str]]:
        """The deciding part of a premise, and a hypothesis for each label."""
        kind = draw.choice(self.kinds)
        slots = self._slots(draw, kind["needs"] if kind else ())
        if kind is None:
            return self._numbers(draw, slots)
        statement = fill(draw, draw.choice(kind["premise"]), **slots)
        hypotheses = {}
        for label in LABELS:
            frames = self.words["habits"] if kind["habits"] and draw.chance(HABIT_RATE) else kind
            hypotheses[label] = fill(draw, draw.choice(frames[label]), **slots)
        return statement, hypotheses

    def _slots(self, draw: Draw, needs) -> dict[str, str]:
        """Texts of a condition (c, short, s, t, own, p, test), a second and a third one unlike it, and two causes."""
        while True:
            first, second, third = found = [draw.choice(self.conditions) for _ in range(3)]
            symptoms = [symptom for symptom in second["symptoms"] if symptom not in first["symptoms"]]
            fits = symptoms and all(first[field] for field in needs)
            if fits and all(self._apart(*two) for two in combinations(found, 2)):
                break
        risk, risk2 = draw.shuffled(self.words["slots"]["risk"])[:2]
        slots = {"c": first["name"], "c2": second["name"], "c3": third["name"], "risk": risk, "risk2": risk2}
        slots |= {"s": draw.choice(first["symptoms"]), "s2": draw.choice(symptoms)}
        fields = {"t": "treatments", "test": "tests", "p": "procedures", "short": "short", "own": "own"}
        slots |= {slot: draw.choice(first[field] or [""]) for slot, field in fields.items()}
        slots["recent"] = draw.choice(self.words["slots"]["recent"])
        unsure = draw.choice(self.words["statements"]["disease"]["other"])
        return slots | {"u": fill(draw, unsure, x=second["name"])}

    def _apart(self, one: dict, other: dict) -> bool:
        """Whether nothing said of one condition says something of the other."""
        return not (
            self.relations.related(one["mesh"], other["mesh"])
            or share_word(one["name"], other["name"])
            or set(one["treatments"]) & set(other["treatments"])
        )

    def _numbers(self, draw: Draw, slots: dict[str, str]) -> tuple[str, dict[str, str]]:
        """A measured value, high, low or normal, at times among normal ones; neutral speaks of a value not given."""
        measure, absent, *others = draw.shuffled(self.words["measures"])
        states = [*measure["says"]]
        state = "normal" if draw.chance(0.25) else draw.choice(states)
        given = [(measure, state)] + [(other, "normal") for other in others[: draw.below(3)]]
        values = [one["frame"].format(v=draw.choice(one["values"][at])) for one, at in draw.shuffled(given)]
        opposite = draw.choice([other for other in (*states, "normal") if other != state])
        missing = draw.choice([*absent["values"]])
        slots |= {"noun": measure["noun"], "group": measure["group"]}
        hypotheses = {}
        for label, (one, at) in zip(LABELS, ((measure, state), (absent, missing), (measure, opposite)), strict=True):
            frames = [f"{one['noun']} is {at}", f"patient has {at} {one['noun']}"]
            if at != "normal":
                frames += [f"patient {one['says'][at]}"] * 2
            if state != "normal" and draw.chance(HABIT_RATE):
                frames = self.words["number_habits"][label]
            hypotheses[label] = fill(draw, draw.choice(frames), **slots)
        return ", ".join([*values, slots["u"]] if draw.chance(0.5) else values), hypotheses
