"""Names of a terminology in place of the names in a clinical text, by NegEx (nli.negex)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from scipy.sparse import csr_array

from mednli_jax.data.examples import NLIExample
from mednli_jax.knowledge.linking import Linker, read_abbreviations
from mednli_jax.knowledge.ontology import DISJOINT
from mednli_jax.knowledge.words import FUNCTION_WORDS, singular
from mednli_jax.nli.changes import Change, Sentence
from mednli_jax.nli.encoding import Tokens
from mednli_jax.nli.negex import AFFIRMED, NEGATED, assertion_of, assertions

# Words that exclude each other, of the same thing at the same time (docs/results-typed.md has the
# sources): laterality, course, behaviour, grade, onset, antonyms, stage. Both sides of a row may
# replace each other; of several rows with the same phrase the last one counts, here and below.
EXCLUDING = """
    left = right | unilateral = bilateral | acute = chronic | benign = malignant | mild = severe |
    congenital = acquired | stable = unstable | normal = abnormal | elevated = decreased |
    increased = decreased | hypertension = hypotension | hyperglycemia = hypoglycemia |
    hyperkalemia = hypokalemia | hypernatremia = hyponatremia | tachycardia = bradycardia |
    hyperthyroidism = hypothyroidism | i = ii | iii = iv | 1 = 2 | 3 = 4
"""
# Words before a finding that affirm it = words that deny it.
PRESENCE = """
    have = have no | had = had no | w/ = w/o | known = no known |
    patient with = patient without | man with = man without | woman with = woman without |
    male with = male without | female with = female without | lady with = lady without |
    gentleman with = gentleman without | admitted with = admitted without |
    presents with = denies | presented with = denied | reported = denied |
    shows = shows no | showed = showed no | revealed = revealed no |
    developed = never developed | diagnosed with = never diagnosed with |
    positive for = negative for | there is = there is no | there was = there was no |
    evidence of = no evidence of | signs of = no signs of | a diagnosis of = no diagnosis of |
    problem list includes = problem list does not include | course c/b = course not c/b |
    complicated by = not complicated by | found to have = found not to have |
    takes = does not take | receives = does not receive | suffers from = does not suffer from |
    has = never had | has = has no | reports = denies any | reports = denies
"""
# A name that may stand in a text: no code, inverted form, bracket or acronym.
_NAME = re.compile(r"[A-Z]?[a-z]{2,}( [A-Z]?[a-z]+| \d){0,4}")
_NO_NAME = re.compile(
    r"\b(nos|nec|unspecified|other|and|or|attributes?|no|not|without|absence|history|suspected|"
    r"findings?|observations?|structures?|entire|symptoms?|due|disorders? of)\b",
    re.IGNORECASE,
)
_ADJECTIVE = re.compile(r"\w+(ic|ed|ese|ile|ive|ous)")  # also names of findings: "anemic"
# Beginnings of semantic types of MeSH, the UMLS and SNOMED CT (docs/results-typed.md has the
# reasons). Parts of the body, functions and the like have synonyms alone; drugs and procedures have
# other relations only after a word of _GIVEN. A partner is of the same class.
_PARTS = """
    A C23.888.144 D E F01 F02 G T017 T018 T021 T022 T023 T024 T025 T026 T029 T030 T031 T201
    body cell observable situation
"""
_ACTS = """
    T058 T059 T060 T061 T062 T063 T065 T103 T104 T109 T11 T12 T13 T192 T195 T196 T197 T200
    procedure regime substance product medicinal clinical real
