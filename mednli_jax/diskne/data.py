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
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.data.text import indefinite_article, treebank_tokens
from mednli_jax.errors import DataError, DataErrors, Problems
from mednli_jax.files.reading import FRESH_COPY, csv_records, empty_file, table_rows
from mednli_jax.files.writing import sha256
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import natural_order
from mednli_jax.nli.read.corpora import find_files, ground_truth_path, source_files
from mednli_jax.nli.read.readers import load_nli, read_nli_file
from mednli_jax.terminal import warn
from mednli_jax.types import JsonObject

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

PositiveKey = tuple[str, str, str]  # pair, disease, category

_WORD = re.compile(r"\w+")
_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Positive:
    """An entailed pair whose hypothesis says that the patient has `disease` (a concept id).

    start, end: the characters of the hypothesis that name the disease.
    """

    pair: NLIExample
    disease: str
    category: str
    start: int
    end: int

    @property
    def mention(self) -> str:
        return self.pair.hypothesis[self.start : self.end]


class Negative(NamedTuple):
    """The false claim that the patient of a positive example has another disease."""

    positive: Positive
    disease: str


@dataclass(frozen=True, slots=True)
class DiseaseExample:
    """The claim that the patient of `pair.premise` has `disease`; true (POSITIVE) or not
    (NEGATIVE).

    target: the disease of the positive example; a negative example has that of the positive one
    that it was made from. The fold of `target` tests the example.
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

    Args:
      names: disease -> its name.
      synonyms: disease -> all names that must not occur in its training examples.
      facts: provenance and counts as plain JSON values, never text of the corpus.
    """

    name: str
    examples: tuple[DiseaseExample, ...]
    names: dict[str, str]
    synonyms: dict[str, list[str]]
    facts: JsonObject = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)

    def description(self) -> JsonObject:
        """The benchmark without its examples, as JSON values."""
        return {
            "name": self.name,
            "names": self.names,
            "synonyms": self.synonyms,
            "facts": self.facts,
        }

    @classmethod
    def from_description(
        cls, description: JsonObject, examples: Iterable[DiseaseExample]
    ) -> "Benchmark":
        """The benchmark of a `description`, which may have further fields, and examples."""
        names, synonyms = description["names"], description["synonyms"]
        return cls(description["name"], tuple(examples), names, synonyms, description["facts"])


def with_article(before: str, name: str) -> str:
    """Fits an article a or an at the end of `before` to the sound of `name`; the paper uses the
    letter."""
    match = _ARTICLE.search(before)
    if not match:
        return before
    words = _WORD.findall(name)
    article = indefinite_article(words[0]) if words else "a"
    if match[1][0].isupper():
        article = article.capitalize()
    return before[: match.start()] + article + match[2]


def hypothesis_of(positive: Positive, disease: str, name: str, wording: str) -> str:
    """The hypothesis that claims `disease`, called `name`, in place of the positive example's
    own."""
    is_positive = disease == positive.disease
    if wording == "mention" and is_positive:
        return positive.mention.strip().lower()
    if wording != "full":
        return name
    text = positive.pair.hypothesis
    if is_positive:
        return text
    if positive.mention[:1].isupper() and not positive.mention.isupper():
        name = name[:1].upper() + name[1:]  # else a capital letter would reveal a positive
    return with_article(text[: positive.start], name) + name + text[positive.end :]


def example_of(
    positive: Positive, disease: str, names: Mapping[str, str], wording: str
) -> DiseaseExample:
    """The example that claims `disease` on a positive example's premise. It is positive if the
    disease is the positive example's own."""
    pair = positive.pair
    uid = f"{pair.uid}.{positive.category}.{positive.disease}"
    label = POSITIVE
    if disease != positive.disease:
        uid += f".{disease}"
        label = NEGATIVE
    hypothesis = hypothesis_of(positive, disease, names[disease], wording)
    tokens = pair.hypothesis_tokens
    if hypothesis != pair.hypothesis:
        tokens = _tokens(hypothesis)
    claim = replace(
        pair,
        uid=uid,
        hypothesis=hypothesis,
        hypothesis_tokens=tokens,
        label=label,
        group=premise_key(pair.premise),
        tags=(positive.category,),
    )
    return DiseaseExample(claim, disease, positive.disease, positive.category)


_tokens = lru_cache(maxsize=1 << 14)(treebank_tokens)


def premise_key(premise: str) -> str:
    """The key of a premise, equal for premises that differ only in case or spaces."""
    return hashlib.sha256(" ".join(premise.casefold().split()).encode()).hexdigest()[:16]


