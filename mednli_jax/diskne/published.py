"""DisKnE's published annotations, joined with MedNLI and MEDIQA-NLI (Alghanmi et al. 2021, sections 3.1 to 3.4).

The files hold no text: `pair_id,CUI,label,category,original_cui,start_index,end_index`, where the indices are the
characters of the disease in the pair's hypothesis. A negative has `,ng` after its pair's id, the other disease as CUI
and no indices. Files of terminological knowledge have no category. Errors name the line and never quote a sentence.
A few unknown pairs are no error: a line on stderr says how many.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from mednli_jax.data.examples import NLIExample
from mednli_jax.diskne.benchmark import Benchmark, Positive, assembled, premise_key
from mednli_jax.diskne.builder import disease_names
from mednli_jax.errors import DataError, DataErrors, Problems
from mednli_jax.io import FRESH_COPY, csv_records, empty_file, sha256, table_rows, warn
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.nli.readers import find_files, ground_truth_path, load_nli, read_nli_file, source_files

COLUMNS = ("pair_id", "CUI", "label", "original_cui", "start_index", "end_index")
OF_NEGATIVE = ",ng"  # after the pair's id
LABELS = {"entailment": True, "non-entailment": False}
CATEGORIES = {
    "symptoms_diseases": "symptoms",
    "treatments_diseases": "treatments",
    "tests_diseases": "tests",
    "procedure_diseases": "procedures",
    "procedures_diseases": "procedures",
}
MOST_UNKNOWN = 0.1  # share of the annotated pairs; more of them, and the corpora are not those annotated
SHOWN = 5  # ids in a message
_ID = re.compile(r"[\w.:#-]{1,40}")
_WHOLE = re.compile(r"(\d{1,9})(\.0)?")


@dataclass(frozen=True, slots=True)
class Annotation:
    """A row of a file. target: the disease of the positive example. start, end: -1 for a negative."""

    file: str
    line: int
    pair_id: str
    disease: str
    is_positive: bool
    category: str
    target: str
    start: int = -1
    end: int = -1

    def fault(self, problem: str, field: str, fix: str = FRESH_COPY) -> DataError:
        return DataError(f"field '{field}' {problem}", file=self.file, line=self.line, field=field, fix=fix)


def read_annotations(path: Path) -> list[Annotation]:
    """The rows of one file, plain or gzipped."""
    path, problems, found = Path(path), Problems(), []

    def columns(number, header):
        wrong = [name for name in COLUMNS if header.count(name) != 1]
        wrong += ["category"] if header.count("category") > 1 else []
        if wrong:
            fix = f"name the columns {', '.join(COLUMNS)}, and category for medical knowledge"
            problem = f"column '{wrong[0]}' is missing or twice"
            raise DataError(problem, file=path.name, line=number, field=wrong[0], fix=fix)
        return header

    for number, row in table_rows(path.name, csv_records(path, problems), problems, columns):
        try:
            found.append(_annotation(path.name, number, row))
        except DataError as fault:
            problems.add(fault)
    problems.raise_if_any()
    if not any(row.is_positive for row in found):
        raise empty_file(path, "no positive example")
    return found


def _annotation(file, number, row):
    values = {name: cell.strip() for name, cell in row.items()}
    category = CATEGORIES.get(values.get("category", "")) if "category" in values else "terminological"
    is_positive, pair_id = LABELS.get(values["label"]), values["pair_id"].removesuffix(OF_NEGATIVE)
    row = Annotation(file, number, pair_id, values["CUI"], bool(is_positive), category or "", values["original_cui"])
    for name in ("pair_id", "CUI", "original_cui"):
        if not values[name]:
            raise row.fault("is empty", name)
    if is_positive is None:
        raise row.fault(f"is none of {', '.join(LABELS)}", "label", "correct the label")
    if category is None:
        raise row.fault(f"is none of {', '.join(CATEGORIES)}", "category", "correct the category")
    if is_positive == values["pair_id"].endswith(OF_NEGATIVE):
        raise row.fault(f"does not fit the pair_id, to which a negative adds {OF_NEGATIVE}", "label")
    if not is_positive:
        return row
    places = [_WHOLE.fullmatch(values[name]) for name in ("start_index", "end_index")]
    if None in places:
        name = "start_index" if places[0] is None else "end_index"
        raise row.fault("is no number of a character", name)
    start, end = (int(place[1]) for place in places)
    return replace(row, target=row.disease, start=start, end=end)


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

    negatives: "similar" or "random": without the files that the other word names, as the published ones; "" = all.
    """
    found = [*(folder / "diskne").glob("*.csv"), *(folder / "diskne").glob("*.csv.gz")]
    if negatives:
        other = "random" if negatives == "similar" else "similar"
        found = [path for path in found if other not in path.name.lower()]
    return sorted(found)


