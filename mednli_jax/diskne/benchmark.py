"""DisKnE: does a premise show a disease? Binary NLI with one fold per disease (Alghanmi et al. 2021, section 3).

Every example claims that the patient of a premise has a disease. A positive example is an entailed pair. A negative
example has the same premise and a similar disease instead. All examples of a benchmark are one list: `diskne.folds`
divides it by disease, `diskne.published` reads the published annotations, `diskne.builder` makes one of any pairs.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.data.text import treebank_tokens

# Section 3.1: how a premise shows a disease. The two groups are built, trained on and tested separately.
CATEGORIES = ("symptoms", "treatments", "tests", "procedures", "terminological")
GROUPS = {"medical": CATEGORIES[:4], "terminological": CATEGORIES[4:]}
GROUP_OF = {category: group for group, categories in GROUPS.items() for category in categories}
# Neutral fits a negative: it is neither entailed nor contradicted. With these labels NLI models need no change.
POSITIVE, NEGATIVE = LABELS[:2]
# Forms of a hypothesis. name: the disease's one name, for either label (section 3.4). mention: for positives the words
# of the pair, for negatives the name, as in the published script; the words may then reveal the label.
# full: the whole sentence, the disease in it replaced (section 3.2).
WORDINGS = ("name", "mention", "full")

_WORD = re.compile(r"\w+")
_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_LETTER_WITH_VOWEL = frozenset("AEFHILMNORSX")  # letters whose own names begin with a vowel: an MI, a UTI
_YOU = re.compile(r"eu|u[bcdfghjklmnpqrstvwxz][aeiou]")  # a urinary tract infection, but an ulcer


@dataclass(frozen=True, slots=True)
class Positive:
    """An entailed pair whose hypothesis says that the patient has `disease` (a concept id).

    start, end: the characters of the hypothesis that name it. category: one of CATEGORIES.
    """

    pair: NLIExample
    disease: str
    category: str
    start: int
    end: int

    @property
    def mention(self) -> str:
        return self.pair.hypothesis[self.start : self.end]


@dataclass(frozen=True, slots=True)
class DiseaseExample:
    """The claim that the patient of `pair.premise` has `disease`; true (POSITIVE) or not (NEGATIVE).

    target: the disease of the positive example that this one is, or was made from. The fold of `target` tests it.
    """

    pair: NLIExample
    disease: str
    target: str
    category: str

    @property
    def uid(self) -> str:
        return self.pair.uid

    @property
    def is_positive(self) -> bool:
        return self.pair.label == POSITIVE


@dataclass(frozen=True)
class Benchmark:
    """All examples, sorted by category, target and uid.

    names: disease -> its name. synonyms: disease -> all names that must not occur in its training examples.
    facts: provenance and counts as plain JSON values, never text of the corpus.
    """

    name: str
    examples: tuple[DiseaseExample, ...]
    names: dict[str, str]
    synonyms: dict[str, tuple[str, ...]]
    facts: dict = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)

    def left_out(self) -> str:
        """The rows or pairs that are no examples, by reason: "200 repeated, 20 without positive"; "" for none."""
        counts = {
            **self.facts.get("left_out", {}),
            **{name: self.facts.get(name, 0) for name in ("repeated", "same_name")},
        }
        return ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in sorted(counts.items()) if count)


# -- hypotheses --------------------------------------------------------------------------------------------------------


def with_article(before: str, name: str) -> str:
    """`before`, with an article a or an at its end changed to fit `name`.

    The paper uses the first letter; this function uses its sound, so that "a urinary tract infection" stays as it is.
    """
    match = _ARTICLE.search(before)
    if not match:
        return before
    word = next(iter(_WORD.findall(name)), "")
    vowel = word[:1].casefold() in tuple("aeiou") and not _YOU.match(word.casefold())
    if len(word) > 1 and word.isupper():
        vowel = word[0] in _LETTER_WITH_VOWEL
    article = "an" if vowel else "a"
    return before[: match.start()] + (article.capitalize() if match[1][0].isupper() else article) + match[2]


def hypothesis_of(positive: Positive, disease: str, name: str, wording: str) -> str:
    """The hypothesis that claims `disease`, called `name`, in place of the positive example's own."""
    is_positive = disease == positive.disease
    if wording == "full":
        text = positive.pair.hypothesis
        if is_positive:
            return text
        if positive.mention[:1].isupper() and not positive.mention.isupper():
            name = name[:1].upper() + name[1:]  # else a capital letter would reveal a positive
        return with_article(text[: positive.start], name) + name + text[positive.end :]
    return positive.mention.strip().lower() if wording == "mention" and is_positive else name


def example_of(positive: Positive, disease: str, names: Mapping[str, str], wording: str) -> DiseaseExample:
    """The example that claims `disease` on a positive example's premise; positive where the disease is its own."""
    is_positive = disease == positive.disease
    pair, category = positive.pair, positive.category
    hypothesis = hypothesis_of(positive, disease, names[disease], wording)
    uid = f"{pair.uid}.{category}.{positive.disease}"
    claim = replace(
        pair,
        uid=uid if is_positive else f"{uid}.{disease}",
        hypothesis=hypothesis,
        hypothesis_tokens=pair.hypothesis_tokens if hypothesis == pair.hypothesis else _tokens(hypothesis),
        label=POSITIVE if is_positive else NEGATIVE,
        group=premise_key(pair.premise),
        tags=(category,),
    )
    return DiseaseExample(claim, disease, positive.disease, category)


_tokens = lru_cache(maxsize=1 << 14)(treebank_tokens)  # there are few distinct hypotheses


def premise_key(premise: str) -> str:
    """The key of a premise, equal for premises that differ only in case or spaces."""
    return hashlib.sha256(" ".join(premise.casefold().split()).encode()).hexdigest()[:16]


def assembled(
    name: str,
    positives: Iterable[Positive],
    negatives: Iterable[tuple[Positive, str]],
    names: Mapping[str, str],
    synonyms: Mapping[str, Iterable[str]],
    wording: str,
    facts: dict,
) -> Benchmark:
    """The benchmark of positive examples and (positive example, other disease) negatives. Repeated uids are used once.

    A negative whose disease has the name of the true one is left out, and counted as `same_name`.
    """
    negatives = list(negatives)
    apart = [(positive, disease) for positive, disease in negatives if names[disease] != names[positive.disease]]
    pairs = [*((positive, positive.disease) for positive in positives), *apart]
    found = {}
    for positive, disease in pairs:
        example = example_of(positive, disease, names, wording)
        found.setdefault(example.uid, example)
    order = sorted(found.values(), key=lambda e: (CATEGORIES.index(e.category), e.target, e.uid))
    used = sorted({e.disease for e in order} | {e.target for e in order})
    counts = Counter((e.category, e.is_positive) for e in order)
    facts = {
        **facts,
        "wording": wording,
        "diseases": len(used),
        "repeated": len(pairs) - len(order),
        "same_name": len(negatives) - len(apart),
        "positives": {category: counts[category, True] for category in CATEGORIES},
        "negatives": {category: counts[category, False] for category in CATEGORIES},
    }
    every = {disease: tuple(sorted({names[disease], *synonyms.get(disease, ())})) for disease in used}
    return Benchmark(name, tuple(order), {disease: names[disease] for disease in used}, every, facts)
