"""Whether the working tree gives the same results as an older commit: `python launch/same_results.py BASE`.

    python launch/same_results.py main                           every case, about six minutes of two idle cores
    python launch/same_results.py HEAD~3 --only=bow,esim_kd --keep=/tmp/same
    python launch/same_results.py HEAD --only=bow --plant=token  a planted fault: has to end with exit code 1

Runs each case of CASES with BASE and with a copy of the working tree, and compares what the two leave on disk and
print: prepared arrays and generated corpora byte by byte, batch plans, weights of the best epoch, predictions, scores.
The two sides run at the same time, each with caches of its own, and on a core of its own where there are two.
Exit codes: 0 the same, 1 a difference or a failed command, 2 wrong usage.

Only outside interfaces are used: commands, flags, launch scripts and files, so that modules can move between the two
commits. Three points need more words:
- Batch plans are not on disk. A hook (PLAN_HOOK) records what `Batches.epoch` and `Batches.once` return, from the first
  module of PLAN_MODULES that exists; add a module there when it moves. Where one side has none, the table says
  "inferred": weights and losses of several epochs are the same only if the batches were.
- A run keeps probabilities with six decimals, no logits. Exact evidence of the logits are the weights of the best
  epoch (float32, from the last checkpoint) and the losses (float64), which are compared with the same tolerance.
- Both sides use this interpreter, with the side's tree first in PYTHONPATH: the package is pure Python, and a virtual
  environment for each side costs minutes. --install makes the environments, for commits with other dependencies.
Programs are compiled without the compiler's expensive passes, which would be most of the time.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

TOLERANCE = 1e-5  # of probabilities, scores, losses and weights; whole numbers and strings have to be equal

# Fields that may differ, at the top level of these files: names of caches, versions and times.
ALLOWED = {
    "manifest.json": {"key", "format", "mednli_jax", "files", "sha256"},
    "data.json": {"key", "format", "mednli_jax", "files", "sha256"},
    "result.json": {"seconds", "compile_seconds", "train_examples_per_second", "prepared"},
    "metrics.jsonl": {"seconds", "examples_per_second"},
    "benchmark.json": {"mednli_jax"},
}
ALLOWED_ANYWHERE = {"note", "notes"}  # sentences for the reader
COMPARED = {".json", ".jsonl", ".npy", ".txt", ".tsv", ".out"}
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

# name -> (pattern, replacement), for the one place of the package that the pattern matches.
PLANTS = {
    "token": (r"self\._index\.get\(token, UNK\)", r'self._index.get("pain" if token == "fever" else token, UNK)'),
    "gate": (r"c = k \* \(f \* c \+ i \* g\)", r"c = k * (i * c + f * g)"),
}


# -- cases -------------------------------------------------------------------------------------------------------------

# Every field whose default may change or that shapes the time is given.
TRAIN = (
    "--config.train.epochs=3 --config.train.batch_size=32 --config.train.learning_rate=0.01 "
    "--config.train.patience=12 --config.train.checkpoint_epochs=1 --config.train.max_buckets={buckets} "
    "--config.train.group={group} "
)
ONE, THREE = TRAIN.format(buckets=1, group=1), TRAIN.format(buckets=2, group=3)  # hypotheses of a premise together
FILE = "--config.data.dir=texts/source --config.data.max_length=24 --config.vectors.path=texts/vectors.txt "
FILE += "--config.vectors.dim=8 "
RUN, SMALL, SEED = "--workdir=run ", "--config.model.hidden_size=16 ", "--config.seeds=0 "
PASSAGE = "--config.data.limit=400 --config.data.max_passage=100 --config.vectors.dim=12 " + SMALL + SEED + ONE
WHOLE = "--config.data.max_length=400 --config.data.lowercase=False --config.vectors.dim=4"
KD = "train --config=@esim_kd.py:demo --config.data.limit=300 --config.data.max_length=16 --config.vectors.dim=16 "
KD += SMALL + SEED + ONE + "--config.train.epochs=10 "
TARGET = "--config=@bow.py:file " + FILE.replace("source", "target") + SMALL + SEED + ONE

# name -> commands, run in one folder. @ is the folder configs/; < a file goes to stdin; "interrupt" sends SIGINT after
# the first epoch. What `predict` and --json print is compared, too.
CASES = {
    "corpora": [
        f"prepare --config=@esim_kd.py:demo {WHOLE}",
        f"prepare --config=@esim_kd.py:demo_full {WHOLE}",
        *(f"prepare --config=@{name}.py:demo" for name in ("ga_ent", "ga_anonym", "ga_noent", "diskne_esim")),
        "build_diskne.py --out=diskne",
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
}
# Runs of one side that have to be the same: one that was interrupted and resumed, and one that was not.
SAME_RUNS = {"esim_kd": ("run", "resumed")}


def write_texts(folder: Path) -> None:
    """Two small corpora of made-up pairs, three to a premise, and word vectors; new pairs and a new query."""
    draw = random.Random(0)
    things = ["fever", "cough", "pain", "edema", "asthma", "sepsis", "stroke", "anemia", "nausea", "rash"]
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


# -- running -----------------------------------------------------------------------------------------------------------


class Failed(Exception):
    """A command that did not end as it should; the message names it."""


@dataclass(frozen=True)
class Side:
    """A tree of the package and where its runs go. core: the processor that its commands are bound to."""

    name: str
    tree: Path
    folder: Path
    python: str
    core: int

    def environment(self, case: str) -> dict[str, str]:
        compiler = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
        if metadata.version("jaxlib").startswith("0.10."):
            compiler.append("--xla_cpu_use_fusion_emitters=false")  # later versions end at an unknown flag
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
        """Runs the steps of a case, each output in a file of its own; returns the seconds. Raises: Failed."""
        work, started = self.folder / case / "work", time.monotonic()
        work.mkdir(parents=True)
        write_texts(work / "texts")
        for number, command in enumerate(CASES[case]):
            self._run(case, work, number, command.replace("@", f"{self.tree}/configs/"))
        return time.monotonic() - started

    def _run(self, case, work, number, command):
        command, _, given = command.partition(" < ")
        name, *flags = command.split()
        interrupted = name == "interrupt"
        name = flags.pop(0) if interrupted else name
        start = ["-m", f"mednli_jax.{name}"]
        if name.endswith(".py"):
            start = [str(self.tree / "launch" / name)]
        elif name == "train" and not interrupted and "--resume" not in flags:  # how often those ask for plans varies
            start = ["-c", PLAN_HOOK, str(work / f"{number}.{PLANS}"), ",".join(PLAN_MODULES), "mednli_jax.train"]
        compared = name == "predict" or "--json" in flags
        out, err = work / f"{number}.{'out' if compared else 'stdout'}", work / f"{number}.stderr"
        start = ["taskset", "-c", str(self.core), self.python, *start]
        with open(work / given if given else os.devnull) as stdin, out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(
                [*start, *flags], cwd=work, env=self.environment(case), stdin=stdin, stdout=stdout, stderr=stderr
            )
        if interrupted:
            folder = next(work / flag.partition("=")[2] for flag in flags if flag.startswith("--workdir="))
            while process.poll() is None and not checkpoints(folder):
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
        code = process.wait()
        if code != (3 if interrupted else 0):
            last = (err.read_text().strip().splitlines() or ["no message"])[-1]
            raise Failed(f"{self.name}: {name}, command {number + 1}, exit code {code}: {last[:300]}")


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of a run, the oldest first."""
    return sorted((p for p in run.glob("checkpoints/*") if p.name.isdigit()), key=lambda path: int(path.name))