"""
CLASSES = {
    "part": tuple(_PARTS.split()),
    "act": tuple(_ACTS.split()),
    "sign": ("C23.888", "T033", "T184", "finding"),
}
_GIVEN = re.compile(r"\b(on|takes|taking|receives|received|given|underwent)$")
# The text before a name that states it of somebody.
_BEFORE_NAME = re.compile(
    r"(^|\s)(|[,;]|has|had|have|having|with|w/|known|prior|new|developed|reports|reported|presents"
    r"|shows|showed|revealed|includes|(maintained|started|is|was|[,;]) on|takes|taking|receives"
    r"|received|given|underwent|is|was"
    r"|(never|not) had|no|not|without|w/o|deny|denies|denied|denying|addition to|c/b|complicated by"
    r"|(diagnosis|evidence|signs?|history|absence|free|suffers) (of|from)|h/o|negative for"
    r"|(here|treated|hospitalized|admitted|followed|positive) for)( (a|an|any))?$"
)
# Words after a name that is a whole phrase, beside those of grammar.
_AFTER_NAME = ". , ; : ) w/ w/o c/b since diagnosed treated began daily"
_AFTER_SUBJECT = "is are was were has ,"  # "Asthma is common" is a general statement
_BEFORE_ADJECTIVE = """
    , ; a an the his her this w/ had has have known shows showed revealed developed