def source_pairs(folder: Path) -> tuple[list[NLIExample], dict]:
    """(all pairs of MedNLI and, where it is there, of MEDIQA-NLI's test, facts) of a data folder."""
    splits = list(load_nli("mednli", folder).values())
    paths = _mediqa_nli(folder)
    if paths:  # else its pairs are among the unknown ones, which are counted and reported
        truth = ground_truth_path("mediqa_nli", paths)
        splits.append(read_nli_file(paths["test"], split="test", ground_truth=truth))
    facts = {"files": {split.facts["file"]: split.facts["sha256"] for split in splits}, "mediqa_nli": bool(paths)}
    return [pair for split in splits for pair in split.examples], facts


def read_published(
    paths: Sequence[Path],
    pairs: Iterable[NLIExample],
    ontology: Ontology | None = None,
    *,
    wording: str = "name",
    facts: Mapping | None = None,
) -> Benchmark:
    """The benchmark of annotation files: medical, terminological or both, of similar or of random negatives.

    pairs: of MedNLI and MEDIQA-NLI (`source_pairs`). ontology: names the CUIs (the UMLS); a CUI that it lacks, or all
    without one, is called what the hypotheses call it most often. Left out, and counted in the facts: annotations of
    unknown pairs; negatives whose disease has no name, or which a positive example claims on the same premise.
    """
    of_file = {Path(path).name: read_annotations(path) for path in paths}
    _check_alternatives(of_file)
    rows = [row for of_this in of_file.values() for row in of_this]
    by_uid = {pair.uid: pair for pair in pairs}
    unknown = _unknown(rows, by_uid)
    known = [row for row in rows if row.pair_id in by_uid]
    positives = _positives(known, by_uid)
    names, synonyms = _names(positives.values(), ontology, {row.disease for row in known})
    counts: Counter = Counter()
    made_up = list(_negatives(known, positives, names, counts))
    facts = {
        **(facts or {}),
        "annotations": {Path(path).name: sha256(path) for path in paths},
        "unknown_pairs": unknown,
        "not_entailed": sum(positive.pair.label != "entailment" for positive in positives.values()),
        "left_out": {
            "of_unknown_pairs": len(rows) - len(known),
            **{name: counts[name] for name in ("without_positive", "unnamed", "contradicted")},
        },
        "ontology_sha256": ontology.sha256 if ontology else "",
    }
    return assembled("diskne", positives.values(), made_up, names, synonyms, wording, facts)


def _check_alternatives(of_file: Mapping[str, Sequence[Annotation]]) -> None:
    """Raises DataError for two files of the same positive examples: their negatives are alternatives."""
    positives = {
        name: {(r.pair_id, r.disease, r.category) for r in rows if r.is_positive} for name, rows in of_file.items()
    }
    for (one, of_one), (other, of_other) in combinations(positives.items(), 2):
        if 2 * len(of_one & of_other) > min(len(of_one), len(of_other)):
            fix = "--config.diskne.negatives=similar or random"
            raise DataError(f"has the positive examples of {one}: only one of the two can be used", file=other, fix=fix)


