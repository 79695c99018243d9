"""A benchmark on disk: one line of JSON per example, as corpora of the user have them, and what belongs to it.

examples.jsonl   pairID, gold_label, sentence1, sentence2, captionID, genre; disease, target, category
benchmark.json   names and synonyms of the diseases, provenance, sizes of the folds
dropped.tsv      what was kept out of which fold's training: group, disease, uid, reason; no text
folds/GROUP-DISEASE/{train,dev,test}.jsonl   of the folds requested: each a corpus of the user
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from mednli_jax.corpora.diskne.benchmark import CATEGORIES, Benchmark, DiseaseExample
from mednli_jax.corpora.diskne.folds import Fold
from mednli_jax.corpora.nli.formats import json_rows
from mednli_jax.corpora.nli.readers import read_nli_file
from mednli_jax.errors import DataError, Problems, UsageError
from mednli_jax.files import private_folder, write_atomic, write_json
from mednli_jax.runs import read_json

EXAMPLES, ABOUT, DROPPED, FOLDS = "examples.jsonl", "benchmark.json", "dropped.tsv", "folds"
_BUILD = "build the benchmark again"


def write_benchmark(benchmark: Benchmark, folds: Sequence[Fold], folder: Path, whole: Iterable[Fold] = ()) -> Path:
    """Writes the folder whole or not at all, for its owner alone; returns it.

    whole: folds that are also written as corpora of their own.
    Raises: UsageError where the folder holds anything; RunError where it cannot be written.
    """
    folder = Path(folder).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists already. Fix: give a folder that is empty or not there yet.")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        private_folder(temporary)
        _write_lines(temporary / EXAMPLES, benchmark.examples)
        about = {name: getattr(benchmark, name) for name in ("name", "names", "synonyms", "facts")}
        write_json(temporary / ABOUT, {**about, "folds": [_summary(benchmark, fold) for fold in folds]})
        dropped = ("\t".join((f.group, f.disease, *entry)) for f in folds for entry in f.log(benchmark.examples))
        write_atomic(temporary / DROPPED, "".join(line + "\n" for line in ("group\tdisease\tuid\treason", *dropped)))
        for fold in whole:
            place = private_folder(private_folder(temporary / FOLDS) / fold_folder(fold))
            for name, rows in (("train", fold.train), ("dev", fold.dev), ("test", fold.test)):
                _write_lines(place / f"{name}.jsonl", [benchmark.examples[row] for row in rows])
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # nothing half-built is kept
    return folder


def fold_folder(fold: Fold) -> str:
    """The group and the disease's id; of an id that is no name of a file, what is left of it and a digest."""
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", fold.disease):
        return f"{fold.group}-{fold.disease}"
    digest = hashlib.sha256(fold.disease.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{fold.group}-{re.sub(r'[^A-Za-z0-9_.-]', '_', fold.disease)[:40]}-{digest}"


def _write_lines(path, examples):
    write_atomic(path, "".join(json.dumps(_row(example), ensure_ascii=False) + "\n" for example in examples))


def _row(example: DiseaseExample) -> dict[str, str]:
    pair = example.pair
    return {
        "pairID": pair.uid,
        "gold_label": pair.label,
        "sentence1": pair.premise,
        "sentence2": pair.hypothesis,
        "captionID": pair.group,
        "genre": example.category,  # which the readers of pairs take for a slice to score apart
        "disease": example.disease,
        "target": example.target,
        "category": example.category,
    }


def _summary(benchmark: Benchmark, fold: Fold) -> dict:
    return {
        "disease": fold.disease,
        "name": benchmark.names[fold.disease],
        "group": fold.group,
        "categories": list(fold.categories),
        "examples": {"train": len(fold.train), "dev": len(fold.dev), "test": len(fold.test)},
        "dropped": {reason: len(rows) for reason, rows in fold.dropped.items()},
    }


def read_benchmark(folder: Path) -> Benchmark:
    """What `write_benchmark` wrote; tokens come from the Treebank tokeniser. Folds are made again, and are the same.

    Raises: DataError(s) as `read_nli_file`; UserError where benchmark.json is damaged.
    """
    folder = Path(folder).expanduser()
    about = _about(folder / ABOUT)
    pairs = {pair.uid: pair for pair in read_nli_file(folder / EXAMPLES, split="all").examples}
    found, problems = [], Problems()
    for _, row in json_rows(folder / EXAMPLES, problems):
        if (pair := pairs.get(row.values.get("pairID"))) is None:
            continue  # a pair without a label
        disease, target, category = (row.text(name, optional=True) for name in ("disease", "target", "category"))
        if category not in CATEGORIES:
            problems.add(_fault(folder, row.number, "field 'category' is none of DisKnE's"))
        elif not {disease, target} <= about["names"].keys():
            problems.add(_fault(folder, row.number, f"a disease of this line has no name in {ABOUT}"))
        else:
            found.append(DiseaseExample(pair, disease, target, category))
    problems.raise_if_any()
    synonyms = {disease: tuple(names) for disease, names in about["synonyms"].items()}
    return Benchmark(about["name"], tuple(found), about["names"], synonyms, about["facts"])


def _about(path):
    about = read_json(path, "name", "names", "synonyms", "facts", fix=_BUILD)
    names, synonyms = about["names"], about["synonyms"]
    objects = all(isinstance(about[name], dict) for name in ("names", "synonyms", "facts"))
    if not objects or not all(isinstance(name, str) for name in (about["name"], *names.values())):
        raise DataError("its names are not those of a benchmark", file=path.name, fix=_BUILD)
    if not all(
        isinstance(of_one, list) and all(isinstance(name, str) for name in of_one) for of_one in synonyms.values()
    ):
        raise DataError("its synonyms are no lists of names", file=path.name, fix=_BUILD)
    return about


def _fault(folder, line, problem):
    return DataError(problem, file=EXAMPLES, line=line, fix=_BUILD)