class DiseaseNames(NamedTuple):
    """The names of concepts: concept -> its name, and concept -> all its names."""

    names: dict[str, str]
    synonyms: dict[str, tuple[str, ...]]


def disease_names(ontology: Ontology, concepts: Collection[str]) -> DiseaseNames:
    """Finds the preferred name of each concept, in lower case and natural order, and every synonym.

    Concepts that the ontology lacks are left out.
    """
    names_of_index: dict[int, set[str]] = {}
    index_of = {}
    for concept in sorted(concepts):
        index = ontology.index(concept)
        if index is not None:
            index_of[concept] = index
            names_of_index[index] = {ontology.labels[index]}
    for name, index in ontology.names:
        if index in names_of_index:
            names_of_index[index].add(name)
    names, synonyms = {}, {}
    for concept, index in index_of.items():
        label = ontology.labels[index]
        name = natural_order(label) or label
        names[concept] = name.lower()
        synonyms[concept] = tuple(sorted(names_of_index[index] | {name}))
    return DiseaseNames(names, synonyms)


def assemble(
    name: str,
    positives: Iterable[Positive],
    negatives: Iterable[Negative],
    names: Mapping[str, str],
    synonyms: Mapping[str, Iterable[str]],
    wording: str,
    facts: JsonObject,
) -> Benchmark:
    """Assembles the benchmark of positive and negative examples.

    If uids are equal, the first counts. A negative whose disease has the name of the true one is
    left out (`same_name`).
    """
    claims = [(positive, positive.disease) for positive in positives]
    same_name = 0
    for positive, disease in negatives:
        if names[disease] == names[positive.disease]:
            same_name += 1
        else:
            claims.append((positive, disease))
    by_uid: dict[str, DiseaseExample] = {}
    for positive, disease in claims:
        example = example_of(positive, disease, names, wording)
        by_uid.setdefault(example.uid, example)
    examples = sorted(
        by_uid.values(), key=lambda e: (CATEGORIES.index(e.category), e.target, e.uid)
    )
    positive_counts, negative_counts = dict.fromkeys(CATEGORIES, 0), dict.fromkeys(CATEGORIES, 0)
    diseases = set()
    for example in examples:
        counts = positive_counts if example.is_positive else negative_counts
        counts[example.category] += 1
        diseases |= {example.disease, example.target}
    facts = {
        **facts,
        "wording": wording,
        "diseases": len(diseases),
        "repeated": len(claims) - len(examples),
        "same_name": same_name,
        "positives": positive_counts,
        "negatives": negative_counts,
    }
    used_names, used_synonyms = {}, {}
    for disease in sorted(diseases):
        used_names[disease] = names[disease]
        used_synonyms[disease] = sorted({names[disease], *synonyms.get(disease, ())})
    return Benchmark(name, tuple(examples), used_names, used_synonyms, facts)


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

    @property
    def key(self) -> PositiveKey:
        return self.pair_id, self.target, self.category

    def fault(self, field: str, problem: str, fix: str) -> DataError:
        return _fault(self.file, self.line, field, problem, fix)


def read_annotations(path: Path) -> list[Annotation]:
    """Reads the rows of one file, plain or gzipped."""
    path, problems = Path(path), Problems()

    def columns(line: int, header: list[str]) -> list[str]:
        for name in COLUMNS:
            if name not in header:
                problem = f"column '{name}' is missing"
                fix = f"name the columns {', '.join(COLUMNS)}, and category for medical knowledge"
                raise DataError(problem, file=path.name, line=line, field=name, fix=fix)
        return header

    annotations = []
    for line, cells in table_rows(path.name, csv_records(path, problems), problems, columns):
        try:
            annotations.append(_annotation(path.name, line, cells))
        except DataError as fault:
            problems.add(fault)
    problems.raise_if_any()
    if not any(row.is_positive for row in annotations):
        raise empty_file(path, "no positive example")
    return annotations