def _unknown(rows: Sequence[Annotation], by_uid: Mapping[str, NLIExample]) -> list[str]:
    """The annotated ids that no corpus has."""
    annotated = {row.pair_id: row for row in reversed(rows)}
    unknown = sorted(set(annotated) - set(by_uid))
    if not unknown:
        return []
    named = [uid for uid in unknown if _ID.fullmatch(uid)][:SHOWN]  # in a damaged row any words may stand there
    more = len(unknown) - len(named)
    problem = f"{len(unknown):,} of {len(annotated):,} annotated pairs are in no corpus: "
    problem += " and ".join(filter(None, (", ".join(named), f"{more} more" if more else "")))
    first = annotated[unknown[0]]
    if len(unknown) > MOST_UNKNOWN * len(annotated):
        fix = "give all files of MedNLI and MEDIQA-NLI, as they were released"
        raise DataError(problem, file=first.file, line=first.line, field="pair_id", fix=fix)
    warn(f"{first.file}: {problem}; they are left out.")
    return unknown


def _positives(rows: Iterable[Annotation], by_uid: Mapping[str, NLIExample]) -> dict[tuple[str, str, str], Positive]:
    """(pair, disease, category) -> positive example."""
    found, problems = {}, Problems()
    for row in rows:
        if not row.is_positive:
            continue
        pair = by_uid[row.pair_id]
        if not row.start < row.end <= len(pair.hypothesis):
            fix = "take the corpora and the annotations as they were released"
            problems.add(row.fault("is outside the hypothesis", "end_index", fix))
            continue
        start, end = _whole_words(pair.hypothesis, row.start, row.end)
        key = row.pair_id, row.disease, row.category
        found.setdefault(key, Positive(pair, row.disease, row.category, start, end))
    problems.raise_if_any()
    return found


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without spaces at its ends, and with the rest of the words that it cuts.

    The published script reads one character beyond the end, a space or a period where the end stands behind the word.
    """
    while start < end - 1 and text[start].isspace():
        start += 1
    while start < end - 1 and text[end - 1].isspace():
        end -= 1
    while start > 0 and text[start].isalnum() and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return start, end


def _names(positives: Iterable[Positive], ontology: Ontology | None, diseases: set[str]):
    """(name, synonyms) of the diseases: the ontology's, and what the hypotheses call them."""
    mentions = defaultdict(Counter)
    for positive in positives:
        mentions[positive.disease][positive.mention.lower()] += 1
    names, synonyms = disease_names(ontology, diseases) if ontology else ({}, {})
    for disease, found in mentions.items():
        best = min(found, key=lambda mention: (-found[mention], -len(mention), mention))
        names.setdefault(disease, best)
        synonyms[disease] = (*synonyms.get(disease, ()), *found)
    return names, synonyms


def _negatives(
    rows: Iterable[Annotation], positives: Mapping[tuple[str, str, str], Positive], names: Mapping, counts: Counter
) -> Iterator[tuple[Positive, str]]:
    """(what it is made from, other disease) of the negative rows; counts those that are left out."""
    any_category = {(pair, disease): positive for (pair, disease, _), positive in reversed(positives.items())}
    claimed = {(premise_key(positive.pair.premise), positive.disease) for positive in positives.values()}
    for row in rows:
        if row.is_positive:
            continue
        positive = positives.get((row.pair_id, row.target, row.category)) or any_category.get((row.pair_id, row.target))
        if positive is None:
            counts["without_positive"] += 1
        elif row.disease not in names:
            counts["unnamed"] += 1
        elif (premise_key(positive.pair.premise), row.disease) in claimed:  # its own disease among them
            counts["contradicted"] += 1
        else:
            # In a category that the pair is no positive example of, the files still have negatives.
            yield replace(positive, category=row.category), row.disease
