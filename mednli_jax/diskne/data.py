"""DisKnE's examples, and its published annotations (Alghanmi et al. 2021, section 3).

Every example claims that the patient of a premise has a disease. A positive example is an entailed
pair; a negative example has the same premise and another disease. `diskne.folds` divides the
examples by disease.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.data.text import treebank_tokens
from mednli_jax.errors import DataError, DataErrors, Problems
from mednli_jax.files import FRESH_COPY, csv_records, empty_file, sha256, table_rows
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import natural_order
from mednli_jax.nli.corpora import find_files, ground_truth_path, source_files
from mednli_jax.nli.readers import load_nli, read_nli_file
from mednli_jax.terminal import warn

# Section 3.1: how a premise shows a disease. The two groups are built, trained on and tested
# separately.
CATEGORIES = ("symptoms", "treatments", "tests", "procedures", "terminological")
GROUPS = {"medical": CATEGORIES[:4], "terminological": CATEGORIES[4:]}
GROUP_OF = {category: group for group, categories in GROUPS.items() for category in categories}
# Neutral fits a negative: it is neither entailed nor contradicted. With these labels NLI models
# need no change.
POSITIVE, NEGATIVE = LABELS[:2]
# Forms of a hypothesis. name: the disease's one name, for either label (section 3.4). mention: for
# positives the words of the pair, for negatives the name, as in the published script; the words may
# then reveal the label. full: the whole sentence, the disease in it replaced (section 3.2).
WORDINGS = ("name", "mention", "full")

_WORD = re.compile(r"\w+")
_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_LETTER_WITH_VOWEL = frozenset("AEFHILMNORSX")  # an MI, a UTI
_YOU = re.compile(r"eu|u[bcdfghjklmnpqrstvwxz][aeiou]")  # a uremia, but an ulcer


@dataclass(frozen=True, slots=True)
class Positive:
    """An entailed pair whose hypothesis says that the patient has `disease` (a concept id).

    start, end: the characters of the hypothesis that name it.
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
    """The claim that the patient of `pair.premise` has `disease`; true (POSITIVE) or not
    (NEGATIVE).

    target: the disease of the positive example that this one is, or was made from. The fold of
    `target` tests it.
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

    names: disease -> its name. synonyms: disease -> all names that must not occur in its training
    examples. facts: provenance and counts as plain JSON values, never text of the corpus.
    """

    name: str
    examples: tuple[DiseaseExample, ...]
    names: dict[str, str]
    synonyms: dict[str, list[str]]
    facts: dict = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)

    def description(self) -> dict:
        """All but the examples, as JSON values."""
        return {name: value for name, value in vars(self).items() if name != "examples"}

    @classmethod
    def described(cls, about: Mapping, examples: Iterable[DiseaseExample]) -> "Benchmark":
        """The benchmark of a description and examples."""
        return cls(
            about["name"], tuple(examples), about["names"], about["synonyms"], about["facts"]
        )


def with_article(before: str, name: str) -> str:
    """`before`, with an article a or an at its end changed to fit the sound of `name`; the paper
    uses the letter."""
    match = _ARTICLE.search(before)
    if not match:
        return before
    word = next(iter(_WORD.findall(name)), "")
    vowel = word[:1].casefold() in tuple("aeiou") and not _YOU.match(word.casefold())
    if len(word) > 1 and word.isupper():
        vowel = word[0] in _LETTER_WITH_VOWEL
    article = "an" if vowel else "a"
    return (
        before[: match.start()]
        + (article.capitalize() if match[1][0].isupper() else article)
        + match[2]
    )


def hypothesis_of(positive: Positive, disease: str, name: str, wording: str) -> str:
    """The hypothesis that claims `disease`, called `name`, in place of the positive example's
    own."""
    is_positive = disease == positive.disease
    if wording == "full":
        text = positive.pair.hypothesis
        if is_positive:
            return text
        if positive.mention[:1].isupper() and not positive.mention.isupper():
            name = name[:1].upper() + name[1:]  # else a capital letter would reveal a positive
        return with_article(text[: positive.start], name) + name + text[positive.end :]
    return positive.mention.strip().lower() if wording == "mention" and is_positive else name