def working_tree(repository: Path, folder: Path) -> None:
    """Copies the files of the working tree that git does not ignore."""
    listed = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=repository, text=True)
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
        raise Failed(f"--plant={name}: {len(places)} places match {pattern}. Fix: give PLANTS the new wording.")
    places[0].write_text(re.sub(pattern, replacement, texts[places[0]]))
    print(f"planted: {name} in {places[0].relative_to(tree)}", flush=True)


def interpreter(tree: Path, folder: Path, install: bool) -> str:
    """The Python of a side, in which the package is the one of `tree`. Raises: Failed where it is another."""
    python = sys.executable
    if install:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python = str(folder / "venv" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "-e", tree], check=True)
    where = [python, "-c", "import mednli_jax; print(mednli_jax.__file__)"]
    found = subprocess.check_output(where, env={**os.environ, "PYTHONPATH": str(tree)}, cwd=folder, text=True)
    if tree not in Path(found.strip()).parents:
        raise Failed(f"{python} imports {found.strip()}, not {tree}. Fix: another environment, or --install.")
    return python


# -- comparing ---------------------------------------------------------------------------------------------------------


class Comparison:
    """What was compared, the largest difference of two numbers, and what differs."""

    def __init__(self):
        self.counts, self.largest, self.faults = Counter(), 0.0, []

    def values(self, base, head, where: str) -> None:
        """Compares two JSON values; numbers with a fraction within TOLERANCE, all others exactly."""
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
        gap = np.where(same, 0.0, np.nan_to_num(np.abs(base.astype(float) - head.astype(float)), nan=math.inf))
        self.largest = max(self.largest, gap := float(gap.max(initial=0)))
        if gap > TOLERANCE:
            self.faults.append(f"{where}: differs by {gap:.2g}")

    def files(self, base: dict[str, Path], head: dict[str, Path], label: str = "") -> None:
        """Compares files of the same name with each other: EXACT ones byte by byte, others by their values."""
        for name in sorted(base.keys() | head.keys()):
            if name not in base or name not in head:
                if name.endswith(PLANS):
                    self.counts["plans inferred"] += 1
                else:
                    self.faults.append(f"{label}{name}: only in {'base' if name in base else 'head'}")
                continue
            one, other = base[name], head[name]
            if name.endswith(EXACT):
                self.counts["plans" if name.endswith(PLANS) else "arrays" if name.endswith(".npy") else "lists"] += 1
                if one.read_bytes() != other.read_bytes():
                    self.faults.append(f"{label}{name}: {_how_many(one, other) if one.suffix == '.npy' else 'differs'}")
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
                self.counts["predictions"] += sum(len(row["test"]) for row in rows) if "folds.jsonl" in name else 0


