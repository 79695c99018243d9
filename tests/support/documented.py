"""The commands of README and docs as they stand there, at a small size: a home with all files that
they name, and the program that stands for `python` and `mednli-jax` in it.

The program runs the real command with further flags, which make it small, and writes its words and
its exit code as a line of $DOCUMENTED.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```bash\n(.*?)```|((?:^ {4}(?:python|metamap)[^\n]*\n)+)", re.S | re.M)
MODULE = re.compile(r"```python\n# (\w+)\.py\n(.*?)```", re.S)
INLINE = re.compile(r"`((?:python -m mednli_jax\.|mednli-jax )[a-z]+ [^`]+)`")
# Commands that do not run here, and why.
EXCLUDED = {
    "pip install": "needs a network",
    "pytest": "would run the tests in themselves",
    "ruff ": "is run by .ci/run",
    "mypy": "is run by .ci/run",
    "metamap ": "needs a licence",
    "spans.tsv": "needs the entities of a tagger",
    "postgresql": "needs a server",
    "git ": "needs a network, or shows an earlier version",
    "=/data": "sets another data folder",
    "tests/mutation_check": "takes hours",
    "measure_device": "is run by tests/launch/test_scripts.py",
    "compile_for_device": "is run by tests/launch/test_compile_for_device.py",
    "tpu_pod": "is run by tests/launch/test_scripts.py",
    "...": "is no whole command",
    "PAPER": "is no whole command",
}
WORDS = {
    "CORPUS": "demo",
    "FOLDER": "folder",
    "RUN": "runs/kd",
    "NAME": "esim",
    "FILE": "skills.tsv",
    "10.0.0.2": "127.0.0.1",
}
TRAIN = (
    "--config.train.epochs=1",
    "--config.train.batch_size=16",
    "--config.train.max_buckets=1",
)
SEED = "--config.seeds=0"  # seeds that are given twice are joined
MODEL = ("--config.model.hidden_size=8", "--config.vectors.dim=8")
LIMIT = "--config.data.limit=64"
FIRST_RUNS = ("runs/kd", "runs/esim")
# paper -> flags by which `reproduce` trains one run of it
REPRODUCE = {
    "mednli": ("--only=bow", *TRAIN, *MODEL),
    "artifacts": ("--only=hypothesis", TRAIN[0]),
    "clicr": ("--only=baselines/*",),
    "diskne": ("--only=main/BOW", *TRAIN, *MODEL),
}


def modules(page: str | Path) -> dict[str, str]:
    """{name of a module: its code} that a page shows."""
    return dict(MODULE.findall((ROOT / page).read_text("utf-8")))


def commands(text: str) -> list[str]:
    """The shell code of a page in its order: blocks, and commands within a line."""
    found = [(match.start(), match[1] or match[2]) for match in BLOCK.finditer(text)]
    rest = BLOCK.sub(lambda match: " " * len(match[0]), text)
    rest = re.sub(r"```.*?```", lambda match: " " * len(match[0]), rest, flags=re.S)
    found += [(match.start(), " ".join(match[1].split())) for match in INLINE.finditer(rest)]
    return [small(code) for _, code in sorted(found)]


def small(code: str) -> str:
    """Shell code without the lines of EXCLUDED, with WORDS; processes of one run run together."""
    code = code.replace("pip install -e . && ", "").replace("pip install -e '.[test]' && ", "")
    lines = []
    for line in re.sub(r" *\\\n *", " ", code).splitlines():
        line = line.strip() if line.startswith("    ") else line
        if not any(word in line for word in EXCLUDED):
            lines.append(re.sub(r"(.*--process=0)(.*)", r"\1 &", line))
    code = "\n".join(lines) + "\nwait\n"
    for word, value in WORDS.items():
        code = re.sub(rf"(?<![\w$]){re.escape(word)}\b", value, code)
    return code


def flags_of(words: list[str]) -> list[str]:
    """Flags that make a command small. words: the command and its arguments."""
    command, text = words[0], " ".join(words)
    if command in ("train", "prepare", "evaluate"):
        return training_flags(command, text)
    if command == "reproduce":
        if "--tables=2" in words:
            return []
        if "--tables=7,8" in words:
            return ["--only=table7/name", *TRAIN, "--seeds=0"]
        if words[1] == "clicr" and "--config." in text:  # the baselines have no config
            return ["--only=ga_anonym", *TRAIN, *MODEL, "--seeds=0"]
        seeds = () if "--seeds=" in text else ("--seeds=0",)
        return [*REPRODUCE[words[1]], *(seeds if words[1] != "clicr" else ())]
    if command.endswith("throughput"):
        sizes = ("--models=bow", "--batch=16", "--pairs=64", "--hidden=8", "--vectors=8")
        return [*sizes, "--mode=train", "--rounds=1", "--against=none"]
    if command == "sweep":
        return ["--trials=1", "--workers=1", *TRAIN, SEED, *MODEL]
    if command == "analyze":
        size = ["--config.vectors.dim=8"] if "mednli" in text else []
        return ["--n=4", *size] if words[1] in ("all", "aflite") else []
    if command.endswith("pretrain_vectors.py"):
        size = ["--dims=8", "--trials=1"] if "--search" in text else ["--dim=8", "--epochs=1"]
        return [*size, "--min_count=1"]
    if command.endswith("seeds_apart.py"):
        return [*TRAIN, *MODEL, LIMIT, "--workers=2"]
    return []


def training_flags(command: str, text: str) -> list[str]:
    """Of a command with the config of a model; those of another config have their own sizes."""
    if "--config=" not in text or "--fields" in text:
        return []
    flags = [*TRAIN] if command == "train" else []
    if command == "train" and "--config.seeds" not in text:
        flags.append(SEED)
    if any(f"--workdir={run}" in text.split() and Path(run).exists() for run in FIRST_RUNS):
        flags.append("--force")
    if "encoder" not in text and "bert" not in text:
        flags += MODEL
    elif "weights=" not in text:
        flags += ["--config.model.hidden_size=8", "--config.model.layers=1"]
    return flags if command == "evaluate" or "diskne" in text else [*flags, LIMIT]


def main(program: str, *words: str) -> int:
    """Runs a command of a page, small."""
    arguments = list(words)
    if program == "mednli-jax":
        arguments = ["-m", "mednli_jax", *arguments]
    if arguments[:2] == ["-m", "mednli_jax"]:
        names = arguments[2:]
    elif arguments[0] == "-m":
        names = [arguments[1].removeprefix("mednli_jax."), *arguments[2:]]
    else:
        names = arguments
    command = [sys.executable, *arguments, *flags_of(names)]
    code = subprocess.run(command).returncode
    with open(os.environ["DOCUMENTED"], "a") as record:
        record.write(json.dumps({"command": " ".join([program, *words]), "code": code}) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
