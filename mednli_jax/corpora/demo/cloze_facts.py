"""What a report of the demo cloze corpus tells: names that MeSH knows, and facts that relate them.

The conditions, their symptoms and treatments come from clinical_facts.json; who has which condition, what a test rules
out and what a drug had to be stopped for are drawn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mednli_jax.corpora.demo import cloze_names as naming
from mednli_jax.corpora.demo import cloze_templates as wording
from mednli_jax.corpora.demo.cloze_templates import Relation
from mednli_jax.corpora.demo.nli_facts import conditions
from mednli_jax.corpora.demo.nli_relations import Draw
from mednli_jax.examples import Answer
from mednli_jax.knowledge.linking import Linker

OTHER_NAME = 0.5  # how often a report uses another name than that of the table of facts, where there is one
MENTIONS, LOUD_MENTIONS, LOUD = 2, 4, 2  # least mentions of a name; of the loud ones; how many of a report's are loud


@dataclass(frozen=True)
class Term:
    """A concept as reports name it: `names` in lower case, the table's own first; kind as in Answer.semantic_type.

    sex: "man" or "woman" where nobody else can have to do with it.
    """

    concept: str
    kind: str
    names: tuple[str, ...]
    sex: str = ""


@dataclass(frozen=True)
class Name:
    """What one report calls a term."""

    term: Term
    text: str


@dataclass(frozen=True)
class Fact:
    """A relation whose slots are filled with names and circumstances."""

    relation: Relation
    slots: dict[str, Name | str]


@dataclass(frozen=True)
class Condition:
    """A row of the table of facts, as far as MeSH knows its names."""

    term: Term
    specialty: str
    symptoms: tuple[Term, ...]
    treatments: tuple[Term, ...]


@dataclass(frozen=True)
class Story:
    """What one report tells: whom of, the main problems, and the facts of history, work-up and therapy.

    sections: of each its groups of facts; those of a group are about the same name and are stated together.
    """

    sex: str
    age: int
    specialty: str
    problems: tuple[Name, ...]
    sections: tuple[tuple[tuple[Fact, ...], ...], ...]


class Terms:
    """Conditions, symptoms, treatments and tests whose names are those of MeSH concepts.

    conditions: all. main: those with enough treatments to be what a report is about. complaints: all symptoms; common:
    those of at least three conditions. diseases: the conditions, and others of which no more is known.
    tests: specialty -> its tests.
    """

    def __init__(self, linker: Linker):
        self.linker, self.ontology = linker, linker.ontology
        self._of_concept: dict[str, list[str]] = {}
        for name, index in self.ontology.names:
            self._of_concept.setdefault(self.ontology.ids[index], []).append(name)
        rows = conditions()
        first = {condition: specialty for specialty, condition, _ in naming.SPECIALTIES}
        specialty, self.conditions = "", []
        for row in rows:
            specialty = first.get(row["name"], specialty)
            self.conditions.append(
                Condition(
                    self._term(row["name"], row["mesh"], "problem"),
                    specialty,
                    self._known(row["symptoms"], "problem"),
                    self._known(row["treatments"], "treatment"),
                )
            )
        self.main = [one for one in self.conditions if len(one.treatments) > 1]
        count = Counter(symptom for one in self.conditions for symptom in one.symptoms)
        self.complaints, self.common = list(count), [symptom for symptom, times in count.items() if times > 2]
        self.diseases = [*(one.term for one in self.conditions), *self._known(naming.FURTHER, "problem")]
        self.tests = {
            specialty: self._known((*own, *naming.GENERAL_TESTS), "test") for specialty, _, own in naming.SPECIALTIES
        }

    def answers(self, name: str, term: Term) -> tuple[Answer, ...]:
        """The name as the dataset's answer, then the term's other names and those of MeSH, each once but for case."""
        texts = {name.lower(): name}
        for text in (*term.names, *self._of_concept[term.concept]):
            texts.setdefault(text.lower(), text)
        _, *others = texts.values()
        return (
            Answer(name, term.concept, term.kind, "dataset"),
            *(Answer(text, term.concept, term.kind, "UMLS") for text in others),
        )

    def _known(self, names: Iterable[str], kind: str) -> tuple[Term, ...]:
        """The terms of those names that are, as a whole, the name of a concept."""
        found = ((name, self._concept(name)) for name in names)
        return tuple(self._term(name, concept, kind) for name, concept in found if concept)

    def _concept(self, name: str) -> str:
        tokens = name.split()
        mentions = self.linker.link(tokens)
        whole = len(mentions) == 1 and (mentions[0].start, mentions[0].end) == (0, len(tokens))
        return mentions[0].concept if whole else ""

    def _term(self, name: str, concept: str, kind: str) -> Term:
        others = (other for other in naming.OTHER_NAMES.get(name, ()) if self._concept(other) == concept)
        return Term(concept, kind, (name, *others), naming.SEX_OF.get(name, ""))


class _Cast:
    """The names of one report: no two of one concept, none whose words are among those of another.

    sex: of the patient; names that are not for it are passed over.
    """

    def __init__(self, draw: Draw, sex: str):
        self.draw, self.sex, self.names = draw, sex, []
        self._circumstances = {slot: draw.shuffled(values) for slot, values in wording.CIRCUMSTANCES.items()}

    def add(self, terms: Iterable[Term], count: int) -> list[Name]:
        """Names for up to so many of the terms."""
        found = []
        for term in self.draw.shuffled(terms):
            if len(found) == count:
                break
            other = len(term.names) > 1 and self.draw.chance(OTHER_NAME)
            name = Name(term, self.draw.choice(term.names[1:]) if other else term.names[0])
            fits = term.sex in ("", self.sex)
            if fits and not any(_clash(name, taken) for taken in self.names):
                self.names.append(name)
                found.append(name)
        return found

    def new(self, slot: str) -> str:
        """A circumstance that the report has not stated yet."""
        return self._circumstances[slot].pop()


def _clash(one: Name, other: Name) -> bool:
    words, others = set(one.text.split()), set(other.text.split())
    return one.term.concept == other.term.concept or words <= others or others <= words


def story(terms: Terms, draw: Draw) -> Story | None:
    """What a report tells, or None where a draw left too few names.

    Two problems have each a test, which also rules out another problem; a treatment that failed and one that helped a
    symptom but had to be stopped; and relatives, travels and colleagues come with names of their own.
    """
    main = draw.choice(terms.main), draw.choice(terms.main)
    sexes = {one.term.sex for one in main} - {""}
    if len(sexes) > 1:
        return None
    sex = sexes.pop() if sexes else draw.choice(("man", "woman"))
    age = 19 + draw.below(26 if any(one.specialty == naming.OF_THE_YOUNG for one in main) else 70)
    near = [one.term for one in terms.conditions if one.specialty == main[0].specialty]
    cast = _Cast(draw, sex)
    problems = [name for one in main for name in cast.add([one.term], 1)]
    tests = [cast.add(terms.tests[one.specialty], count) for one, count in zip(main, (2, 1), strict=True)]
    excluded = cast.add(near, 1) + cast.add(terms.diseases, 1)
    others = cast.add((term for term in terms.diseases if not term.sex), 5)  # relatives are of either sex
    drugs = [cast.add(one.treatments, 3) for one in main]
    signs = [cast.add(one.symptoms or terms.common, 2) for one in main]
    complaints = cast.add(terms.complaints, 2)
    pairs = (problems, excluded, complaints, tests[0], *drugs)
    if min(map(len, pairs)) < 2 or len(others) < 5 or not all((tests[1], *signs)):
        return None
    history = [(Fact(wording.RELATIVE, {"p": name, "kin": cast.new("kin")}),) for name in others[:-1]]
    history.append((Fact(wording.TRAVEL, {"p": others[-1], "place": cast.new("place")}),))
    work_up, therapy = [], []
    for one in range(2):
        history.append((Fact(wording.BEGAN, {"s": signs[one][0], "act": cast.new("act")}),))
        shown, *requested = tests[one]
        work_up += [
            *((Fact(wording.REQUEST, {"e": name, "who": cast.new("who")}),) for name in requested),
            (
                Fact(wording.SHOWN, {"e": shown, "p": problems[one]}),
                Fact(wording.EXCLUDED, {"e": shown, "p": excluded[one]}),
            ),
            (Fact(wording.CAUSED, {"p": problems[one], "s": signs[one][-1]}),),
        ]
        failed, given, *third = drugs[one]
        therapy += [
            (
                Fact(wording.FAILED, {"t": failed, "p": problems[one]}),
                Fact(wording.GIVEN, {"t": given, "p": problems[one]}),
            ),
            (
                Fact(wording.STOPPED, {"t": given, "s": complaints[one]}),
                Fact(wording.RELIEVED, {"t": given, "s": signs[one][0]}),
            ),
            (Fact(wording.ADVICE, {"t": drugs[one][-1], "who": cast.new("who")}),),
            *((Fact(wording.SWITCHED, {"t": failed, "u": name}),) for name in third),
        ]
    return Story(sex, age, main[0].specialty, tuple(problems), (tuple(history), tuple(work_up), tuple(therapy)))


def names_of(facts: Iterable[Fact]) -> Iterator[Name]:
    """The names in the facts' slots, as often as they stand there."""
    return (value for fact in facts for value in fact.slots.values() if isinstance(value, Name))


def lists(draw: Draw, facts: Sequence[Fact]) -> list[tuple[str, list[Name]]]:
    """Sentences that only list, as (frame, three names): they bring every name to its due number of mentions.

    A few names, drawn without regard to what will be asked, are due more often than the others.
    """
    stated = Counter(names_of(facts))
    loud = set(draw.shuffled(stated)[:LOUD])
    found = []
    for kind, frames in wording.LISTS.items():
        names = [name for name in stated if name.term.kind == kind]
        left = Counter({name: (LOUD_MENTIONS if name in loud else MENTIONS) - stated[name] for name in names})
        left = +left
        while left and len(names) > 2:
            chosen = sorted(draw.shuffled(names), key=lambda name: -left[name])[:3]
            left -= Counter(chosen)
            found.append((draw.choice(frames), draw.shuffled(chosen)))
    return found
