"""Names of a terminology in place of the names in a clinical text, by NegEx (nli.negex)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from scipy.sparse import csr_array

from mednli_jax.data.examples import NLIExample
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.words import singular
from mednli_jax.nli.encoding import Tokens
from mednli_jax.nli.negex import AFFIRMED, NEGATED, assertion_of, assertions
from mednli_jax.nli.sentences import Change, Sentence

# What excludes what, of the same thing at the same time (docs/results-typed.md has the sources).
EXCLUDING = {
    "left, right": "laterality",
    "unilateral, bilateral": "laterality",
    "acute, chronic": "course",
    "benign, malignant": "behaviour",
    "mild, severe": "grade",
    "elevated, decreased": "antonyms",
    "increased, decreased": "antonyms",
    "hypertension, hypotension": "antonyms by their prefixes",
    "hyperglycemia, hypoglycemia": "antonyms by their prefixes",
    "tachycardia, bradycardia": "antonyms by their prefixes",
}
# Words before a finding, and the same with a negation.
ABSENT = {"has": "has no", "have": "have no", "had": "had no", "with": "with no"}
ABSENT |= {"known": "no known", "reports": "reports no", "shows": "shows no"}
_NAME = re.compile(r"[A-Za-z][A-Za-z']+( [A-Za-z']+){0,3}")  # no code, inverted form or bracket
_NO_NAME = re.compile(r"\b(nos|nec|unspecified|other|and|or|attributes?)\b", re.IGNORECASE)
_MOST = 4  # names of a concept, and concepts of a relation
_SCOPE_OF = {AFFIRMED: "plain", NEGATED: "negated"}


class MentionChanges:
    """A Changer (nli.sentences) by the concepts of training pairs.

    Relations beyond is-a (finding_site, may_treat) write no pair, because their label would be a
    guess. Hyponyms and siblings are concepts that the training texts mention.
    """

    def __init__(self, train: Sequence[NLIExample], linker: Linker) -> None:
        self.linker, ontology = linker, linker.ontology
        self._children = csr_array(ontology.parents.T)
        self._names: dict[int, list[str]] = defaultdict(list)
        preferred = [(label, concept) for concept, label in enumerate(ontology.labels)]
        for name, concept in (*preferred, *ontology.names):
            if _NAME.fullmatch(name) and not _NO_NAME.search(name) and singular(name) == name:
                self._names[concept].append(name if name.isupper() else name.casefold())
        self._linked: dict[Tokens, list[tuple[int, int, int]]] = {}
        self._partners: dict[int, list[tuple[str, int]]] = {}
        self._mentioned: set[int] = set()
        for example in train:
            for tokens in (example.premise_tokens, example.hypothesis_tokens):
                self._mentioned.update(concept for _, _, concept in self._mentions(tokens))

    def changes(self, sentence: Sentence) -> Iterator[Change]:
        words = list(map(str.casefold, sentence.tokens))
        asserted = assertions(words)
        for first, last, concept in self._mentions(sentence.tokens):
            scope = _SCOPE_OF.get(assertion_of(asserted, first, last), "")
            is_measured = any(map(str.isdigit, " ".join(words[last : last + 1])))
            if not scope or is_measured:
                continue
            old = " ".join(words[first:last])
            for kind, partner in self._related(concept):
                for name in dict.fromkeys(self._names[partner][:_MOST]):
                    if name.casefold() != old:
                        yield Change(scope, kind, first, last, name)
            if scope == "plain" and first and words[first - 1] in ABSENT:
                absent = f"{ABSENT[words[first - 1]]} {old}"
                yield Change(scope, "absent", first - 1, last, absent)
        yield from self._excluding(words, asserted)

    def negated(self, sentence: Sentence, turn: int) -> Sentence | None:
        """A finding that the text affirms is absent."""
        absent = [change for change in self.changes(sentence) if change.kind == "absent"]
        if not absent:
            return None
        change = absent[turn % len(absent)]
        return sentence.changed(change.first, change.last, change.words, change.words.split())

    def _excluding(self, words: Sequence[str], asserted: Sequence[str]) -> Iterator[Change]:
        """The words of EXCLUDING that the text affirms, and what they exclude. Where such a word is
        a part of a name, the new name is one, too."""
        spans = [(first, last) for first, last, _ in self._mentions(tuple(words))]
        for place, word in enumerate(words):
            for values in EXCLUDING:
                pair = values.split(", ")
                if word not in pair or asserted[place] != AFFIRMED:
                    continue
                other = pair[1 - pair.index(word)]
                changed = (*words[:place], other, *words[place + 1 :])
                new_spans = [(first, last) for first, last, _ in self._mentions(changed)]
                if new_spans == spans:
                    yield Change("plain", "excluding", place, place + 1, other)

    def _mentions(self, tokens: Tokens) -> list[tuple[int, int, int]]:
        """(first token, token after the last, concept) of each mention of a text."""
        if tokens not in self._linked:
            mentions = self.linker.link(tokens, inside_tokens=False)
            index_of = self.linker.ontology.index_of
            self._linked[tokens] = [(m.start, m.end, index_of[m.concept]) for m in mentions]
        return self._linked[tokens]

    def _related(self, concept: int) -> list[tuple[str, int]]:
        """The relation and the number of each related concept."""
        if concept not in self._partners:
            parents = self._above({concept})
            above = parents | self._above(parents)
            below = self._below({concept}) & self._mentioned
            siblings = self._below(parents) & self._mentioned - above - {concept}
            partners = [("synonym", concept)]
            for kind, concepts in (("hypernym", above), ("hyponym", below), ("sibling", siblings)):
                partners += [(kind, partner) for partner in sorted(concepts)[:_MOST]]
            self._partners[concept] = partners
        return self._partners[concept]

    def _above(self, concepts: set[int]) -> set[int]:
        return set(self.linker.ontology.parents[sorted(concepts)].indices.tolist())

    def _below(self, concepts: set[int]) -> set[int]:
        return set(self._children[sorted(concepts)].indices.tolist())