def _annotation(file: str, line: int, cells: Mapping[str, str]) -> Annotation:
    row = {column: cell.strip() for column, cell in cells.items()}
    if row["label"] not in PUBLISHED_LABELS:
        raise _fault(file, line, "label", "has an unknown value")
    category = "terminological"
    if "category" in row:
        if row["category"] not in PUBLISHED_CATEGORIES:
            raise _fault(file, line, "category", "has an unknown value")
        category = PUBLISHED_CATEGORIES[row["category"]]
    pair_id = row["pair_id"].removesuffix(OF_NEGATIVE)
    disease = row["CUI"]
    if not PUBLISHED_LABELS[row["label"]]:
        return Annotation(file, line, pair_id, disease, False, category, row["original_cui"])
    span = []
    for column in ("start_index", "end_index"):
        match = _INDEX.fullmatch(row[column])
        if not match:
            raise _fault(file, line, column, "is no whole number of a character")
        span.append(int(match[1]))
    return Annotation(file, line, pair_id, disease, True, category, disease, *span)


def _fault(file: str, line: int, field: str, problem: str, fix: str = FRESH_COPY) -> DataError:
    return DataError(f"field '{field}' {problem}", file=file, line=line, field=field, fix=fix)


def pair_files(folder: Path) -> list[Path]:
    """Every file that `source_pairs` reads."""
    files = source_files("mednli", folder)
    if _mediqa_nli(folder):
        files += source_files("mediqa_nli", folder)
    return list(dict.fromkeys(files))


def _mediqa_nli(folder: Path) -> dict[str, Path]:
    """The files of MEDIQA-NLI by split; {} if a part of it is missing."""
    try:
        return find_files("mediqa_nli", folder)
    except (DataError, DataErrors):
        return {}


def annotation_files(folder: Path, negatives: str = "") -> list[Path]:
    """The annotation files of a data folder, plain and gzipped, in its diskne/ alone.

    negatives: "similar" or "random" leaves out the files with the other word in their names; ""
    takes all.
    """
    files = [*(folder / "diskne").glob("*.csv"), *(folder / "diskne").glob("*.csv.gz")]
    if negatives:
        unwanted = "random" if negatives == "similar" else "similar"
        files = [path for path in files if unwanted not in path.name.lower()]
    return sorted(files)


SourcePairs = tuple[list[NLIExample], JsonObject]  # to which annotations refer; files they are from


def source_pairs(folder: Path) -> SourcePairs:
    """Reads all pairs of MedNLI in a data folder and, if it is there, of MEDIQA-NLI's test."""
    splits = list(load_nli("mednli", folder).values())
    mediqa_nli = _mediqa_nli(folder)
    if mediqa_nli:
        truth = ground_truth_path("mediqa_nli", mediqa_nli)
        splits.append(read_nli_file(mediqa_nli["test"], split="test", ground_truth=truth))
    facts = {
        "files": {split.facts["file"]: split.facts["sha256"] for split in splits},
        "mediqa_nli": bool(mediqa_nli),
    }
    return [pair for split in splits for pair in split.examples], facts


def read_published(
    paths: Sequence[Path],
    pairs: Iterable[NLIExample],
    ontology: Ontology | None = None,
    *,
    wording: str = "name",
    facts: JsonObject | None = None,
) -> Benchmark:
    """Reads the benchmark from annotation files: medical, terminological or both, of similar or of
    random negatives.

    These are left out, and counted in the facts: annotations of unknown pairs; negatives whose
    disease has no name, or which a positive example claims on the same premise.

    Args:
      pairs: of MedNLI and MEDIQA-NLI (`source_pairs`).
      ontology: names the CUIs (the UMLS); others have the name that the hypotheses use most often.
    """
    rows_of_file, digests = {}, {}
    for path in paths:
        rows_of_file[path.name] = read_annotations(path)
        digests[path.name] = sha256(path)
    _check_alternatives(rows_of_file)
    rows = list(chain.from_iterable(rows_of_file.values()))
    pair_of = {pair.uid: pair for pair in pairs}
    unknown_pairs = _count_unknown(rows, pair_of)
    joined = [row for row in rows if row.pair_id in pair_of]
    positives = _positives(joined, pair_of)
    names, synonyms = _names(joined, positives.values(), ontology)
    left_out = Counter(without_positive=0, unnamed=0, contradicted=0)
    negatives = list(_negatives(joined, positives, names, left_out))
    facts = {
        **(facts or {}),
        "annotations": digests,
        "unknown_pairs": unknown_pairs,
        "not_entailed": sum(positive.pair.label != POSITIVE for positive in positives.values()),
        "left_out": {"of_unknown_pairs": len(rows) - len(joined), **left_out},
        "ontology_sha256": ontology.sha256 if ontology else "",
    }
    return assemble("diskne", positives.values(), negatives, names, synonyms, wording, facts)