"""
# After one of several numbers of a stage, and after "right" that is no side.
_ALTERNATIVES = "or and to / - – , time way place person patient treatment"
AFTER_NAME = FUNCTION_WORDS.union(_AFTER_NAME.split())
AFTER_FIRST_NAME = AFTER_NAME.difference(_AFTER_SUBJECT.split())  # of a name that opens a text
BEFORE_ADJECTIVE = frozenset(_BEFORE_ADJECTIVE.split())
ALTERNATIVES = frozenset(_ALTERNATIVES.split())
# The text says what one thing is: "the lesion is a [name]".
_IDENTIFIED = re.compile(r"(?<!there) (is|are|was|were)( (a|an|the))?$")
_MOST = 4  # names of a concept, and concepts of a relation
_LONGEST = 5  # words of a phrase of PRESENCE
_SCOPE_OF = {AFFIRMED: "plain", NEGATED: "negated"}


def _both_ways(table: str) -> dict[str, str]:
    """Phrase -> what excludes it, for both sides of each row."""
    opposite_of: dict[str, str] = {}
    for row in table.split("|"):
        first, second = map(str.strip, row.split("="))
        opposite_of |= {first: second, second: first}
    return opposite_of


_EXCLUDED, _OPPOSITE = _both_ways(EXCLUDING), _both_ways(PRESENCE)


class _Mention(NamedTuple):
    """Tokens `first` to `last` (exclusive), which name a concept."""

    first: int
    last: int
    concept: int


class MentionChanges:
    """A Changer (nli.changes) by the concepts of training pairs.

    Relations beyond is-a (finding_site, may_treat) write no pair, because their label would be a
    guess. Hyponyms, siblings and disjoint concepts are those that the training texts mention.
    """

    def __init__(self, train: Sequence[NLIExample], linker: Linker) -> None:
        self.linker, ontology = linker, linker.ontology
        self._children = csr_array(ontology.parents.T)
        disjoint = ontology.relations.get(DISJOINT, csr_array(ontology.parents.shape))
        self._disjoint = csr_array(disjoint + disjoint.T)
        self._long_form = dict(read_abbreviations())
        self._names: dict[int, list[str]] = defaultdict(list)
        for name, concept in (*zip(ontology.labels, count()), *ontology.names):
            if self._is_name(name):
                self._names[concept].append(name.casefold())
        for concept, names in self._names.items():
            # The singular of a label is less often wrong than the first of the other names.
            label = singular(ontology.labels[concept].casefold())
            names.sort(key=label.__ne__)
        self._linked: dict[Tokens, list[_Mention]] = {}
        self._partners: dict[int, list[tuple[str, int]]] = {}
        self._mentioned: set[int] = set()
        for example in train:
            for tokens in (example.premise_tokens, example.hypothesis_tokens):
                self._mentioned.update(mention.concept for mention in self._mentions(tokens))

    def changes(self, sentence: Sentence) -> Iterator[Change]:
        words = list(map(str.casefold, sentence.tokens))
        asserted = assertions(words)
        for mention in self._mentions(sentence.tokens):
            scope = _SCOPE_OF.get(assertion_of(asserted, mention.first, mention.last))
            if scope and _is_replaceable(sentence.tokens, mention, scope):
                yield from self._renamed(sentence, mention, scope)
                if self._class_of(mention.concept) != "part":
                    yield from _opposed(sentence.tokens, mention, scope)
        yield from self._excluding(sentence, words, asserted)

    def negated(self, sentence: Sentence, turn: int) -> Sentence | None:
        """A finding that the text affirms is absent."""
        absent = [change for change in self.changes(sentence) if change.kind == "absent"]
        if not absent:
            return None
        change = absent[turn % len(absent)]
        return sentence.with_words(change.first, change.last, change.words)

    def _renamed(self, sentence: Sentence, mention: _Mention, scope: str) -> Iterator[Change]:
        """Names of related concepts in place of the mention."""
        first, last, concept = mention
        words = list(map(str.casefold, sentence.tokens))
        before, old = " ".join(words[:first]), " ".join(words[first:last])
        # A name that excludes the old one is no sibling of it.
        used = f" {' '.join(words)} {_EXCLUDED.get(old, '')} "
        for kind, partner in self._related(concept):
            if self._holds(kind, concept, old, before):
                for name in self._names_of(kind, partner, old, used):
                    yield Change(scope, kind, first, last, _in_case_of(sentence.text, name))

    def _holds(self, kind: str, concept: int, old: str, before: str) -> bool:
        """Whether a relation of a concept gives a known label after this text. old: its name."""
        if kind == "synonym":
            return True
        if kind == "disjoint" and not _IDENTIFIED.search(before):
            return False
        type_class = self._class_of(concept)
        if type_class == "part" or old in self._long_form:
            return False
        return type_class != "act" or _GIVEN.search(before) is not None

    def _excluding(
        self, sentence: Sentence, words: Sequence[str], asserted: Sequence[str]
    ) -> Iterator[Change]:
        """The words of EXCLUDING that the text affirms, and what they exclude. Where such a word is
        a part of a name, the new name is one, too."""
        spans = self._spans(words)
        for place, word in enumerate(words):
            is_affirmed = asserted[place] == AFFIRMED and _is_in_case(sentence.tokens, place)
            if word not in _EXCLUDED or not is_affirmed or not _fits(words, place, spans):
                continue
            excluded = _EXCLUDED[word]
            new_spans = self._spans([*words[:place], excluded, *words[place + 1 :]])
            if new_spans == spans and excluded not in words:
                cased = _in_case_of(sentence.tokens[place], excluded)
                yield Change("plain", "excluding", place, place + 1, cased)

    def _spans(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """The first token of each mention, and the one after its last."""
        return [(mention.first, mention.last) for mention in self._mentions(tuple(words))]

    def _mentions(self, tokens: Tokens) -> list[_Mention]:
        if tokens not in self._linked:
            mentions = self.linker.link(tokens, inside_tokens=False)
            index_of = self.linker.ontology.index_of
            self._linked[tokens] = [
                _Mention(mention.start, mention.end, index_of[mention.concept])
                for mention in mentions
            ]
        return self._linked[tokens]

    def _is_name(self, name: str) -> bool:
        """Whether a name may stand in a text: in the singular, and no short form."""
        is_short = name in self.linker.ontology.abbreviations or name.casefold() in self._long_form
        is_in_form = _NAME.fullmatch(name) is not None and not _NO_NAME.search(name)
        return is_in_form and not is_short and _is_noun(name)

    def _names_of(self, kind: str, concept: int, old: str, used: str) -> list[str]:
        """Names of a concept that are not used, in place of the old one; a short form is replaced
        by its long form."""
        names = self._names[concept][: _MOST if kind == "synonym" else 1]
        if kind == "synonym" and old in self._long_form:
            names = [self._long_form[old]]
        return [name for name in dict.fromkeys(names) if f" {name} " not in used]

    def _class_of(self, concept: int) -> str:
        """One of CLASSES, "" for a disease and for a concept without a type."""
        types = self.linker.ontology.types
        for name, prefixes in CLASSES.items():
            if types and types[concept].startswith(prefixes):
                return name
        return ""

    def _related(self, concept: int) -> list[tuple[str, int]]:
        """The relation and the number of each related concept."""
        if concept not in self._partners:
            edges = self.linker.ontology.parents
            parents = _reached({concept}, edges)
            above = parents | _reached(parents, edges)
            disjoint = self._disjoint_from(concept)
            siblings = _reached(parents, self._children) - above - disjoint - {concept}
            partners_of = {
                "hypernym": above,
                "hyponym": _reached({concept}, self._children) & self._mentioned,
                "sibling": siblings & self._mentioned,
                "disjoint": disjoint & self._mentioned,
            }
            partners = [("synonym", concept)]
            for kind, concepts in partners_of.items():
                for partner in sorted(concepts)[:_MOST]:
                    if self._class_of(partner) == self._class_of(concept):
                        partners.append((kind, partner))
            self._partners[concept] = partners
        return self._partners[concept]

    def _disjoint_from(self, concept: int) -> set[int]:
        """The concepts that exclude a concept, because the ontology states it of them or of
        concepts above both."""
        if not self._disjoint.nnz:
            return set()
        kinds = _closure({concept}, self.linker.ontology.parents)
        return _closure(_reached(kinds, self._disjoint), self._children)


def _reached(concepts: set[int], edges: csr_array) -> set[int]:
    return set(edges[sorted(concepts)].indices.tolist())


def _closure(concepts: set[int], edges: csr_array) -> set[int]:
    """The concepts, and those that edges lead to over any number of steps."""
    closed, frontier = set(concepts), concepts
    while frontier:
        frontier = _reached(frontier, edges) - closed
        closed |= frontier
    return closed


def _is_replaceable(tokens: Tokens, mention: _Mention, scope: str) -> bool:
    """Whether a name is a whole noun phrase that the words before it state of somebody."""
    first, last, _ = mention
    words = list(map(str.casefold, tokens))
    before, after = " ".join(words[:first]), (*words, ".")[last]
    opens_text = not before and scope == "plain"
    is_whole = after in (AFTER_FIRST_NAME if opens_text else AFTER_NAME)
    is_noun = _is_noun(" ".join(words[first:last])) and _is_in_case(tokens, first)
    return is_whole and is_noun and _BEFORE_NAME.search(before) is not None


def _is_noun(name: str) -> bool:
    """Whether a name is a noun phrase in the singular."""
    return singular(name) == name and not _ADJECTIVE.fullmatch(name)


def _is_in_case(tokens: Tokens, first: int) -> bool:
    """Whether a name inside a text has a capital after a full stop, and there alone: elsewhere a
    capital is that of a title, and after "P." a name has none."""
    if first == 0:
        return True
    return tokens[first].istitle() == (tokens[first - 1] == ".")


def _in_case_of(old: str, new: str) -> str:
    """In capitals where the old text is."""
    return new.upper() if old.isupper() else new


def _fits(words: Sequence[str], place: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a word is the number of a stage, a name, or an adjective before a noun."""
    before, after = words[place - 1] if place else ".", (*words, ".")[place + 1]
    if after in ALTERNATIVES:
        return False
    if len(words[place]) < len("left"):  # a number
        return before in ("stage", "grade")
    if before not in BEFORE_ADJECTIVE:
        return False
    if (place, place + 1) in spans:  # a name
        return after in AFTER_NAME
    return after.isalpha() and after not in AFTER_NAME


def _opposed(tokens: Tokens, mention: _Mention, scope: str) -> Iterator[Change]:
    """The finding with the opposite of the longest phrase before it."""
    first, last, _ = mention
    kind = "absent" if scope == "plain" else "present"
    for start in range(max(first - _LONGEST, 0), first):
        phrase = " ".join(tokens[start:first])
        opposite = _OPPOSITE.get(phrase.casefold())
        if opposite:
            name = " ".join(tokens[first:last])
            yield Change(scope, kind, start, last, f"{_in_case_of(phrase, opposite)} {name}")
            return
