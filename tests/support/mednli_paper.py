"""The data folder that the runs of the MedNLI paper read, in the official layouts, made of the words
of canaries.py."""

import json
from pathlib import Path

import numpy as np

from support.canaries import LABELS, WORDS, write_pairs
from support.files import lay_out
from support.ontology_files import WORDNET, umls_name, umls_relation, umls_type
from support.pair_files import official, write_rows

GENRES = ("fiction", "government", "slate", "telephone", "travel")
# The files of Table 5; the first is that of the baseline.
VECTORS = ("glove.840B.300d", "fasttext-wiki", "fasttext-cc", "fasttext-bioasq", "fasttext-mimic", "glove-bioasq",
           "glove-bioasq-mimic", "wiki-mimic")  # fmt: skip
CONCEPTS = 20
DIM = 8


def write_everything(data: Path, pairs: int = 60) -> None:
    """Writes mednli/, snli/ and multinli/ with `pairs` pairs a split (and genre), further umls/,
    wordnet/, vectors/ and metamap.mmi."""
    write_pairs(data / "mednli")
    for split in ("train", "dev", "test"):
        rows = [_pair(f"{split}-{n}", n, n) for n in range(pairs)]
        write_rows(data / "snli" / f"snli_1.0_{split}.jsonl", rows)
    for split in ("train", "dev_matched"):
        rows = [
            {**_pair(f"{genre}-{split}-{n}", n, n + 3 * g), "genre": genre}
            for g, genre in enumerate(GENRES)
            for n in range(pairs)
        ]
        write_rows(data / "multinli" / f"multinli_1.0_{split}.jsonl", rows)
    write_vectors(data / "vectors")
    write_umls(data / "umls")
    named = {
        name: text.replace("entity", WORDS[0]).replace("illness", WORDS[371])
        for name, text in WORDNET.items()
    }
    lay_out(data / "wordnet", named)
    write_metamap(data)


def _pair(ident, number, start):
    texts = [
        " ".join(WORDS[(start + k) % 480] for k in range(8)) + " .",
        " ".join(WORDS[370 + start % 100 :][:4]),
    ]
    return official(ident, LABELS[number % 3], *texts)


def write_vectors(folder: Path) -> None:
    folder.mkdir(parents=True)
    for seed, name in enumerate(VECTORS):
        rows = np.random.default_rng(seed).normal(size=(len(WORDS), DIM)).round(4)
        lines = (
            f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True)
        )
        (folder / f"{name}.txt").write_text("".join(lines))


def cui(number: int) -> str:
    return f"C{number + 1:07}"


def write_umls(folder: Path) -> None:
    """Writes a chain of concepts; each but the first is-a its predecessor, and relations have both
    directions."""
    folder.mkdir(parents=True)
    names, types, relations = [], [], []
    for n in range(CONCEPTS):
        names.append(umls_name(cui(n), _name(n), preferred=True, CODE=str(n)))
        types.append(umls_type(cui(n), "T047"))
        if n:
            relations.append(umls_relation(cui(n), "PAR", cui(n - 1), "inverse_isa"))
            relations.append(umls_relation(cui(n - 1), "CHD", cui(n), "isa"))
    relations.append(umls_relation(cui(0), "RO", cui(7), "has_finding_site"))
    relations.append(umls_relation(cui(7), "RO", cui(0), "finding_site_of"))
    for file, rows in {"MRCONSO.RRF": names, "MRSTY.RRF": types, "MRREL.RRF": relations}.items():
        (folder / file).write_text("".join(rows))


def _name(number):
    """A word that premises begin with, or one that hypotheses have."""
    return WORDS[12 * number] if number % 2 else WORDS[362 + 5 * number]


def write_metamap(data: Path) -> None:
    """Writes metamap.mmi: each sentence of MedNLI has two words that are concepts, some of them on
    both sides."""
    lines = []
    for split in ("train", "dev", "test"):
        for number, line in enumerate(
            (data / "mednli" / f"mli_{split}_v1.jsonl").read_text().splitlines()
        ):
            row = json.loads(line)
            for side, field in (("p", "sentence1"), ("h", "sentence2")):
                for place, word in enumerate(row[field].split()[:2]):
                    concept = cui(
                        (number // 3 + place * (1 if side == "p" else 1 + number % 3)) % CONCEPTS
                    )
                    start = row[field].index(word)
                    found = f'["{word}"-tx-1-"{word}"-noun-0]'
                    parts = (f"{row['pairID']}-{side}", "MMI", "5.18", word, concept, "[dsyn]", found, "TX",
                             f"{start}/{len(word)}", "C01")  # fmt: skip
                    lines.append("|".join(parts) + "\n")
    (data / "metamap.mmi").write_text("".join(lines))