def results(folder: Path) -> dict[str, Path]:
    """Files that hold results below a folder, by name, and the last checkpoint of each run."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.suffix in COMPARED}
    found = {name: path for name, path in found.items() if LEFT_OUT.isdisjoint(Path(name).parts)}
    found = {name: path for name, path in found.items() if not path.match("private/*.txt")}  # a .json has the same
    last = {path.parent: checkpoints(path.parent)[-1:] for path in folder.rglob("checkpoints")}
    return found | {f"{run.relative_to(folder)} weights": path[0] for run, path in last.items() if path}


def prepared(cache: Path) -> dict[str, Path]:
    """The prepared corpora and feature matrices of a cache, in the order in which they were made: hashes may differ."""
    found = {}
    for kind in ("prepared", "features"):
        for number, made in enumerate(sorted((cache / kind).glob("*-*"), key=lambda path: path.stat().st_mtime_ns)):
            name = f"{kind} {number} {made.name.rpartition('-')[0]}"
            found |= {f"{name}/{path.name}": path for path in made.iterdir()} if made.is_dir() else {}
            found |= {f"{name}.npy": made} if made.suffix == ".npy" else {}
    return found


def _how_many(base: Path, head: Path) -> str:
    one, other = (np.load(path, allow_pickle=False) for path in (base, head))
    if one.shape != other.shape:
        return f"{one.shape} and {other.shape}"
    return f"{np.count_nonzero(one != other):,} of {one.size:,} entries differ"


def _parsed(path: Path):
    """A JSON document, lines of JSON, or a table of tab-separated cells, without the fields that may differ."""
    text, allowed = path.read_text(), ALLOWED.get(path.name, frozenset())

    def read(text, otherwise=None):
        try:
            value = json.loads(text)
        except ValueError:
            return otherwise
        return {name: value[name] for name in value.keys() - allowed} if isinstance(value, dict) else value

    if path.suffix == ".jsonl":
        return [read(line) for line in text.splitlines()]
    table = [[read(cell, cell) for cell in line.split("\t")] for line in text.splitlines()]
    return read(text, table)


def _weights(checkpoint: Path) -> dict[str, np.ndarray]:
    """The parameters and batch statistics of the best epoch of each seed, by name."""
    import jax
    import orbax.checkpoint

    tree = orbax.checkpoint.PyTreeCheckpointer().restore(checkpoint)["best"]
    return {jax.tree_util.keystr(p): np.asarray(x) for p, x in jax.tree_util.tree_leaves_with_path(tree)}


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="the commit that the working tree is compared with")
    parser.add_argument("--only", default=",".join(CASES), help=f"cases, of {', '.join(CASES)}")
    parser.add_argument("--keep", type=Path, help="a new folder for both sides' files; its base/tree is a git worktree")
    parser.add_argument("--plant", choices=tuple(PLANTS), help="put a fault into the copy of the working tree")
    parser.add_argument("--install", action="store_true", help="an environment with its own packages for each side")
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
    folder = options.keep.resolve() if options.keep else Path(tempfile.mkdtemp(prefix="same_results_")).resolve()
    os.environ["JAX_PLATFORMS"] = "cpu"  # for the weights that this process reads
    trees = [folder / side / "tree" for side in ("base", "head")]
    rows, faults, started = [], 0, time.monotonic()
    try:
        trees[1].mkdir(parents=True, mode=0o700)
        subprocess.run([*git, "worktree", "add", "-q", "--detach", trees[0], options.base], check=True)
        working_tree(repository, trees[1])
        if options.plant:
            plant(trees[1], options.plant)
        cores = sorted(os.sched_getaffinity(0))
        sides = [
            Side(tree.parent.name, tree, tree.parent, interpreter(tree, tree.parent, options.install), core)
            for tree, core in zip(trees, (cores[0], cores[-1]), strict=True)
        ]
        for number, case in enumerate(cases, 1):
            found, seconds = compare(case, *sides)
            what = ", ".join(f"{count:,} {name}" for name, count in sorted(found.counts.items()) if count)
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
    print("\n" + "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in table))
    print(f"{time.monotonic() - started:.0f} s, load average {os.getloadavg()[0]:.1f}; ", end="")
    print("the same results" if not faults else f"{faults:,} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
