"""The demo cloze corpus: case reports and gap-filling queries made from a table of clinical facts and MeSH.

It has CliCR's shape, so that every command runs without credentials. A report tells facts that relate two marked names,
or a name and a circumstance, a sentence or two a fact; other sentences only list names, so that all are mentioned about
equally often. A query tells one of the facts again in other words. Its answer is found by reading: other names of the
same kind stand around the same names, any name may be asked for in any split, and how often or where it is mentioned
says nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mednli_jax.corpora.demo import cloze_names as naming
from mednli_jax.corpora.demo import cloze_templates as wording
from mednli_jax.corpora.demo.cloze_facts import Fact, Name, Story, Terms, lists, names_of, story
from mednli_jax.corpora.demo.cloze_templates import BLANK
from mednli_jax.corpora.demo.nli_relations import Draw
from mednli_jax.examples import PLACEHOLDER, ClozeExample, Entity, Passage, Split
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.readers.mesh import read_mesh

FORMAT = 1  # of the queries; tests/corpora/test_prepared_content.py says when to raise it
NOTE = "demo corpus, synthetic: not comparable with CliCR"
SIZES = {"train": 350, "dev": 75, "test": 75}  # reports
QUERIES = 4  # of each report
SEED = 20180601
KEPT = 0.5  # of the groups of facts that a story has
OTHER_ANSWER = 0.15  # how often the answer's own words are not those of the report
NEW_FIRST = 0.08  # so many reports of dev and test ask for names that training does not ask for, where they can
LEAD = 0.2  # how often a fact's sentence has an adverbial in front
LEAST_CANDIDATES, LEAST_TOKENS, MOST_TOKENS = 12, 200, 600


def load_demo_cloze(*, linker: Linker | None = None) -> dict[str, Split]:
    """Make the demo cloze corpus; the same queries on every platform and Python version.

    linker: `Linker(read_mesh())` where the caller has one already.
    Returns: splits "train", "dev", "test" of 1,400, 300 and 300 queries; those of one report stand together. Each has
    the tag "circumstance" or "name": what its fact relates the answer to.
    Raises: ValueError for a linker of another ontology, which would make another corpus.
    """
    linker = Linker(read_mesh()) if linker is None else linker
    if linker.ontology.name != "mesh":
        raise ValueError("the demo cloze corpus is made from the bundled MeSH alone")
    terms, splits, asked = Terms(linker), {}, frozenset()
    for number, name in enumerate(SIZES):
        splits[name] = _split(terms, name, SEED + number, asked)
        if name == "train":
            asked = frozenset(example.answers[0].text.lower() for example in splits[name].examples)
    return splits


def _split(terms: Terms, name: str, seed: int, asked: frozenset[str]) -> Split:
    """asked: the answers of training, once it is made."""
    draw, examples = Draw(seed), []
    for number in range(SIZES[name]):
        while (report := _report(terms, draw, f"demo-cloze-{name}-{number:04}", asked)) is None:
            pass
        examples += report
    facts = {
        "note": NOTE,
        "seed": seed,
        "rows": len(examples),
        "passages": SIZES[name],
        "ontology_sha256": terms.ontology.sha256,
        "semantic_types": dict(Counter(example.answers[0].semantic_type for example in examples)),
        "tags": dict(Counter(tag for example in examples for tag in example.tags)),
    }
    return Split(name, tuple(examples), facts)


def _report(terms: Terms, draw: Draw, uid: str, known: frozenset[str]) -> list[ClozeExample] | None:
    """The queries of one report, or None where a draw broke a rule: draws are repeated as a whole."""
    plan = story(terms, draw)
    if plan is None:
        return None
    sections = [[fact for group in groups if draw.chance(KEPT) for fact in group] for groups in plan.sections]
    stated = [fact for facts in sections for fact in facts]
    names = set(names_of(stated))
    if len(names) < LEAST_CANDIDATES or not names.issuperset(plan.problems):
        return None
    passage = _passage(draw, uid, plan, sections, lists(draw, stated))
    asked = _asked(draw, stated, known)
    if len(asked) < QUERIES or not LEAST_TOKENS <= len(passage.tokens) <= MOST_TOKENS:
        return None
    return [_query(terms, draw, passage, f"{uid}.{n}", *which) for n, which in enumerate(asked, start=1)]


@dataclass
class _Text:
    """Tokens in the making, with their entities and the ends of their sentences.

    words: slots that are no names (age, pronouns) and what they say.
    """

    words: dict[str, str]
    tokens: list[str] = field(default_factory=list)
    entities: list[Entity] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)

    def add(self, frame: str, slots: dict[str, Name | str]) -> None:
        """Append a frame. The slot BLANK, which holds the answer, leaves its article and a placeholder."""
        for token in frame.split():
            slot = token.strip("{}") if token[0] == "{" else ""
            value = slots[slot] if slot in slots else self.words[slot] if slot else token
            if isinstance(value, Name):
                self._add_name(value, blank=slot == BLANK)
            else:
                self._add_words(value)
            if token == ".":
                self.sentences.append(len(self.tokens))

    def _add_name(self, name: Name, blank: bool) -> None:
        self._add_words(naming.article(name.text))
        if blank:
            self.tokens.append(PLACEHOLDER)
            return
        start = len(self.tokens)
        self._add_words(naming.with_capitals(name.text))
        self.entities.append(Entity(start, len(self.tokens)))

    def _add_words(self, text: str) -> None:
        for word in text.split():
            begins = len(self.tokens) == (self.sentences[-1] if self.sentences else 0)
            self.tokens.append(word[0].upper() + word[1:] if begins else word)


def _passage(draw: Draw, uid: str, plan: Story, sections: Sequence[Sequence[Fact]], listed) -> Passage:
    """The report; `listed` are the sentences that only list."""
    he, his, him = wording.SEXES[plan.sex]
    words = {"sex": plan.sex, "he": he, "his": his, "him": him, "specialty": plan.specialty}
    words |= {"age": str(plan.age), "a": "an" if plan.age // 10 == 8 else "a"}
    text = _Text(words)
    text.add(draw.choice(wording.OPENINGS), {})
    for frame, slots in _course(draw, sections, listed):
        text.add(frame, slots)
    text.add(draw.choice(wording.ENDINGS), {})
    title = _Text(words)
    title.add(draw.choice(wording.TITLES), dict(zip("pq", plan.problems, strict=True)))
    return Passage(
        uid,
        tuple(title.tokens),
        tuple(text.tokens),
        tuple(text.entities),
        tuple(text.sentences),
        plan.specialty,
        tuple(title.entities),
    )


def _course(draw: Draw, sections: Sequence[Sequence[Fact]], listed) -> Iterator[tuple[str, dict]]:
    """(frame, slots) of all sentences between the first and the last: section by section, each in any order."""
    fillers, parts = draw.shuffled(wording.FILLERS), [[] for _ in sections]
    for frame, names in listed:
        draw.choice(parts).append((frame, dict(zip(("one", "two", "three"), names, strict=True))))
    for part, facts in zip(parts, sections, strict=True):
        for fact in facts:
            lead = draw.choice(wording.LEADS) if draw.chance(LEAD) else ""
            part.append((lead + draw.choice(fact.relation.passage), fact.slots))
        part.append((fillers.pop(), {}))
        yield from draw.shuffled(part)


def _asked(draw: Draw, facts: Sequence[Fact], known: frozenset[str]) -> list[tuple[Fact, str]]:
    """(fact, slot of the answer) of a report's queries: every name is as likely as any other, none is asked twice.

    known: answers of training; some reports of dev and test ask for other names first.
    """
    ways: dict[Name, list[tuple[Fact, str]]] = {}
    for fact in facts:
        for slot in fact.relation.queries:
            ways.setdefault(fact.slots[slot], []).append((fact, slot))
    asked, names = [], draw.shuffled(ways)
    if known and draw.chance(NEW_FIRST):
        names.sort(key=lambda name: name.text in known)
    for name in names:
        free = [way for way in ways[name] if all(way[0] is not fact for fact, _ in asked)]
        if free and len(asked) < QUERIES:
            asked.append(draw.choice(free))
    return asked


def _query(terms: Terms, draw: Draw, passage: Passage, uid: str, fact: Fact, slot: str) -> ClozeExample:
    """What asks for the name in that slot of the fact."""
    name = fact.slots[slot]
    if len(name.term.names) > 1 and draw.chance(OTHER_ANSWER):
        name = Name(name.term, draw.choice([text for text in name.term.names if text != name.text]))
    text = _Text({})
    text.add(draw.choice(fact.relation.queries[slot]), {**fact.slots, BLANK: name})
    return ClozeExample(
        uid,
        passage,
        tuple(text.tokens),
        tuple(text.entities),
        text.tokens.index(PLACEHOLDER),
        terms.answers(naming.with_capitals(name.text), name.term),
        ("name" if text.entities else "circumstance",),
    )
