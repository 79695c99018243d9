"""Whether the working tree gives the same results as an older commit: `python
launch/same_results.py BASE`.

    python launch/same_results.py main                           every case, about eight minutes of two idle cores
    python launch/same_results.py HEAD~3 --only=bow,esim_kd --keep=/tmp/same
    python launch/same_results.py HEAD --only=bow --plant=token  a planted fault: has to end with exit code 1

Runs each case of CASES with BASE and with a copy of the working tree, and compares what the two
leave on disk and print: prepared arrays and generated corpora byte by byte, batch plans, weights of
the best epoch, predictions, scores. The two sides run at the same time, each with caches of its
own, and on a core of its own where there are two. Exit codes: 0 the same, 1 a difference or a
failed command, 2 wrong usage.

Only outside interfaces are used: commands, flags, launch scripts and files, so that modules can
move between the two commits. Three points need more words:
- Batch plans are not on disk. A hook (PLAN_HOOK) records what `Batches.epoch` and `Batches.once` return, from the first
  module of PLAN_MODULES that exists; add a module there when it moves. Where one side has none, the table says
  "inferred": weights and losses of several epochs are the same only if the batches were.
- A run keeps probabilities with six decimals, no logits. Exact evidence of the logits are the weights of the best
  epoch (float32, from the last checkpoint) and the losses (float64), which are compared with the same tolerance.
- Both sides use this interpreter, with the side's tree first in PYTHONPATH: the package is pure Python, and a virtual
  environment for each side costs minutes. --install makes the environments, for commits with other dependencies.
All files that the cases read are made up here. A command may have several names,
`build_diskne.py|diskne.py`, of which each side runs the first that its tree has. Programs are
compiled without the compiler's expensive passes, which would be most of the time.
"""

import argparse
import gzip
import json
import math
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

TOLERANCE = (
    1e-5  # of probabilities, scores, losses and weights; whole numbers and strings have to be equal
)

# Fields that may differ, at the top level of these files: names of caches, versions and times.
ALLOWED = {
    "manifest.json": {"key", "format", "mednli_jax", "files", "sha256"},
    "data.json": {"key", "format", "mednli_jax", "files", "sha256"},
    "result.json": {"seconds", "compile_seconds", "train_examples_per_second", "prepared"},
    "metrics.jsonl": {"seconds", "examples_per_second"},
    "benchmark.json": {"mednli_jax"},
    "trees.json": {"sha256"},
    "types.json": {"sha256"},
}
ALLOWED_ANYWHERE = {"note", "notes"}  # sentences for the reader
COMPARED = {".json", ".jsonl", ".npy", ".txt", ".tsv", ".csv", ".out"}
PLANS = "plans.jsonl"
EXACT = (".npy", ".txt", ".tsv", PLANS, "vocabulary.json", "rows.json")  # byte by byte
# How a run was made, and what the cases start from.
LEFT_OUT = {"config.json", "env.json", "log.txt", "checkpoints", "tensorboard", "texts"}

