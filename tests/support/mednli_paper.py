"""The data folder that the runs of the MedNLI paper read, in the official layouts, made of the
words of canaries.py."""

from pathlib import Path

import numpy as np

from mednli_jax.data.examples import LABELS
from mednli_jax.nli.read.corpora import CORPORA
from support.canaries import WORDS, phrase, write_pairs
from support.commands import json_lines
from support.files import lay_out
from support.ontology_files import WORDNET, umls_name, umls_relation, umls_type
from support.pair_files import Row, official, write_rows

GENRES = ("fiction", "government", "slate", "telephone", "travel")
# The files of Table 5; the first is that of the baseline.
VECTORS = (
    "glove.840B.300d",
    "fasttext-wiki",
    "fasttext-cc",
    "fasttext-bioasq",
    "fasttext-mimic",
    "glove-bioasq",
    "glove-bioasq-mimic",
    "wiki-mimic",
)
DIM = 8
CONCEPTS = 20


def write_everything(data: Path, pairs: int = 60) -> None:
    """Writes mednli/, snli/ and multinli/ with `pairs` pairs a split (and genre), further umls/,
    wordnet/, vectors/ and metamap.mmi."""
    write_pairs(data / "mednli")
    for split in ("train", "dev", "test"):
        rows = [_pair(f"{split}-{n}", n, n) for n in range(pairs)]
        write_rows(data / "snli" / f"snli_1.0_{split}.jsonl", rows)
    for split in ("train", "dev_matched"):
        rows = []
        for number, genre in enumerate(GENRES):
            for n in range(pairs):
                row = _pair(f"{genre}-{split}-{n}", n, n + 3 * number)
                rows.append({**row, "genre": genre})
        write_rows(data / "multinli" / f"multinli_1.0_{split}.jsonl", rows)
    write_vectors(data / "vectors")
    write_umls(data / "umls")
    lay_out(data / "wordnet", WORDNET)
    for path in (data / "wordnet").iterdir():
        text = path.read_text().replace("entity", WORDS[0])
        path.write_text(text.replace("illness", WORDS[371]))
    write_metamap(data)


def _pair(uid: str, number: int, start: int) -> Row:
    premise = phrase(WORDS[:480], start, 8)
    hypothesis = " ".join(WORDS[370 + start % 100 :][:4])
    return official(uid, LABELS[number % 3], f"{premise} .", hypothesis)


def write_vectors(folder: Path) -> None:
    folder.mkdir()
    for seed, name in enumerate(VECTORS):
        table_VD = np.random.default_rng(seed).normal(size=(len(WORDS), DIM)).round(4)
        lines = []
        for word, vector_D in zip(WORDS, table_VD, strict=True):
            lines.append(f"{word} {' '.join(map(str, vector_D))}\n")
        (folder / f"{name}.txt").write_text("".join(lines))


def cui(number: int) -> str:
    return f"C{number % CONCEPTS + 1:07}"


def write_umls(folder: Path) -> None:
    """Writes a chain of concepts; each but the first is-a its predecessor, and relations have both
    directions."""
    names = ""
    types = ""
    relations = ""
    for n in range(CONCEPTS):
        of_premise = n % 2
        name = WORDS[12 * n] if of_premise else WORDS[362 + 5 * n]
        names += umls_name(cui(n), name, preferred=True, CODE=str(n))
        types += umls_type(cui(n), "T047")
        if n:
            relations += umls_relation(cui(n), "PAR", cui(n - 1), "inverse_isa")
            relations += umls_relation(cui(n - 1), "CHD", cui(n), "isa")
    # two types of relation, as a page's command names two
    for forward, backward in (
        ("has_finding_site", "finding_site_of"),
        ("may_treat", "may_be_treated_by"),
    ):
        relations += umls_relation(cui(0), "RO", cui(7), forward)
        relations += umls_relation(cui(7), "RO", cui(0), backward)
    lay_out(folder, {"MRCONSO.RRF": names, "MRSTY.RRF": types, "MRREL.RRF": relations})


def write_metamap(data: Path) -> None:
    """Writes metamap.mmi: each sentence of MedNLI has two words that are concepts, some of them on
    both sides."""
    lines = ""
    for file in CORPORA["mednli"].files.values():
        for number, row in enumerate(json_lines(data / "mednli" / file)):
            uid = row["pairID"]
            steps = {"p": 1, "h": 1 + number % 3}
            for side, text in (("p", row["sentence1"]), ("h", row["sentence2"])):
                for n, word in enumerate(text.split()[:2]):
                    concept = cui(number // 3 + n * steps[side])
                    trigger = f'["{word}"-tx-1-"{word}"-noun-0]'
                    place = f"{text.index(word)}/{len(word)}"
                    lines += (
                        f"{uid}-{side}|MMI|5.18|{word}|{concept}|[dsyn]|{trigger}|TX|{place}|C01\n"
                    )
    (data / "metamap.mmi").write_text(lines)