def example_of(
    positive: Positive, disease: str, names: Mapping[str, str], wording: str
) -> DiseaseExample:
    """The example that claims `disease` on a positive example's premise; positive where the disease
    is its own."""
    is_positive = disease == positive.disease
    pair, category = positive.pair, positive.category
    hypothesis = hypothesis_of(positive, disease, names[disease], wording)
    uid = f"{pair.uid}.{category}.{positive.disease}"
    claim = replace(
        pair,
        uid=uid if is_positive else f"{uid}.{disease}",
        hypothesis=hypothesis,
        hypothesis_tokens=pair.hypothesis_tokens
        if hypothesis == pair.hypothesis
        else _tokens(hypothesis),
        label=POSITIVE if is_positive else NEGATIVE,
        group=premise_key(pair.premise),
        tags=(category,),
    )
    return DiseaseExample(claim, disease, positive.disease, category)


_tokens = lru_cache(maxsize=1 << 14)(treebank_tokens)


def premise_key(premise: str) -> str:
    """The key of a premise, equal for premises that differ only in case or spaces."""
    return hashlib.sha256(" ".join(premise.casefold().split()).encode()).hexdigest()[:16]


def disease_names(
    ontology: Ontology, concepts: Collection[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """(name, all names) of concepts: the preferred name in lower case and natural order, and every
    synonym.

    Concepts that the ontology lacks are left out.
    """
    index = {
        concept: at for concept in sorted(concepts) if (at := ontology.index(concept)) is not None
    }
    every = {at: {ontology.labels[at]} for at in index.values()}
    for name, at in ontology.names:
        if at in every:
            every[at].add(name)
    names = {
        concept: (natural_order(ontology.labels[at]) or ontology.labels[at])
        for concept, at in index.items()
    }
    synonyms = {
        concept: tuple(sorted(every[at] | {names[concept]})) for concept, at in index.items()
    }
    return {concept: name.lower() for concept, name in names.items()}, synonyms


def assembled(
    name: str,
    positives: Iterable[Positive],
    negatives: Iterable[tuple[Positive, str]],
    names: Mapping[str, str],
    synonyms: Mapping[str, Iterable[str]],
    wording: str,
    facts: dict,
) -> Benchmark:
    """The benchmark of positive examples and (positive example, other disease) negatives.

    Of equal uids the first counts. A negative whose disease has the name of the true one is left
    out (`same_name`).
    """
    negatives = list(negatives)
    apart = [
        (positive, disease)
        for positive, disease in negatives
        if names[disease] != names[positive.disease]
    ]
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
    every = {disease: sorted({names[disease], *synonyms.get(disease, ())}) for disease in used}
    return Benchmark(
        name, tuple(order), {disease: names[disease] for disease in used}, every, facts
    )


# The rows are `pair_id,CUI,label,category,original_cui,start_index,end_index`; the indices are the
# characters of the disease in the pair's hypothesis. A negative has `,ng` after its pair's id, the
# other disease as CUI and no indices. Files of terminological knowledge have no category.

COLUMNS = ("pair_id", "CUI", "label", "original_cui", "start_index", "end_index")
OF_NEGATIVE = ",ng"
PUBLISHED_LABELS = {"entailment": True, "non-entailment": False}
PUBLISHED_CATEGORIES = {
    "symptoms_diseases": "symptoms",
    "treatments_diseases": "treatments",
    "tests_diseases": "tests",
    "procedure_diseases": "procedures",
    "procedures_diseases": "procedures",
}
_INDEX = re.compile(r"([0-9]{1,9})(?:\.0*)?")  # some files have 30.0
MOST_UNKNOWN = 0.1  # share of the annotated pairs


class Annotation(NamedTuple):
    """A row of a file. target: the disease of the positive example. start, end: -1 for a
    negative."""

    file: str
    line: int
    pair_id: str
    disease: str
    is_positive: bool
    category: str
    target: str
    start: int = -1
    end: int = -1


def read_annotations(path: Path) -> list[Annotation]:
    """The rows of one file, plain or gzipped."""
    path, problems, found = Path(path), Problems(), []

    def columns(number, header):
        for name in COLUMNS:
            if name not in header:
                fix = f"name the columns {', '.join(COLUMNS)}, and category for medical knowledge"
                raise DataError(
                    f"column '{name}' is missing", file=path.name, line=number, field=name, fix=fix
                )
        return header

    for number, row in table_rows(path.name, csv_records(path, problems), problems, columns):
        row = {name: cell.strip() for name, cell in row.items()}
        is_positive = PUBLISHED_LABELS.get(row["label"])
        category = (
            PUBLISHED_CATEGORIES.get(row["category"]) if "category" in row else "terminological"
        )
        if is_positive is None or category is None:
            field = "label" if is_positive is None else "category"
            problems.add(_fault(path.name, number, field, "has an unknown value"))
            continue
        places = ("start_index", "end_index") if is_positive else ()
        if wrong := [name for name in places if not _INDEX.fullmatch(row[name])]:
            problems.add(_fault(path.name, number, wrong[0], "is no whole number of a character"))
            continue
        place = [int(_INDEX.fullmatch(row[name])[1]) for name in places]
        target = row["CUI" if is_positive else "original_cui"]
        pair_id = row["pair_id"].removesuffix(OF_NEGATIVE)
        found.append(
            Annotation(
                path.name, number, pair_id, row["CUI"], is_positive, category, target, *place
            )
        )
    problems.raise_if_any()
    if not any(row.is_positive for row in found):
        raise empty_file(path, "no positive example")
    return found


def _fault(file, line, field, problem, fix=FRESH_COPY):
    return DataError(f"field '{field}' {problem}", file=file, line=line, field=field, fix=fix)


def pair_files(folder: Path) -> list[Path]:
    """Every file that `source_pairs` reads."""
    names = ("mednli", "mediqa_nli") if _mediqa_nli(folder) else ("mednli",)
    return list(dict.fromkeys(file for name in names for file in source_files(name, folder)))


def _mediqa_nli(folder):
    """split -> file of MEDIQA-NLI; None where a part of it is missing."""
    try:
        return find_files("mediqa_nli", folder)
    except (DataError, DataErrors):
        return None


def annotation_files(folder: Path, negatives: str = "") -> list[Path]:
    """The annotation files of a data folder, plain and gzipped, those of its diskne/ alone.

    negatives: "similar" or "random": without the files that the other word names, as the published
    ones; "" = all.
    """
    found = [*(folder / "diskne").glob("*.csv"), *(folder / "diskne").glob("*.csv.gz")]
    if negatives:
        other = "random" if negatives == "similar" else "similar"
        found = [path for path in found if other not in path.name.lower()]
    return sorted(found)


def source_pairs(folder: Path) -> tuple[list[NLIExample], dict]:
    """(all pairs of MedNLI and, where it is there, of MEDIQA-NLI's test, facts) of a data
    folder."""
    splits = list(load_nli("mednli", folder).values())
    paths = _mediqa_nli(folder)
    if paths:
        truth = ground_truth_path("mediqa_nli", paths)
        splits.append(read_nli_file(paths["test"], split="test", ground_truth=truth))
    facts = {
        "files": {split.facts["file"]: split.facts["sha256"] for split in splits},
        "mediqa_nli": bool(paths),
    }
    return [pair for split in splits for pair in split.examples], facts


def read_published(
    paths: Sequence[Path],
    pairs: Iterable[NLIExample],
    ontology: Ontology | None = None,
    *,
    wording: str = "name",
    facts: Mapping | None = None,
) -> Benchmark:
    """The benchmark of annotation files: medical, terminological or both, of similar or of random
    negatives.

    pairs: of MedNLI and MEDIQA-NLI (`source_pairs`). ontology: names the CUIs (the UMLS); others
    have the name that the hypotheses use most often. Left out, and counted in the facts:
    annotations of unknown pairs; negatives whose disease has no name, or which a positive example
    claims on the same premise.
    """
    of_file = {Path(path).name: read_annotations(path) for path in paths}
    rows = [row for of_this in of_file.values() for row in of_this]
    keys = {}
    for name, of_this in of_file.items():
        keys[name] = {
            (row.pair_id, row.disease, row.category) for row in of_this if row.is_positive
        }
    for (one, of_one), (other, of_other) in combinations(
        keys.items(), 2
    ):  # their negatives may be alternatives
        if 2 * len(of_one & of_other) > min(len(of_one), len(of_other)):
            fix = "--config.diskne.negatives=similar or random"
            raise DataError(
                f"has the positive examples of {one}: only one of the two can be used",
                file=other,
                fix=fix,
            )
    by_uid = {pair.uid: pair for pair in pairs}
    unknown = _unknown(rows, by_uid)
    known = [row for row in rows if row.pair_id in by_uid]
    positives = _positives(known, by_uid)
    mentions = defaultdict(Counter)
    for positive in positives.values():
        mentions[positive.disease][positive.mention.lower()] += 1
    names, synonyms = (
        disease_names(ontology, {row.disease for row in known}) if ontology else ({}, {})
    )
    for disease, of_disease in mentions.items():
        names.setdefault(
            disease, min(of_disease, key=lambda name: (-of_disease[name], -len(name), name))
        )
        synonyms[disease] = (*synonyms.get(disease, ()), *of_disease)
    counts: Counter = Counter()
    made_up = list(_negatives(known, positives, names, counts))
    facts = {
        **(facts or {}),
        "annotations": {Path(path).name: sha256(path) for path in paths},
        "unknown_pairs": unknown,
        "not_entailed": sum(positive.pair.label != POSITIVE for positive in positives.values()),
        "left_out": {
            "of_unknown_pairs": len(rows) - len(known),
            **{name: counts[name] for name in ("without_positive", "unnamed", "contradicted")},
        },
        "ontology_sha256": ontology.sha256 if ontology else "",
    }
    return assembled("diskne", positives.values(), made_up, names, synonyms, wording, facts)


def _unknown(rows: Sequence[Annotation], by_uid: Mapping[str, NLIExample]) -> int:
    """The number of annotated ids that no corpus has. A few of them are reported; many are an
    error.

    Some published ids are parts of sentences, so that no message and no file shows an id.
    """
    annotated: dict[str, Annotation] = {}
    for row in rows:
        annotated.setdefault(row.pair_id, row)
    unknown = [row for row in annotated.values() if row.pair_id not in by_uid]
    if not unknown:
        return 0
    first = unknown[0]
    lines = [str(row.line) for row in unknown if row.file == first.file]
    shown = ", ".join(lines[:5]) + (", ..." if len(unknown) > len(lines[:5]) else "")
    problem = (
        f"{len(unknown):,} of {len(annotated):,} annotated pairs are in no corpus (lines {shown})"
    )
    if len(unknown) > MOST_UNKNOWN * len(annotated):
        fix = "give all files of MedNLI and MEDIQA-NLI, as they were released"
        raise DataError(problem, file=first.file, line=first.line, field="pair_id", fix=fix)
    warn(f"{first.file}: {problem}; they are left out.")
    return len(unknown)


def _positives(
    rows: Iterable[Annotation], by_uid: Mapping[str, NLIExample]
) -> dict[tuple[str, str, str], Positive]:
    """(pair, disease, category) -> positive example."""
    found, problems = {}, Problems()
    for row in rows:
        if not row.is_positive:
            continue
        pair = by_uid[row.pair_id]
        if not 0 <= row.start < row.end <= len(pair.hypothesis):
            fix = "take the corpora and the annotations as they were released"
            problems.add(_fault(row.file, row.line, "end_index", "is outside the hypothesis", fix))
            continue
        start, end = _whole_words(pair.hypothesis, row.start, row.end)
        key = row.pair_id, row.disease, row.category
        found.setdefault(key, Positive(pair, row.disease, row.category, start, end))
    problems.raise_if_any()
    return found


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without spaces at its ends, and with the rest of the words that it cuts: some files
    end a character early or late."""
    mention = text[start:end].strip()
    start = text.index(mention, start)
    end = start + len(mention)
    while start > 0 and text[start].isalnum() and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return start, end


def _negatives(
    rows: Iterable[Annotation],
    positives: Mapping[tuple[str, str, str], Positive],
    names: Mapping,
    counts: Counter,
) -> Iterator[tuple[Positive, str]]:
    """(what it is made from, other disease) of the negative rows; counts those that are left
    out."""
    any_category = {
        (pair, disease): positive for (pair, disease, _), positive in reversed(positives.items())
    }
    claimed = {
        (premise_key(positive.pair.premise), positive.disease) for positive in positives.values()
    }
    for row in rows:
        if row.is_positive:
            continue
        positive = positives.get((row.pair_id, row.target, row.category)) or any_category.get(
            (row.pair_id, row.target)
        )
        if positive is None:
            counts["without_positive"] += 1
        elif row.disease not in names:
            counts["unnamed"] += 1
        elif (premise_key(positive.pair.premise), row.disease) in claimed:
            counts["contradicted"] += 1
        else:
            # In a category that the pair is no positive example of, the files still have negatives.
            yield replace(positive, category=row.category), row.disease