def _check_alternatives(rows_of_file: Mapping[str, Sequence[Annotation]]) -> None:
    """Raises DataError for two files with the same positive examples: their negatives are
    alternatives."""
    keys_of_file = {}
    for file, rows in rows_of_file.items():
        keys_of_file[file] = {row.key for row in rows if row.is_positive}
    for first, second in combinations(keys_of_file, 2):
        first_keys, second_keys = keys_of_file[first], keys_of_file[second]
        if 2 * len(first_keys & second_keys) > min(len(first_keys), len(second_keys)):
            problem = f"has the positive examples of {first}: only one of the two can be used"
            fix = "give config.diskne.negatives=similar or random"
            raise DataError(problem, file=second, fix=fix)


def _names(
    rows: Iterable[Annotation], positives: Iterable[Positive], ontology: Ontology | None
) -> DiseaseNames:
    """The ontology's names of the diseases. A disease that it lacks has the name of its most
    frequent mention, the longest of several. Mentions are synonyms."""
    names, synonyms = DiseaseNames({}, {})
    if ontology:
        names, synonyms = disease_names(ontology, {row.disease for row in rows})
    mentions: dict[str, Counter[str]] = defaultdict(Counter)
    for positive in positives:
        mentions[positive.disease][positive.mention.lower()] += 1
    for disease, counts in mentions.items():
        ranked = sorted(counts, key=lambda name: (-counts[name], -len(name), name))
        names.setdefault(disease, ranked[0])
        synonyms[disease] = (*synonyms.get(disease, ()), *counts)
    return DiseaseNames(names, synonyms)


def _count_unknown(rows: Sequence[Annotation], pair_of: Mapping[str, NLIExample]) -> int:
    """Counts the annotated ids that no corpus has. A few of them are reported; many are an error.

    No message and no file shows an id: some published ids are parts of sentences.
    """
    first_row: dict[str, Annotation] = {}
    for row in rows:
        first_row.setdefault(row.pair_id, row)
    unknown = [row for row in first_row.values() if row.pair_id not in pair_of]
    if not unknown:
        return 0
    first = unknown[0]
    lines = [str(row.line) for row in unknown if row.file == first.file][:5]
    if len(unknown) > len(lines):
        lines.append("...")
    counts = f"{len(unknown):,} of {len(first_row):,} annotated pairs are in no corpus"
    problem = f"{counts} (lines {', '.join(lines)})"
    if len(unknown) > MOST_UNKNOWN * len(first_row):
        fix = "give all files of MedNLI and MEDIQA-NLI, as they were released"
        raise DataError(problem, file=first.file, line=first.line, field="pair_id", fix=fix)
    warn(f"{first.file}: {problem}; they are left out.")
    return len(unknown)


def _positives(
    rows: Iterable[Annotation], pair_of: Mapping[str, NLIExample]
) -> dict[PositiveKey, Positive]:
    positives: dict[PositiveKey, Positive] = {}
    problems = Problems()
    for row in rows:
        if not row.is_positive:
            continue
        pair = pair_of[row.pair_id]
        if not 0 <= row.start < row.end <= len(pair.hypothesis):
            fix = "take the corpora and the annotations as they were released"
            problems.add(row.fault("end_index", "is outside the hypothesis", fix))
            continue
        start, end = _whole_words(pair.hypothesis, row.start, row.end)
        positives.setdefault(row.key, Positive(pair, row.disease, row.category, start, end))
    problems.raise_if_any()
    return positives


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Extends a span to whole words, without spaces at its ends: some files end a character early
    or late."""
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
    positives: Mapping[PositiveKey, Positive],
    names: Mapping[str, str],
    left_out: Counter[str],
) -> Iterator[Negative]:
    """Yields the negatives of rows; counts those that are left out."""
    in_any_category: dict[tuple[str, str], Positive] = {}
    claims = set()  # (premise, disease)
    for (pair_id, disease, _), positive in positives.items():
        in_any_category.setdefault((pair_id, disease), positive)
        claims.add((premise_key(positive.pair.premise), disease))
    for row in rows:
        if row.is_positive:
            continue
        # In a category that the pair is no positive example of, the files still have negatives.
        source = positives.get(row.key) or in_any_category.get((row.pair_id, row.target))
        if source is None:
            left_out["without_positive"] += 1
        elif row.disease not in names:
            left_out["unnamed"] += 1
        elif (premise_key(source.pair.premise), row.disease) in claims:
            left_out["contradicted"] += 1
        else:
            yield Negative(replace(source, category=row.category), row.disease)