PLAN_MODULES = ("mednli_jax.data.batching", "mednli_jax.corpora.batching", "mednli_jax.batching")
PLAN_HOOK = """
import hashlib, importlib, json, runpy, sys
file, modules, name = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
sys.argv = ["train", *sys.argv[4:]]
def recorded(method):
    def record(self, *arguments):
        plan = method(self, *arguments)
        rows = [[list(rows.shape), hashlib.sha256(rows.tobytes()).hexdigest()] for _, rows in plan]
        with open(file, "a") as out:
            print(json.dumps([method.__name__, str(arguments), rows]), file=out)
        return plan
    return record
for module in modules:
    try:
        owner = importlib.import_module(module).Batches
    except (ImportError, AttributeError):
        continue
    owner.epoch, owner.once = recorded(owner.epoch), recorded(owner.once)
    break
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""

# Commands that follow each other run in one process, because its start takes most of their time.
TOGETHER = {"prepare", "evaluate", "analyze", "report"}
TOGETHER_HOOK = """
import contextlib, json, runpy, sys
for number, name, flags, file in json.loads(sys.argv.pop()):
    sys.argv = [name, *flags]
    with open(file, "w") as out, contextlib.redirect_stdout(out):
        try:
            runpy.run_module(f"mednli_jax.{name}", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code:
                print(f"(command {number})", file=sys.stderr)
                raise
"""

# name -> (pattern, replacement), for the one place of the package that the pattern matches.
PLANTS = {
    "token": (
        r"self\._index\.get\(token, UNK\)",
        r'self._index.get("pain" if token == "fever" else token, UNK)',
    ),
    "gate": (r"c = k \* \(f \* c \+ i \* g\)", r"c = k * (i * c + f * g)"),
}


# -- cases -------------------------------------------------------------------------------------------------------------

# Every field whose default may change or that shapes the time is given.
TRAIN = (
    "--config.train.epochs=3 --config.train.batch_size=32 --config.train.learning_rate=0.01 "
    "--config.train.patience=12 --config.train.checkpoint_epochs=1 --config.train.max_buckets={buckets} "
    "--config.train.group={group} "
)
ONE, THREE = (
    TRAIN.format(buckets=1, group=1),
    TRAIN.format(buckets=2, group=3),
)  # hypotheses of a premise together
FILE = "--config.data.dir=texts/source --config.data.max_length=24 --config.vectors.path=texts/vectors.txt "
FILE += "--config.vectors.dim=8 "
RUN, SMALL, SEED = "--workdir=run ", "--config.model.hidden_size=16 ", "--config.seeds=0 "
PASSAGE = (
    "--config.data.limit=400 --config.data.max_passage=100 --config.vectors.dim=12 "
    + SMALL
    + SEED
    + ONE
)
WHOLE = "--config.data.max_length=400 --config.data.lowercase=False --config.vectors.dim=4"
KD = "train --config=@esim_kd.py:demo --config.data.limit=300 --config.data.max_length=16 --config.vectors.dim=16 "
KD += SMALL + SEED + ONE + "--config.train.epochs=10 "
TARGET = "--config=@bow.py:file " + FILE.replace("source", "target") + SMALL + SEED + ONE

TAGGED = "--config.data.dir=texts/tagged --config.data.max_length=24 --config.vectors.dim=8 "
LINKED = "prepare --config=@esim_kd.py:file " + TAGGED
ALL = "--config.knowledge.relations=all --config.knowledge.direction=all "
MENTIONED = ALL + "--config.knowledge.graph=mentioned --config.knowledge.candidates=all "
TYPED = "--config=@esim_kim.py:file " + TAGGED + "--config.knowledge.max_path=8 "
RETROFIT = "prepare --config=@retrofit.py:file " + FILE
BOW = "prepare --config=@bow.py:file " + TAGGED
READER = "--config.data.dir=texts/clicr --config.vectors.dim=8 " + SMALL + SEED + ONE


def ontology(name: str) -> str:
    return f"--config.knowledge.ontology=texts/{name} "


def linked(name: str) -> list[str]:
    """Prepares a corpus with an ontology: is-a edges, then the stored copy with other links, then
    all relations."""
    return [
        LINKED + ontology(name),
        LINKED + ontology(name) + "--config.knowledge.max_path=2 --config.knowledge.max_links=3",
        LINKED + ontology(name) + MENTIONED,
        LINKED
        + ontology(name)
        + "--config.knowledge.direction=undirected --config.knowledge.permute_seed=1",
    ]


# name -> commands, run in one folder. @ is the folder configs/; < a file goes to stdin; "interrupt"
# sends SIGINT after the first epoch; "two" gives the command two devices. What `predict` and --json
# print is compared, too.
CASES = {
    "corpora": [
        f"prepare --config=@esim_kd.py:demo {WHOLE}",
        f"prepare --config=@esim_kd.py:demo_full {WHOLE}",
        *(
            f"prepare --config=@{name}.py:demo"
            for name in ("ga_ent", "ga_anonym", "ga_noent", "diskne_esim")
        ),
        "build_diskne.py|diskne.py --out=diskne",
        "build_diskne.py|diskne.py --out=others --negatives=random --wording=full --seed=3",
        "build_diskne.py|diskne.py --out=built --corpus=demo --ontology=mesh",
        *(
            f"prepare --config=@diskne_bow.py:demo --config.diskne.{choice}"
            for choice in ("wording=mention", "wording=full", "negatives=random")
        ),
        "prepare --config=@esim_kd.py:demo --config.data.limit=100",
        "prepare --config=@ga_ent.py:demo --config.data.limit=100",
    ],
    "bow": [f"train --config=@bow.py:file --workdir=run --config.seeds=0,1 {FILE}{SMALL}{THREE}"],
    "infersent_kd": [f"train --config=@infersent_kd.py:file {RUN}{SEED}{FILE}{SMALL}{THREE}"],
    "esim_kd": [
        f"{KD} {RUN}",
        f"interrupt {KD} --workdir=resumed",
        f"{KD} --workdir=resumed --resume",
        "predict --run=run < texts/pairs.txt",
        "evaluate --run=resumed --split=test --json",
    ],
    "esim_paper": [
        f"train --config=@esim.py:file {RUN}{SEED}{FILE}{SMALL}{ONE} --config.model.masking=paper "
        "--config.model.dropout=0.5"
    ],
    "features": [f"train --config=@features.py:file {RUN}{SEED}{FILE} --config.model.trees=20"],
    "hypothesis_only": [
        f"train --config=@hypothesis_only.py:file {RUN}{SEED}{ONE} --config.data.dir=texts/source "
        "--config.model.dim=16 --config.model.buckets=1024"
    ],
    "bert": [
        f"train --config=@bert.py:file {RUN}{SEED}{SMALL}{ONE} --config.data.dir=texts/source "
        "--config.data.max_length=40 --config.data.pieces=200 --config.model.layers=1 "
        "--config.model.intermediate_size=32 --config.model.positions=64"
    ],
    "ga_ent": [
        f"train --config=@ga_ent.py:demo {RUN}{PASSAGE}",
        "predict --run=run < texts/queries.txt",
    ],
    "ga_noent": [f"train --config=@ga_noent.py:demo {RUN}{PASSAGE}"],
    "sa_ent": [f"train --config=@sa_ent.py:demo {RUN}{PASSAGE}"],
    "diskne_esim": [
        f"train --config=@diskne_esim.py:demo {RUN}{SEED}{ONE} --config.train.epochs=1 "
        "--config.vectors.dim=8 --config.model.hidden_size=8 --config.diskne.diseases=D006333,D011014"
    ],
    "transfer": [
        f"train --config=@bow.py:file --workdir=source {FILE}{SMALL}{SEED}{ONE}",
        f"train {TARGET} --workdir=alone",
        f"train {TARGET} --workdir=target --config.transfer.init_from=source",
        "evaluate --run=source --config=@bow.py:file --config.data.dir=texts/target --json",
        "report alone target --compare --json",
    ],
    "analyze": [
        "analyze all --corpus=demo --input=hypothesis --m=300 --n=8 --k=100 --tau=.75 --seed=0 --out=figures",
        "analyze cloze-stats --corpus=demo_cloze --out=cloze",
    ],
    "umls": [
        *linked("umls"),
        LINKED
        + ontology("umls")
        + "--config.knowledge.sources=('SNOMEDCT_US','MSH') --config.knowledge.types=('T184',)",
        LINKED + ontology("umls") + "--config.knowledge.abbreviations=bundled",
    ],
    "snomed": [
        *linked("snomed"),
        LINKED
        + ontology("snomed")
        + "--config.knowledge.languages=() --config.knowledge.types=('finding',)",
    ],
    "obo": [
        *linked("signs.obo"),
        f"train --config=@esim_kd.py:file {TAGGED}{ontology('signs.obo')}{RUN}{SEED}{SMALL}{ONE}",
    ],
    "wordnet": linked("wordnet"),
    "typed": [
        f"train {TYPED}{ontology('wordnet')}{RUN}{SEED}{SMALL}{ONE}",
        f"prepare {TYPED}{ontology('umls')}--config.knowledge.relations=may_cause,occurs_with",
        f"prepare {TYPED}{ontology('snomed')}",
        f"prepare {TYPED}{ontology('signs.obo')}--config.knowledge.mentions=texts/spans.tsv "
        "--config.knowledge.candidates=all",
    ],
    "retrofit": [
        RETROFIT + ontology("signs.obo"),
        RETROFIT
        + ontology("umls")
        + ALL
        + "--config.vectors.retrofit_relations=('is_a','may_cause')",
        RETROFIT + "--config.vectors.retrofit=texts/lexicon.txt --config.vectors.retrofit_rounds=3",
        RETROFIT + "--config.vectors.retrofit=unit",
        f"train --config=@retrofit.py:file {FILE}{ontology('signs.obo')}{RUN}{SEED}{SMALL}{ONE}"
        "--config.vectors.retrofit=concepts",
        "predict --run=run < texts/pairs.txt",
    ],
    "metamap": [
        *(
            f"{LINKED}{ontology('umls')}--config.knowledge.mentions=texts/{name}"
            for name in ("mentions.mmi", "spans.tsv")
        ),
        f"{LINKED}{ontology('umls')}--config.knowledge.mentions=texts/mentions.mmi {MENTIONED}",
        f"{LINKED}{ontology('umls')}--config.knowledge.mentions=texts/spans.tsv {MENTIONED}",
        f"{LINKED}--metamap=sentences",
    ],
    "vectors": [
        *(
            f"{BOW}--config.vectors.path=texts/{name}"
            for name in ("word2vec.bin", "fasttext.bin", "pairs", "vectors.txt.gz")
        ),
        f"{BOW}--config.vectors.path=texts/vectors.txt "
        "--config.data.lowercase=False --config.vectors.unknown=random --config.vectors.lowered=False",
    ],
    "weights": [
        f"train --config=@bert.py:file {RUN}{SEED}{ONE} --config.data.dir=texts/tagged --config.data.max_length=40 "
        "--config.model.weights=texts/weights",
        "predict --run=run < texts/pairs.txt",
    ],
    "formats": [
        "prepare --config=@bow.py:file --config.data.dir=texts/commas --config.vectors.dim=8 --config.data.keep=last",
        *(
            f"prepare --config=@bow.py:mednli{code} --config.data.dir=texts/data "
            f"--config.vectors.path=texts/vectors.txt --config.vectors.dim=8 --config.data.limit=50 "
            f"--config.data.builder={builder}"
            for code, builder in (("", "direct"), ("", "tfds"), ("_code", "direct"))
        ),
        f"{BOW}--config.data.hypothesis_only=True",
        f"{BOW}--config.data.tokens=blanks",
        "prepare --config=@ga_ent.py:file --config.data.dir=texts/clicr",
        "prepare --config=@sa_ent.py:file --config.data.dir=texts/clicr --config.data.max_words=20",
    ],
    "ga_anonym": [f"train --config=@ga_anonym.py:demo {RUN}{PASSAGE}"],
    "sa_anonym": [
        f"train --config=@sa_anonym.py:file {RUN}{READER}",
        "evaluate --run=run --split=dev --skills=texts/skills.tsv --vectors=texts/vectors.txt --scores=scores.jsonl "
        "--json",
        "predict --run=run < texts/queries.jsonl",
    ],
    "new_texts": [
        f"train --config=@infersent.py:file {RUN}{TAGGED}{SMALL}{ONE}--config.seeds=0,1",
        "evaluate --run=run --probe=texts/probe.jsonl --json",
        "evaluate --run=run --partition=texts/part.txt --split=test --json",
        "evaluate --run=run --merged --spans=texts/spans.tsv --split=test --json",
        "predict --run=run < texts/pairs.jsonl",
        "predict --run=run < texts/with_header.tsv",
        "report run --json",
    ],
    "predictions": [
        "evaluate --predictions=texts/answers.jsonl --corpus=demo_cloze --vectors=texts/vectors.txt --json",
        "evaluate --predictions=texts/clicr_answers.json --corpus=texts/clicr --split=dev --vectors=texts/vectors.txt "
        "--skills=texts/skills.tsv --scores=scores.jsonl --json",
    ],
    "two_devices": [
        f"two train --config=@esim.py:file {RUN}{SEED}{FILE}{SMALL}{THREE}--config.model.dropout=0.3",
        f"two train --config=@ga_ent.py:file --workdir=reader {READER}",
        "two evaluate --run=run --split=test --json",
    ],
}
# Runs of one side that have to be the same: one that was interrupted and resumed, and one that was
# not.
SAME_RUNS = {"esim_kd": ("run", "resumed")}


THINGS = [
    "fever",
    "cough",
    "pain",
    "edema",
    "asthma",
    "sepsis",
    "stroke",
    "anemia",
    "nausea",
    "rash",
]


def write_texts(folder: Path) -> None:
    """Two small corpora of made-up pairs, three to a premise, and word vectors; new pairs and a new
    query."""
    draw, things = random.Random(0), THINGS
    for corpus, verb in (("source", "has"), ("target", "reports")):
        (folder / corpus).mkdir(parents=True)
        for split, premises in (("train", 80), ("dev", 20), ("test", 30)):
            lines = ["premise\thypothesis\tlabel"]
            for number in range(premises):
                one, other, *more = draw.sample(things, draw.randint(2, 8))
                premise = f"The patient {verb} {' and '.join([one, *more])} since day {number}"
                for label, said in (
                    ("entailment", f"{verb} {one}"), ("neutral", f"{verb} {other}"), ("contradiction", f"denies {one}"),
                ):  # fmt: skip
                    lines.append(f"{premise}\tHe {said}\t{label}")
            (folder / corpus / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    words = [*things, "the", "patient", "he", "has", "reports", "and", "denies", "since", "day"]
    rows = (f"{word} " + " ".join(f"{draw.gauss(0, 0.5):.4f}" for _ in range(8)) for word in words)
    (folder / "vectors.txt").write_text("\n".join(rows) + "\n")
    (folder / "pairs.txt").write_text(
        "He has a fever .\tThe patient is afebrile .\nNo chest pain .\tShe has chest pain .\n"
        '{"premise": "Pt with h/o CHF , on lasix .", "hypothesis": "The patient has heart failure ."}\n'
    )
    (folder / "queries.txt").write_text(
        "BEG__Fever__END and BEG__cough__END , treated with BEG__prednisone__END .\tHe had @placeholder .\n"
    )


# number -> its names, the first preferred; the numbers of its parents
CONCEPTS = {
    1: (["finding"], []),
    2: (["symptom", "complaint"], [1]),
    3: (["pain", "ache"], [2]),
    4: (["fever", "pyrexia"], [2]),
    5: (["cough"], [2]),
    6: (["edema", "swelling"], [3]),
    7: (["rash", "red swelling"], [6]),
    8: (["asthma"], [5, 1]),
    9: (["sepsis", "septic fever"], [4]),
    10: (["stroke"], [3]),
    11: (["anemia", "pallor"], [1]),
    12: (["nausea"], [2, 11]),
}
MAY_CAUSE, OCCURS_WITH = [(9, 12), (10, 7), (8, 3)], [(4, 5), (11, 10)]


def _noted(draw: random.Random, name: str) -> str:
    """A name as a note has it."""
    return draw.choice(
        [name, name, name.capitalize(), f"naïve {name}", f"{name} (3/10)", f"no {name}"]
    )


def write_tagged(folder: Path) -> list[tuple[str, str, str]]:
    """A corpus of JSON lines with ids, genres and awkward characters; a probe of it, new pairs, ids
    of a part.

    Returns (uid, side, sentence) of all pairs.
    """
    draw, names, texts = random.Random(1), [n for names, _ in CONCEPTS.values() for n in names], []
    lines_of = {}
    for split, premises in (("train", 60), ("dev", 20), ("test", 30), ("probe", 20)):
        rows = []
        for number in range(premises):
            one, other, *more = (
                _noted(draw, name) for name in draw.sample(names, draw.randint(2, 5))
            )
            premise = f"Pt. w/ {one}, {' & '.join(more) or 'stable'} – on day {number}."
            for label, said in (
                ("entailment", f"Has {one}"),
                ("neutral", f"Had {other}."),
                ("contradiction", "Well"),
            ):
                uid = f"{split}{number}{label[0]}"
                row = {"pairID": uid, "gold_label": label, "sentence1": premise, "sentence2": said}
                rows.append(
                    row | {"genre": draw.choice(["swap", "keep"])} if split == "probe" else row
                )
                texts += [(uid, "premise", premise), (uid, "hypothesis", said)]
        lines_of[split] = [
            json.dumps(row, ensure_ascii=number % 2 == 0) for number, row in enumerate(rows)
        ]
    (folder / "tagged").mkdir()
    (folder / "commas").mkdir()
    (folder / "data" / "mednli").mkdir(parents=True)
    for split, lines in lines_of.items():
        place = folder / "probe.jsonl" if split == "probe" else folder / "tagged" / f"{split}.jsonl"
        place.write_text("\n".join(lines) + "\n")
        if split != "probe":
            (folder / "data" / "mednli" / f"mli_{split}_v1.jsonl").write_text(place.read_text())
            rows = (json.loads(line) for line in lines)
            cells = (
                f'{row["pairID"]},{row["gold_label"]},"{row["sentence1"]}","{row["sentence2"]}"'
                for row in rows
            )
            (folder / "commas" / f"{split}.csv").write_text(
                "\r\n".join(["uid,label,premise,hypothesis", *cells]) + "\r\n"
            )
    probe = [json.loads(line) for line in lines_of["probe"]]
    pairs = [{"premise": row["sentence1"], "hypothesis": row["sentence2"]} for row in probe]
    old = [
        {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "genre": row["genre"]}
        for row in probe[:5]
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs + old))
    table = ["premise\thypothesis", *(f"{row['sentence1']}\t{row['sentence2']}" for row in probe)]
    (folder / "with_header.tsv").write_text("\n".join(table) + "\n")
    (folder / "part.txt").write_text(
        "".join(f"test{number}e\ntest{number}c\n" for number in range(0, 30, 3))
    )
    return [text for text in texts if not text[0].startswith("probe")]


def write_mentions(folder: Path, texts: list[tuple[str, str, str]]) -> None:
    """Concepts of the sentences as MetaMap and two other programs would name them, some with a
    second candidate."""
    draw, mmi, spans, rows = (
        random.Random(2),
        [],
        ["uid\tside\tstart_char\tend_char\tconcept\tscore\tnegated"],
        [],
    )
    for uid, side, text in texts:
        for number, (names, _) in CONCEPTS.items():
            for place, name in ((text.lower().find(name), name) for name in names):
                if place < 0 or draw.random() < 0.1:
                    continue
                words, negated = text[place : place + len(name)], int(draw.random() < 0.2)
                for other in (number, *([1 + number % 12] if draw.random() < 0.3 else [])):
                    score, cui = round(draw.uniform(1, 9), 2), f"C{other:07}"
                    trigger = f'["{names[0]}"-tx-1-"{words}"-noun-{negated}]'
                    cells = (
                        f"{uid}-{side[0]}",
                        "MMI",
                        f"{score}",
                        names[0],
                        cui,
                        "[sosy]",
                        trigger,
                        "TX",
                    )
                    mmi.append("|".join([*cells, f"{place}/{len(name)}", "C23"]))
                    end = place + len(name)
                    spans.append(f"{uid}\t{side}\t{place}\t{end}\t{cui}\t{score}\t{negated}")
                    row = {
                        "uid": uid,
                        "side": side,
                        "start_char": place,
                        "end_char": end,
                        "concept": cui,
                    }
                    rows.append(json.dumps(row | {"score": score}))
    mmi.insert(1, f"{texts[0][0]}-p|AA|HTN|hypertension|1|4|3|0|8:3|")
    (folder / "mentions.mmi").write_text("\n".join(mmi) + "\n")
    (folder / "spans.tsv").write_text("\n".join(spans) + "\n")
    (folder / "spans.jsonl").write_text("\n".join(rows) + "\n")


def write_terminologies(folder: Path) -> None:
    """CONCEPTS in the layouts of the UMLS, SNOMED CT, OBO and WordNet, each with rows that its
    reader leaves out."""
    edges = [(child, parent) for child, (_, parents) in CONCEPTS.items() for parent in parents]
    _write_umls(folder / "umls", edges)
    _write_snomed(folder / "snomed" / "Snapshot" / "Terminology", edges)
    _write_obo(folder / "signs.obo")
    _write_wordnet(folder / "wordnet")
    (folder / "abbreviations.tsv").write_text("short\texpansion\nPt\tpain\nDay\tnausea\n")
    (folder / "stop.txt").write_text("# not linked\nfever\nstroke\n")
    lexicon = [
        "fever pyrexia sepsis cough",
        "pain ache stroke",
        "fever nausea",
        "anemia",
        "edema pain rash absent",
    ]
    (folder / "lexicon.txt").write_text("\n".join(lexicon) + "\n")


def _write_umls(folder, edges):
    def row(count, **fields):
        return "".join(f"{fields.get(str(place), '')}|" for place in range(count)) + "\n"

    def name(number, text, place, source="SNOMEDCT_US", language="ENG", suppress="N"):
        marks = ("P", "PF", "Y") if place == 0 else ("S", "VO", "N")
        cells = {
            "0": f"C{number:07}",
            "1": language,
            "2": marks[0],
            "4": marks[1],
            "6": marks[2],
            "11": source,
        }
        return row(18, **cells, **{"12": "PT", "13": f"{number}", "14": text, "16": suppress})

    def relation(one, kind, other, more="", source="SNOMEDCT_US", suppress="N"):
        cells = {
            "0": f"C{one:07}",
            "2": "SCUI",
            "3": kind,
            "4": f"C{other:07}",
            "6": "SCUI",
            "7": more,
        }
        return row(16, **cells, **{"10": source, "14": suppress})

    conso = [
        name(n, text, place)
        for n, (names, _) in CONCEPTS.items()
        for place, text in enumerate(names)
    ]
    conso += [
        name(9, "blood poisoning", 1, "MSH"),
        name(4, "fièvre", 1, language="FRE"),
        name(5, "day", 1, suppress="O"),
    ]
    conso += [name(13, "stable", 0, "MSH")]
    kinds = ["T184" if 2 < number < 8 else "T047" for number in CONCEPTS]
    sty = [
        row(6, **{"0": f"C{n:07}", "1": kind, "3": "made up"})
        for n, kind in zip(CONCEPTS, kinds, strict=True)
    ]
    sty += [row(6, **{"0": "C0000013", "1": "T184"}), row(6, **{"0": "C0000004", "1": "T033"})]
    rel = [
        relation(child, "PAR", parent, "inverse_isa")
        if child % 2
        else relation(parent, "CHD", child)
        for child, parent in edges
    ]
    rel += [relation(other, "RO", one, "may_cause") for one, other in MAY_CAUSE]
    rel += [relation(other, "RO", one, "occurs_with") for one, other in OCCURS_WITH]
    rel += [
        relation(12, "RB", 4),
        relation(13, "PAR", 2, source="MSH"),
        relation(7, "PAR", 4, suppress="O"),
    ]
    folder.mkdir()
    for file, rows in (("MRCONSO.RRF", conso), ("MRSTY.RRF", sty), ("MRREL.RRF", rel)):
        (folder / file).write_text("".join(rows))


def _write_snomed(folder, edges):
    folder.mkdir(parents=True)
    component, isa, site, cause = (
        "id effectiveTime active moduleId",
        "116680003",
        "363698007",
        "42752001",
    )
    columns = {
        "Concept": f"{component} definitionStatusId",
        "Description-en": f"{component} conceptId languageCode typeId term caseSignificanceId",
        "Relationship": f"{component} sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId",
    }

    def row(kind, **given):
        given = {"id": "1", "effectiveTime": "20240101", "active": "1", **given}
        return (
            "\t".join(given.get(column, "900000000000000001") for column in columns[kind].split())
            + "\r\n"
        )

    def term(number, text, kind="900000000000013009", language="en", active="1"):
        given = {
            "conceptId": f"{number}",
            "term": text,
            "typeId": kind,
            "languageCode": language,
            "active": active,
        }
        return row("Description-en", **given)

    full = "900000000000003001"
    tags = {number: "disorder" if number > 7 else "finding" for number in CONCEPTS}
    attributes = {isa: "Is a", site: "Finding site", cause: "Causative agent"}
    rows = {
        "Concept": [row("Concept", id=f"{number}") for number in (*CONCEPTS, *attributes)],
        "Description-en": [term(n, text) for n, (names, _) in CONCEPTS.items() for text in names],
        "Relationship": [
            row("Relationship", sourceId=f"{one}", destinationId=f"{other}", typeId=kind)
            for kind, pairs in ((isa, edges), (cause, MAY_CAUSE), (site, OCCURS_WITH))
            for one, other in pairs
        ],
    }
    rows["Concept"] += [row("Concept", id="13", active="0")]
    rows["Description-en"] += [
        term(n, f"{names[0]} ({tags[n]})", full) for n, (names, _) in CONCEPTS.items()
    ]
    rows["Description-en"] += [
        term(n, f"{name} (attribute)", full) for n, name in attributes.items()
    ]
    rows["Description-en"] += [
        term(4, "day", active="0"),
        term(5, "toux", language="fr"),
        term(13, "well"),
    ]
    rows["Relationship"] += [
        row("Relationship", sourceId="7", destinationId="4", typeId=isa, active="0")
    ]
    for kind, lines in rows.items():
        name, _, language = kind.partition("-")
        file = f"sct2_{name}_Snapshot{f'-{language}' if language else ''}_INT_20240101.txt"
        (folder / file).write_text(
            "\t".join(columns[kind].split()) + "\r\n" + "".join(lines), newline=""
        )


def _write_obo(file):
    stanzas = ["format-version: 1.2\ndata-version: 2024-01-01\nontology: signs\n"]
    others = [(*pair, "RO:1") for pair in MAY_CAUSE] + [(*pair, "RO:2") for pair in OCCURS_WITH]
    for number, (names, parents) in CONCEPTS.items():
        lines = ["[Term]", f"id: C{number:07}", f"name: {names[0]}"]
        lines += [f'synonym: "{name}" EXACT []' for name in names[1:]]
        lines += [f'synonym: "well {number}" BROAD []', f"xref: MESH:D{number:06}"]
        lines += [f"is_a: C{parent:07} ! {CONCEPTS[parent][0][0]}" for parent in parents]
        lines += [
            f"relationship: {kind} C{other:07}" for one, other, kind in others if one == number
        ]
        stanzas.append("\n".join(lines) + "\n")
    stanzas.append("[Term]\nid: C0000099\nname: well\nis_obsolete: true\nreplaced_by: C0000011\n")
    stanzas += [
        f"[Typedef]\nid: RO:{n}\nname: {name}\n"
        for n, name in ((1, "may cause"), (2, "occurs with"))
    ]
    file.write_text("\n".join(stanzas))


def _write_wordnet(folder):
    folder.mkdir()
    licence = "  1 This software and database is made up.  \n  2 WordNet 3.0 Copyright 2006 by nobody.  \n"
    verbs = {
        1: (["ache", "hurt"], []),
        2: (["swell"], [1]),
        3: (["cough"], []),
        4: (["feature"], [3]),
    }
    opposite, part = {(4, 11): "!", (11, 4): "!"}, dict.fromkeys(MAY_CAUSE, "#p")
    for letter, name, synsets in (("n", "noun", CONCEPTS), ("v", "verb", verbs)):
        data, senses = [], {}
        for number, (words, parents) in synsets.items():
            pointers = [f"@ {parent * 100:08} {letter} 0000" for parent in parents]
            pointers += [
                f"{sign} {other * 100:08} n {'0101' if sign == '!' else '0000'}"
                for (one, other), sign in (opposite | part).items()
                if letter == "n" and one == number
            ]
            pointers += [f"+ {number * 300:08} n 0101"] if letter == "v" and number < 3 else []
            forms = " ".join(f"{word.replace(' ', '_')} 0" for word in words)
            end = " 01 + 02 00" if letter == "v" else ""
            file = 29 if letter == "v" else 26
            counted = " ".join([f"{len(pointers):03}", *pointers])
            data.append(
                f"{number * 100:08} {file} {letter} {len(words):02x} {forms} {counted}{end} | made up  \n"
            )
            for word in words:
                senses.setdefault(word.replace(" ", "_"), []).append(f"{number * 100:08}")
        index = [
            f"{word} {letter} {len(of)} 1 @ {len(of)} 0 {' '.join(of)}  \n"
            for word, of in sorted(senses.items())
        ]
        (folder / f"data.{name}").write_text(licence + "".join(data))
        (folder / f"index.{name}").write_text(licence + "".join(index))
    (folder / "noun.exc").write_text("feet foot\nrashes rash\n")


def write_vectors(folder: Path) -> None:
    """Word vectors in the other formats: word2vec's and fastText's binaries, an array, BioASQ's
    pair, gzipped text."""
    draw = np.random.default_rng(3)
    words = [*THINGS, "Pt", "pain", "Fever", "on", "day", "naïve", "has", ",", "ache"]
    words, dim, buckets = list(dict.fromkeys(words)), 8, 50
    matrix = draw.normal(0, 0.5, (len(words) + buckets, dim)).astype("<f4")
    rows = zip(words, matrix, strict=False)
    word2vec = b"".join(word.encode() + b" " + row.tobytes() + b"\n" for word, row in rows)
    (folder / "word2vec.bin").write_bytes(f"{len(words)} {dim}\n".encode() + word2vec)
    parts = [struct.pack("<2i", 793712314, 12)]
    parts.append(struct.pack("<12id", dim, 5, 1, 1, 5, 1, 3, 2, buckets, 3, 4, 100, 1e-4))
    parts.append(struct.pack("<3i2q", len(words), len(words), 0, 99, -1))
    parts += [word.encode() + b"\0" + struct.pack("<qb", 7, 0) for word in words]
    parts += [
        struct.pack("<?2q", False, *matrix.shape),
        matrix.tobytes(),
        struct.pack("<?2q2f", False, 1, 2, 1, 2),
    ]
    (folder / "fasttext.bin").write_bytes(b"".join(parts))
    np.save(folder / "array.npy", matrix[: len(words)])
    (folder / "array.vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "pairs").mkdir()
    (folder / "pairs" / "types.txt").write_text("\n".join(words) + "\n")
    numbers = "\n".join(" ".join(f"{number:.4f}" for number in row) for row in matrix[: len(words)])
    (folder / "pairs" / "vectors.txt").write_text(numbers + "\n")
    (folder / "vectors.txt.gz").write_bytes(
        gzip.compress((folder / "vectors.txt").read_bytes(), mtime=0)
    )


def write_weights(folder: Path) -> None:
    """A small BERT with random weights in the layout of the Transformers library."""
    from safetensors.numpy import save_file

    draw, hidden, inner, folder = np.random.default_rng(4), 16, 32, folder / "weights"
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *THINGS,
        *"abcdefghijklmnopqrstuvwxyz,.&()/0123456789",
    ]
    pieces += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    shapes = {"embeddings.word_embeddings.weight": (len(pieces), hidden)}
    shapes |= {"embeddings.position_embeddings.weight": (64, hidden)}
    shapes |= {"embeddings.token_type_embeddings.weight": (2, hidden)}
    layer = "encoder.layer.0"
    dense = {
        f"{layer}.attention.self.{name}": (hidden, hidden) for name in ("query", "key", "value")
    }
    dense |= {f"{layer}.attention.output.dense": (hidden, hidden), "pooler.dense": (hidden, hidden)}
    dense |= {
        f"{layer}.intermediate.dense": (inner, hidden),
        f"{layer}.output.dense": (hidden, inner),
    }
    for name, shape in dense.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        shapes |= {f"{name}.LayerNorm.weight": (hidden,), f"{name}.LayerNorm.bias": (hidden,)}
    tensors = {
        f"bert.{name}": draw.normal(0, 0.1, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    sizes = {
        "vocab_size": len(pieces),
        "hidden_size": hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    sizes |= {"intermediate_size": inner, "max_position_embeddings": 64, "model_type": "bert"}
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(sizes))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")


def write_queries(folder: Path) -> None:
    """A cloze corpus in CliCR's layout, answers of another system to it and to the bundled one, and
    skills."""
    draw, names = random.Random(5), [n for names, _ in CONCEPTS.values() for n in names]
    (folder / "clicr").mkdir()
    answers, skills = {}, ["uid\tskill"]
    for split, reports in (("train", 60), ("dev", 20), ("test", 20)):
        articles = []
        for report in range(reports):
            found = draw.sample(names, draw.randint(4, 8))
            marked = [f"BEG__{name.replace(' ', '_')}__END" for name in found]
            context = [
                f"He had {one} , then {other} (day {report}) ." for one, other in pairwise(marked)
            ]
            asked = []
            for number in range(2):
                uid, answer = f"{split}.{report}.{number}", draw.choice(found)
                forms = [
                    {
                        "text": answer,
                        "cui": f"C{number}",
                        "sem_type": draw.choice(["problem", "test"]),
                        "origin": "dataset",
                    }
                ]
                forms += (
                    [{**forms[0], "text": f"acute {answer}", "origin": "UMLS"}]
                    if draw.random() < 0.5
                    else []
                )
                text = f"On day {report} the patient with {draw.choice(marked)} had @placeholder ."
                asked.append({"id": uid, "query": text, "answers": forms})
                if split == "dev":
                    answers[uid] = draw.choice(
                        [answer, f"the {answer.upper()}", draw.choice(names), "acute pain"]
                    )
                    skills.append(
                        f"{uid}\t{draw.choice(['bridging', 'none', 'ellipsis', 'tracking'])}"
                    )
            document = {
                "title": f"A case of {marked[0]}",
                "context": "\n".join(context),
                "qas": asked,
            }
            articles.append({"source": f"{split}{report}", "document": document})
        (folder / "clicr" / f"{split}1.0.json").write_text(
            json.dumps({"version": "1.0", "data": articles})
        )
    del answers["dev.3.1"]  # a query without an answer
    (folder / "clicr_answers.json").write_text(json.dumps(answers))
    (folder / "skills.tsv").write_text("\n".join(skills) + "\n")
    lines = [
        json.dumps({"uid": f"demo-cloze-test-{number:04}.{query}", "answer": draw.choice(names)})
        for number in range(75)
        for query in range(1, 5)
    ]
    (folder / "answers.jsonl").write_text("\n".join(lines) + "\n")
    row = {
        "passage": "BEG__Fever__END and BEG__dry_cough__END .\nThe BEG__fever__END fell .",
        "query": "No @placeholder .",
    }
    (folder / "queries.jsonl").write_text(json.dumps(row) + "\n")


def write_all(folder: Path) -> None:
    """Every file that a case reads."""
    write_texts(folder)
    write_mentions(folder, write_tagged(folder))
    write_terminologies(folder)
    write_vectors(folder)
    write_weights(folder)
    write_queries(folder)


# -- running -----------------------------------------------------------------------------------------------------------


class Failed(Exception):
    """A command that did not end as it should; the message names it."""


@dataclass(frozen=True)
class Side:
    """A tree of the package and where its runs go. core: the processor that its commands are bound
    to."""

    name: str
    tree: Path
    folder: Path
    python: str
    core: int

    def environment(self, case: str, devices: int = 1) -> dict[str, str]:
        compiler = [
            "--xla_backend_optimization_level=0",
            "--xla_llvm_disable_expensive_passes=true",
        ]
        compiler += [f"--xla_force_host_platform_device_count={devices}"] if devices > 1 else []
        if metadata.version("jaxlib").startswith("0.10."):
            compiler.append(
                "--xla_cpu_use_fusion_emitters=false"
            )  # later versions end at an unknown flag
        dropped = ("MEDNLI_JAX_DATA", "XLA_FLAGS")
        return {name: value for name, value in os.environ.items() if name not in dropped} | {
            "PYTHONPATH": str(self.tree),
            "MEDNLI_JAX_CACHE": str(self.folder / case / "cache"),
            "JAX_COMPILATION_CACHE_DIR": str(self.folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": " ".join(compiler),
        }

    def run(self, case: str) -> float:
        """Runs the steps of a case, each output in a file of its own; returns the seconds. Raises:
        Failed."""
        work, started = self.folder / case / "work", time.monotonic()
        work.mkdir(parents=True)
        write_all(work / "texts")
        commands = [command.replace("@", f"{self.tree}/configs/") for command in CASES[case]]
        for together, steps in groupby(
            enumerate(commands), key=lambda step: step[1].split()[0] in TOGETHER
        ):
            if together:
                self._run_together(case, work, list(steps))
            else:
                for number, command in steps:
                    self._run(case, work, number, command)
        return time.monotonic() - started

    def _run_together(self, case, work, steps):
        todo = []
        for number, command in steps:
            name, *flags = command.split()
            todo.append(
                (
                    number,
                    name,
                    flags,
                    str(work / f"{number}.{'out' if '--json' in flags else 'stdout'}"),
                )
            )
        start = [
            "taskset",
            "-c",
            str(self.core),
            self.python,
            "-c",
            TOGETHER_HOOK,
            json.dumps(todo),
        ]
        err = work / f"{steps[0][0]}.stderr"
        with err.open("w") as stderr:
            done = subprocess.run(
                start,
                cwd=work,
                env=self.environment(case),
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                check=False,
            )
        self._check(done.returncode, 0, steps[0][1].split()[0], steps[0][0], err)

    def _run(self, case, work, number, command):
        command, _, given = command.partition(" < ")
        how, *flags = command.split()
        name = flags.pop(0) if how in ("interrupt", "two") else how
        name, interrupted = self._present(name), how == "interrupt"
        start = ["-m", f"mednli_jax.{name}"]
        if name.endswith(".py"):
            start = [str(self.tree / "launch" / name)]
        elif (
            name == "train" and not interrupted and "--resume" not in flags
        ):  # how often those ask for plans varies
            start = [
                "-c",
                PLAN_HOOK,
                str(work / f"{number}.{PLANS}"),
                ",".join(PLAN_MODULES),
                "mednli_jax.train",
            ]
        compared = name == "predict" or "--json" in flags
        out, err = work / f"{number}.{'out' if compared else 'stdout'}", work / f"{number}.stderr"
        start = ["taskset", "-c", str(self.core), self.python, *start]
        with (
            open(work / given if given else os.devnull) as stdin,
            out.open("w") as stdout,
            err.open("w") as stderr,
        ):
            process = subprocess.Popen(
                [*start, *flags],
                cwd=work,
                env=self.environment(case, 2 if how == "two" else 1),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        if interrupted:
            folder = next(
                work / flag.partition("=")[2] for flag in flags if flag.startswith("--workdir=")
            )
            while process.poll() is None and not checkpoints(folder):
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
        self._check(process.wait(), 3 if interrupted else 0, name, number, err)

    def _check(self, code, due, name, number, err):
        if code != due:
            last = " ".join(err.read_text().strip().splitlines()[-2:]) or "no message"
            raise Failed(f"{self.name}: {name}, command {number}, exit code {code}: {last[:300]}")

    def _present(self, names):
        """The first of the names of a command, separated by |, that the tree has."""
        for name in names.split("|"):
            place = (
                f"launch/{name}"
                if name.endswith(".py")
                else f"mednli_jax/{name.replace('.', '/')}.py"
            )
            if (self.tree / place).is_file():
                return name
        raise Failed(f"{self.name}: no command {names}. Fix: give CASES its new name too.")


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of a run, the oldest first."""
    return sorted(
        (p for p in run.glob("checkpoints/*") if p.name.isdigit()), key=lambda path: int(path.name)
    )


def working_tree(repository: Path, folder: Path) -> None:
    """Copies the files of the working tree that git does not ignore."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=repository, text=True
    )
    for name in filter(None, listed.split("\0")):
        if (repository / name).is_file():  # not one that was deleted, and not yet from the index
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, folder / name)


def plant(tree: Path, name: str) -> None:
    """Puts a fault into the package. Raises: Failed where its place is not found exactly once."""
    pattern, replacement = PLANTS[name]
    texts = {path: path.read_text() for path in sorted((tree / "mednli_jax").rglob("*.py"))}
    places = [path for path, text in texts.items() for _ in re.findall(pattern, text)]
    if len(places) != 1:
        raise Failed(
            f"--plant={name}: {len(places)} places match {pattern}. Fix: give PLANTS the new wording."
        )
    places[0].write_text(re.sub(pattern, replacement, texts[places[0]]))
    print(f"planted: {name} in {places[0].relative_to(tree)}", flush=True)


def interpreter(tree: Path, folder: Path, install: bool) -> str:
    """The Python of a side, in which the package is the one of `tree`. Raises: Failed where it is
    another."""
    python = sys.executable
    if install:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python = str(folder / "venv" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "-e", tree], check=True)
    where = [python, "-c", "import mednli_jax; print(mednli_jax.__file__)"]
    found = subprocess.check_output(
        where, env={**os.environ, "PYTHONPATH": str(tree)}, cwd=folder, text=True
    )
    if tree not in Path(found.strip()).parents:
        raise Failed(
            f"{python} imports {found.strip()}, not {tree}. Fix: another environment, or --install."
        )
    return python


# -- comparing ---------------------------------------------------------------------------------------------------------


class Comparison:
    """What was compared, the largest difference of two numbers, and what differs."""

    def __init__(self):
        self.counts, self.largest, self.faults = Counter(), 0.0, []

    def values(self, base, head, where: str) -> None:
        """Compares two JSON values; numbers with a fraction within TOLERANCE, all others
        exactly."""
        if isinstance(base, dict) and isinstance(head, dict):
            for name in sorted((base.keys() | head.keys()) - ALLOWED_ANYWHERE):
                self.values(base.get(name, ...), head.get(name, ...), f"{where} {name}")
        elif isinstance(base, list) and isinstance(head, list) and len(base) == len(head):
            for place, pair in enumerate(zip(base, head, strict=True)):
                self.values(*pair, f"{where} {place}")
        elif isinstance(base, float) and isinstance(head, float):
            self.numbers(np.array(base), np.array(head), where)
        elif type(base) is not type(head) or base != head:
            self.faults.append(f"{where}: differs")  # without the values, which may be corpus text

    def numbers(self, base: np.ndarray, head: np.ndarray, where: str) -> None:
        if base.shape != head.shape or base.dtype != head.dtype:
            self.faults.append(f"{where}: {base.dtype} {base.shape} and {head.dtype} {head.shape}")
            return
        same = (base == head) | ((base != base) & (head != head))  # NaN is the same as NaN
        gap = np.where(
            same, 0.0, np.nan_to_num(np.abs(base.astype(float) - head.astype(float)), nan=math.inf)
        )
        self.largest = max(self.largest, gap := float(gap.max(initial=0)))
        if gap > TOLERANCE:
            self.faults.append(f"{where}: differs by {gap:.2g}")

    def files(self, base: dict[str, Path], head: dict[str, Path], label: str = "") -> None:
        """Compares files of the same name with each other: EXACT ones byte by byte, others by their
        values."""
        for name in sorted(base.keys() | head.keys()):
            if name not in base or name not in head:
                if name.endswith(PLANS):
                    self.counts["plans inferred"] += 1
                else:
                    self.faults.append(
                        f"{label}{name}: only in {'base' if name in base else 'head'}"
                    )
                continue
            one, other = base[name], head[name]
            if name.endswith(EXACT):
                self.counts[
                    "plans"
                    if name.endswith(PLANS)
                    else "arrays"
                    if name.endswith(".npy")
                    else "lists"
                ] += 1
                contents = one.read_bytes(), other.read_bytes()
                if name.endswith(PLANS):  # a thread plans ahead, so the order varies
                    contents = tuple(sorted(content.splitlines()) for content in contents)
                if contents[0] != contents[1]:
                    self.faults.append(
                        f"{label}{name}: {_how_many(one, other) if one.suffix == '.npy' else 'differs'}"
                    )
            elif one.is_dir():
                weights = _weights(one), _weights(other)
                if weights[0].keys() != weights[1].keys():
                    self.faults.append(f"{label}{name}: the weights have other names")
                for weight in weights[0].keys() & weights[1].keys():
                    self.numbers(weights[0][weight], weights[1][weight], f"{label}{name} {weight}")
                self.counts["weights"] += len(weights[0])
            else:
                rows = _parsed(one)
                self.values(rows, _parsed(other), label + name)
                self.counts["results"] += "private/" not in name
                self.counts["predictions"] += len(rows) if "predictions." in name else 0
                self.counts["predictions"] += (
                    sum(len(row["test"]) for row in rows) if "folds.jsonl" in name else 0
                )


def results(folder: Path) -> dict[str, Path]:
    """Files that hold results below a folder, by name, and the last checkpoint of each run."""
    found = {
        str(path.relative_to(folder)): path for path in folder.rglob("*") if path.suffix in COMPARED
    }
    found = {name: path for name, path in found.items() if LEFT_OUT.isdisjoint(Path(name).parts)}
    found = {
        name: path for name, path in found.items() if not path.match("private/*.txt")
    }  # a .json has the same
    last = {path.parent: checkpoints(path.parent)[-1:] for path in folder.rglob("checkpoints")}
    return found | {
        f"{run.relative_to(folder)} weights": path[0] for run, path in last.items() if path
    }


def prepared(cache: Path) -> dict[str, Path]:
    """The prepared corpora and feature matrices of a cache, in the order in which they were made:
    hashes may differ."""
    found = {}
    for kind in ("prepared", "features"):
        for number, made in enumerate(
            sorted((cache / kind).glob("*-*"), key=lambda path: path.stat().st_mtime_ns)
        ):
            name = f"{kind} {number} {made.name.rpartition('-')[0]}"
            found |= (
                {f"{name}/{path.name}": path for path in made.iterdir()} if made.is_dir() else {}
            )
            found |= {f"{name}.npy": made} if made.suffix == ".npy" else {}
    return found


def _how_many(base: Path, head: Path) -> str:
    one, other = (np.load(path, allow_pickle=False) for path in (base, head))
    if one.shape != other.shape:
        return f"{one.shape} and {other.shape}"
    return f"{np.count_nonzero(one != other):,} of {one.size:,} entries differ"


def _parsed(path: Path):
    """A JSON document, lines of JSON, or a table of tab-separated cells, without the fields that
    may differ."""
    text, allowed = path.read_text(), ALLOWED.get(path.name, frozenset())

    def read(text, otherwise=None):
        try:
            value = json.loads(text)
        except ValueError:
            return otherwise
        return (
            {name: value[name] for name in value.keys() - allowed}
            if isinstance(value, dict)
            else value
        )

    if path.suffix == ".jsonl":
        return [read(line) for line in text.splitlines()]
    table = [[read(cell, cell) for cell in line.split("\t")] for line in text.splitlines()]
    return read(text, table)


def _weights(checkpoint: Path) -> dict[str, np.ndarray]:
    """The parameters and batch statistics of the best epoch of each seed, by name."""
    import jax
    import orbax.checkpoint

    tree = orbax.checkpoint.PyTreeCheckpointer().restore(checkpoint)["best"]
    return {
        jax.tree_util.keystr(p): np.asarray(x) for p, x in jax.tree_util.tree_leaves_with_path(tree)
    }


# -- the command -------------------------------------------------------------------------------------------------------


def compare(case: str, base: Side, head: Side) -> tuple[Comparison, str]:
    """Runs a case on both sides at once and compares; returns also the seconds of the two."""
    found = Comparison()
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(side.run, case) for side in (base, head)]
    failed = [str(run.exception()) for run in runs if run.exception()]
    if failed:
        found.faults += failed
        return found, "-"
    base_case, head_case = (side.folder / case for side in (base, head))
    found.files(prepared(base_case / "cache"), prepared(head_case / "cache"))
    found.files(results(base_case / "work"), results(head_case / "work"))
    if case in SAME_RUNS:
        for folder in (base_case, head_case):
            one, other = (results(folder / "work" / run) for run in SAME_RUNS[case])
            found.files(one, other, f"{folder.parent.name}, {' and '.join(SAME_RUNS[case])}: ")
    return found, " + ".join(f"{run.result():.0f}" for run in runs)


def main() -> int:
    """Prepares the two sides, runs the cases and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "base", metavar="BASE", help="the commit that the working tree is compared with"
    )
    parser.add_argument("--only", default=",".join(CASES), help=f"cases, of {', '.join(CASES)}")
    parser.add_argument(
        "--keep",
        type=Path,
        help="a new folder for both sides' files; its base/tree is a git worktree",
    )
    parser.add_argument(
        "--plant", choices=tuple(PLANTS), help="put a fault into the copy of the working tree"
    )
    parser.add_argument(
        "--install", action="store_true", help="an environment with its own packages for each side"
    )
    options = parser.parse_args()
    cases = options.only.split(",")
    if unknown := set(cases) - CASES.keys():
        parser.error(f"no case {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    if options.keep and options.keep.exists():
        parser.error(f"{options.keep} exists; give --keep a new folder")
    repository = Path(__file__).resolve().parent.parent
    git = ["git", "-C", str(repository)]
    known = [*git, "rev-parse", "-q", "--verify", f"{options.base}^{{commit}}"]
    if subprocess.run(known, capture_output=True).returncode:
        parser.error(f"{options.base} is no commit of {repository}")
    folder = (
        options.keep.resolve()
        if options.keep
        else Path(tempfile.mkdtemp(prefix="same_results_")).resolve()
    )
    os.environ["JAX_PLATFORMS"] = "cpu"  # for the weights that this process reads
    trees = [folder / side / "tree" for side in ("base", "head")]
    rows, faults, started = [], 0, time.monotonic()
    try:
        trees[1].mkdir(parents=True, mode=0o700)
        subprocess.run(
            [*git, "worktree", "add", "-q", "--detach", trees[0], options.base], check=True
        )
        working_tree(repository, trees[1])
        if options.plant:
            plant(trees[1], options.plant)
        cores = sorted(os.sched_getaffinity(0))
        sides = [
            Side(
                tree.parent.name,
                tree,
                tree.parent,
                interpreter(tree, tree.parent, options.install),
                core,
            )
            for tree, core in zip(trees, (cores[0], cores[-1]), strict=True)
        ]
        for number, case in enumerate(cases, 1):
            found, seconds = compare(case, *sides)
            what = ", ".join(
                f"{count:,} {name}" for name, count in sorted(found.counts.items()) if count
            )
            verdict = f"DIFFERENT ({len(found.faults)})" if found.faults else "same"
            rows.append((case, seconds, what or "nothing", f"{found.largest:.1e}", verdict))
            print(f"[{number}/{len(cases)}] {case}: {seconds} s, {rows[-1][-1]}", flush=True)
            for fault in found.faults[:5]:
                print(f"    {fault}")
            if len(found.faults) > 5:
                print(f"    and {len(found.faults) - 5:,} more")
            faults += len(found.faults)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            subprocess.run([*git, "worktree", "remove", "--force", trees[0]], check=False)
            shutil.rmtree(folder, ignore_errors=True)
    table = [("case", "seconds base + head", "compared", "largest difference", "verdict"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    print(
        "\n"
        + "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table
        )
    )
    print(f"{time.monotonic() - started:.0f} s, load average {os.getloadavg()[0]:.1f}; ", end="")
    print("the same results" if not faults else f"{faults:,} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
