"""The demo cloze corpus: case reports and gap-filling queries made from a table of clinical facts and MeSH.

It has CliCR's shape, so that every command runs without credentials. A report states facts that relate two marked
names, or a name and a circumstance, in a sentence or two each. Other sentences only list names, so that all are
mentioned about equally often. A query states one of the facts in other words. Its answer can only be found by reading:
other names of the same type occur near the same names, any name may be the answer in any split, and neither the number
nor the place of its mentions reveals it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mednli_jax.corpora.demo.words import Draw, concept_named, table
from mednli_jax.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage, Split
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.readers.mesh import read_mesh

FORMAT = 1  # of the queries; tests/corpora/test_prepared_content.py says when to raise it
NOTE = "demo corpus, synthetic: not comparable with CliCR"
SIZES = {"train": 350, "dev": 75, "test": 75}  # reports
QUERIES = 4  # of each report
SEED = 20180601
KEPT = 0.5  # share of the groups of facts that a report keeps
OTHER_NAME = 0.5  # share of names that are replaced by a synonym, if there is one
OTHER_ANSWER = 0.15  # share of answers whose words differ from the report's
NEW_FIRST = 0.08  # share of dev and test reports that first ask for names new to training
LEAD = 0.2  # share of facts whose sentence begins with an adverbial
MENTIONS, LOUD_MENTIONS, LOUD = 2, 4, 2  # least mentions of a name; of the loud ones; how many of a report's are loud
LEAST_CANDIDATES, LEAST_TOKENS, MOST_TOKENS = 12, 200, 600
OF_THE_YOUNG = "obstetrics and gynaecology"  # the branch whose patients are below the age of 45
BLANK = "blank"  # the slot of a query where the answer was


def load_demo_cloze(*, linker: Linker | None = None) -> dict[str, Split]:
    """Make the demo cloze corpus; the same queries on every platform and Python version.

    linker: `Linker(read_mesh())` where the caller has one already.
    Returns: splits "train", "dev", "test" of 1,400, 300 and 300 queries, report by report. Each has
    the tag "circumstance" or "name": what its fact relates the answer to.
    Raises: ValueError for a linker of another ontology, which would make another corpus.
    """
    linker = Linker(read_mesh()) if linker is None else linker
    if linker.ontology.name != "mesh":
        raise ValueError("the demo cloze corpus is made from the bundled MeSH alone")
    terms, splits, known = Terms(linker), {}, frozenset()
    for number, name in enumerate(SIZES):
        draw, examples = Draw(SEED + number), []
        for report in range(SIZES[name]):
            while not (queries := _report(terms, draw, f"demo-cloze-{name}-{report:04}", known)):
                pass
            examples += queries
        known = known or frozenset(example.answers[0].text.lower() for example in examples)  # the answers of training
        facts = {
            "note": NOTE,
            "seed": SEED + number,
            "rows": len(examples),
            "passages": SIZES[name],
            "ontology_sha256": linker.ontology.sha256,
            "semantic_types": dict(Counter(example.answers[0].semantic_type for example in examples)),
            "tags": dict(Counter(tag for example in examples for tag in example.tags)),
        }
        splits[name] = Split(name, tuple(examples), facts)
    return splits


@dataclass(frozen=True)
class Term:
    """A concept; kind: as in Answer.semantic_type; names: in lower case, that of the table of facts first.

    sex: "man" or "woman" if the concept only concerns one of them.
    """

    concept: str
    kind: str
    names: tuple[str, ...]
    sex: str


@dataclass(frozen=True)
class Name:
    """The name of a term in one report."""

    term: Term
    text: str


Fact = tuple[dict, dict[str, Name | str]]  # a relation of cloze_words.json, and names and circumstances in its slots


class Terms:
    """Conditions, symptoms, treatments and tests whose names are those of MeSH concepts.

    conditions: rows of clinical_facts.json with terms for texts. main: those with enough treatments to be what a report
    is about. complaints: all symptoms; common: those of at least three conditions. diseases: the conditions, and others
    of which no more is known. tests: specialty -> its tests.
    """

    def __init__(self, linker: Linker):
        self.linker, self.ontology, self.words = linker, linker.ontology, table("cloze_names")
        self._sex_of = {name: sex for sex, names in self.words["only_of"].items() for name in names}
        self._names_of = defaultdict(list)
        for name, index in self.ontology.names:
            self._names_of[self.ontology.ids[index]].append(name)
        first = {row["first_condition"]: specialty for specialty, row in self.words["specialties"].items()}
        specialty, self.conditions = "", []
        for row in table("clinical_facts")["conditions"]:
            specialty = first.get(row["name"], specialty)
            term, symptoms = self._term(row["name"], row["mesh"], "problem"), self._known(row["symptoms"], "problem")
            known = {"symptoms": symptoms, "treatments": self._known(row["treatments"], "treatment")}
            self.conditions.append({"term": term, "specialty": specialty, **known})
        self.main = [one for one in self.conditions if len(one["treatments"]) > 1]
        count = Counter(symptom for one in self.conditions for symptom in one["symptoms"])
        self.complaints, self.common = list(count), [symptom for symptom, times in count.items() if times > 2]
        further = self._known(self.words["further_diseases"], "problem")
        self.diseases = [*(one["term"] for one in self.conditions), *further]
        self.tests = {
            specialty: self._known([*row["tests"], *self.words["general_tests"]], "test")
            for specialty, row in self.words["specialties"].items()
        }

    def answers(self, name: str, term: Term) -> tuple[Answer, ...]:
        """The name as the dataset's answer, then the term's other names and those of MeSH, each once but for case."""
        texts = {name.lower(): name}
        for text in (*term.names, *self._names_of[term.concept]):
            texts.setdefault(text.lower(), text)
        origin = {name: "dataset"}
        return tuple(Answer(text, term.concept, term.kind, origin.get(text, "UMLS")) for text in texts.values())

    def _known(self, names: Iterable[str], kind: str) -> list[Term]:
        """The terms of those names that are, as a whole, the name of a concept."""
        return [self._term(name, concept, kind) for name in names if (concept := concept_named(self.linker, name))]

    def _term(self, name: str, concept: str, kind: str) -> Term:
        return Term(concept, kind, (name, *self.words["other_names"].get(name, ())), self._sex_of.get(name, ""))


class _Cast:
    """The names of one report: no two of one concept, none whose words are among those of another.

    sex: of the patient; terms of the other sex are left out.
    """

    def __init__(self, draw: Draw, sex: str):
        self.draw, self.sex, self.names, self.words = draw, sex, [], table("cloze_words")
        self._circumstances = {slot: draw.shuffled(values) for slot, values in self.words["circumstances"].items()}

    def add(self, terms: Iterable[Term], count: int) -> list[Name]:
        """Names for up to so many of the terms."""
        found = []
        for term in self.draw.shuffled(terms):
            if len(found) == count:
                break
            other = len(term.names) > 1 and self.draw.chance(OTHER_NAME)
            name = Name(term, self.draw.choice(term.names[1:]) if other else term.names[0])
            if term.sex in ("", self.sex) and not any(_clash(name, taken) for taken in self.names):
                self.names.append(name)
                found.append(name)
        return found

    def fact(self, relation: str, circumstance: str = "", **names: Name) -> Fact:
        """The fact, with a circumstance of that sort that the report has not stated yet."""
        new = {circumstance: self._circumstances[circumstance].pop()} if circumstance else {}
        return self.words["relations"][relation], names | new


def _clash(one: Name, other: Name) -> bool:
    words, others = set(one.text.split()), set(other.text.split())
    return one.term.concept == other.term.concept or words <= others or others <= words


def _story(terms: Terms, draw: Draw):
    """The content of a report, or None if a draw left too few names: (words, problems, sections).

    Two problems have each a test, which also rules out another problem; a treatment that failed and one that helped a
    symptom but had to be stopped; and relatives, travels and colleagues come with names of their own.

    words: slot -> text about the patient. sections: the facts of history, work-up and therapy in groups; those of
    a group are about the same name and are stated together.
    """
    main = draw.choice(terms.main), draw.choice(terms.main)
    sexes = {one["term"].sex for one in main} - {""}
    if len(sexes) > 1:
        return None
    sex = sexes.pop() if sexes else draw.choice(("man", "woman"))
    specialties = [one["specialty"] for one in main]
    age = 19 + draw.below(26 if OF_THE_YOUNG in specialties else 70)
    near = [one["term"] for one in terms.conditions if one["specialty"] == specialties[0]]
    cast = _Cast(draw, sex)
    problems = [name for one in main for name in cast.add([one["term"]], 1)]
    tests = [cast.add(terms.tests[specialty], count) for specialty, count in zip(specialties, (2, 1), strict=True)]
    excluded = cast.add(near, 1) + cast.add(terms.diseases, 1)
    others = cast.add((term for term in terms.diseases if not term.sex), 5)  # relatives are of either sex
    drugs = [cast.add(one["treatments"], 3) for one in main]
    signs = [cast.add(one["symptoms"] or terms.common, 2) for one in main]
    complaints = cast.add(terms.complaints, 2)
    pairs = (problems, excluded, complaints, tests[0], *drugs)
    if min(map(len, pairs)) < 2 or len(others) < 5 or not all((tests[1], *signs)):
        return None
    fact = cast.fact
    history = [*([fact("relative", "kin", p=p)] for p in others[:-1]), [fact("travel", "place", p=others[-1])]]
    work_up, therapy = [], []
    for p, x, complaint, test, sign, drug in zip(problems, excluded, complaints, tests, signs, drugs, strict=True):
        history.append([fact("began", "act", s=sign[0])])
        work_up += [[fact("request", "who", e=e)] for e in test[1:]]
        work_up.append([fact("shown", e=test[0], p=p), fact("excluded", e=test[0], p=x)])
        work_up.append([fact("caused", p=p, s=sign[-1])])
        failed, given = drug[:2]
        therapy.append([fact("failed", t=failed, p=p), fact("given", t=given, p=p)])
        therapy.append([fact("stopped", t=given, s=complaint), fact("relieved", t=given, s=sign[0])])
        therapy.append([fact("advice", "who", t=drug[-1])])
        therapy += [[fact("switched", t=failed, u=u)] for u in drug[2:]]
    words = cast.words["pronouns"][sex] | {"sex": sex, "specialty": specialties[0]}
    words |= {"age": str(age), "a": "an" if age // 10 == 8 else "a"}
    return words, problems, (history, work_up, therapy)


def _report(terms: Terms, draw: Draw, uid: str, known: frozenset[str]) -> list[ClozeExample]:
    """The queries of one report, or [] if a draw broke a rule; the caller then draws a whole new report."""
    plan = _story(terms, draw)
    if plan is None:
        return []
    words, problems, sections = plan
    sections = [[fact for group in groups if draw.chance(KEPT) for fact in group] for groups in sections]
    facts = [fact for section in sections for fact in section]
    stated = Counter(name for _, slots in facts for name in slots.values() if isinstance(name, Name))
    if len(stated) < LEAST_CANDIDATES or not stated.keys() >= set(problems):
        return []
    frames, text, title = table("cloze_words"), _Text(words), _Text(words)
    listed = list(_lists(draw, stated))
    text.add(draw.choice(frames["openings"]))
    for frame, slots in _course(draw, sections, listed):
        text.add(frame, slots)
    text.add(draw.choice(frames["endings"]))
    title.add(draw.choice(frames["titles"]), dict(zip("pq", problems, strict=True)))
    body = tuple(text.tokens), tuple(text.entities), tuple(text.sentences)
    passage = Passage(uid, tuple(title.tokens), *body, words["specialty"], tuple(title.entities))
    queried = _queried(draw, facts, known)
    if len(queried) < QUERIES or not LEAST_TOKENS <= len(passage.tokens) <= MOST_TOKENS:
        return []
    return [_query(terms, draw, passage, f"{uid}.{n}", *which) for n, which in enumerate(queried, start=1)]


def _lists(draw: Draw, stated: Counter) -> Iterator[tuple[str, dict[str, Name]]]:
    """Sentences that only list names, as (frame, slots of three names), until every name has its number of mentions.

    A few names are mentioned more often than the others. They are drawn independently of the queries.
    """
    loud = set(draw.shuffled(stated)[:LOUD])
    for kind, frames in table("cloze_words")["lists"].items():
        names = [name for name in stated if name.term.kind == kind]
        left = +Counter({name: (LOUD_MENTIONS if name in loud else MENTIONS) - stated[name] for name in names})
        while left and len(names) > 2:
            chosen = sorted(draw.shuffled(names), key=lambda name: -left[name])[:3]
            left -= Counter(chosen)
            yield draw.choice(frames), dict(zip(("one", "two", "three"), draw.shuffled(chosen), strict=True))


def _course(draw: Draw, sections: list[list[Fact]], listed) -> Iterator[tuple[str, dict]]:
    """(frame, slots) of all sentences between the first and the last: section by section, each in any order."""
    frames, parts = table("cloze_words"), [[] for _ in sections]
    fillers = draw.shuffled(frames["fillers"])
    for sentence in listed:
        draw.choice(parts).append(sentence)
    for part, facts in zip(parts, sections, strict=True):
        for relation, slots in facts:
            lead = draw.choice(frames["leads"]) if draw.chance(LEAD) else ""
            part.append((lead + draw.choice(relation["passage"]), slots))
        part.append((fillers.pop(), {}))
        yield from draw.shuffled(part)


def _queried(draw: Draw, facts: list[Fact], known: frozenset[str]) -> list[tuple[Fact, str]]:
    """(fact, slot of the answer) of a report's queries: every name is equally likely, and none is asked twice.

    known: answers of training; some reports of dev and test ask for other names first.
    """
    ways = defaultdict(list)
    for fact in facts:
        relation, slots = fact
        for slot in relation["queries"]:
            ways[slots[slot]].append((fact, slot))
    queried, names = [], draw.shuffled(ways)
    if known and draw.chance(NEW_FIRST):
        names.sort(key=lambda name: name.text in known)
    for name in names:
        free = [way for way in ways[name] if all(way[0] is not fact for fact, _ in queried)]
        if free and len(queried) < QUERIES:
            queried.append(draw.choice(free))
    return queried


def _query(terms: Terms, draw: Draw, passage: Passage, uid: str, fact: Fact, slot: str) -> ClozeExample:
    """The query for the name in that slot of the fact."""
    relation, slots = fact
    name = slots[slot]
    if len(name.term.names) > 1 and draw.chance(OTHER_ANSWER):
        name = Name(name.term, draw.choice([text for text in name.term.names if text != name.text]))
    text = _Text({})
    text.add(draw.choice(relation["queries"][slot]), slots | {BLANK: name})
    answers = terms.answers(with_capitals(name.text), name.term)
    tokens, entities = tuple(text.tokens), tuple(text.entities)
    tags = ("name" if entities else "circumstance",)
    return ClozeExample(uid, passage, tokens, entities, tokens.index(PLACEHOLDER), answers, tags)


class _Text:
    """Tokens in the making, with their entities and the ends of their sentences.

    words: slot -> its text, for slots of the patient (age, pronouns).
    """

    def __init__(self, words: dict[str, str]):
        self.words, self.tokens, self.entities, self.sentences = words, [], [], []

    def add(self, frame: str, slots: dict[str, Name | str] | None = None) -> None:
        """Append a frame. The slot BLANK, which holds the answer, leaves its article and a placeholder."""
        slots, articles = self.words | (slots or {}), table("cloze_names")["articles"]
        for token in frame.split():
            slot = token.strip("{}") if token[0] == "{" else ""
            value = slots[slot] if slot else token
            if isinstance(value, str):
                self._add(value)
                continue
            self._add(next((article for article, names in articles.items() if value.text in names), ""))
            start = len(self.tokens)
            self._add(PLACEHOLDER if slot == BLANK else with_capitals(value.text))
            if slot != BLANK:
                self.entities.append(Entity(start, len(self.tokens)))

    def _add(self, words: str) -> None:
        for word in words.split():
            begins = len(self.tokens) == (self.sentences[-1] if self.sentences else 0)
            self.tokens.append(word[0].upper() + word[1:] if begins else word)
            if word == ".":
                self.sentences.append(len(self.tokens))


def with_capitals(name: str) -> str:
    """A lower-case name with the capitals of proper names and abbreviations."""
    return " ".join(table("cloze_names")["capitals"].get(word, word) for word in name.split())
