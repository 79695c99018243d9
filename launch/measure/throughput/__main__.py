"""Measures training and prediction against PyTorch: same model, same pairs, interleaved rounds,
median ratio.

  python launch/measure/throughput --models=bow --batch=64 --pairs=1024 --rounds=3    a first look
  python launch/measure/throughput --models=bow,infersent,esim --batch=64,512
  python launch/measure/throughput --models=ga_reader --mode=train --json=readers.jsonl

  --models=NAME,...            bow, infersent, esim (default: these); ga_reader, sa_reader; the
                               encoders bert, roberta, electra, megatron-bert, modernbert,
                               deberta-v2
  --against=torch|none         the other side: the fastest of at most four PyTorch settings
  --mode=NAME,...              train, predict: a sample of an epoch's batches (default: both)
                               epoch: one epoch end to end
  --grouping=off,premise       premise: whole premise or passage groups, encoded once (off)
  --batch=N,... --seeds=N,...  batch sizes (64,512; readers 32; encoders 16,32); seeds at once (1)
  --pairs=N,...                training rows of the synthetic corpus (11232; readers 4096 queries)
  --tokens=N --length=N        tokens of a passage on average (1500); pieces of encoders' pairs
                               (64; 0 = as MedNLI's)
  --hidden=N --vectors=N       sizes of the model and of the synthetic word vectors
                               (300; readers 64, 200; encoders 384)
  --precision=NAME             float32 (default), tf32, bfloat16: of both sides' matrix products
  --buckets=N                  length buckets of our training batches of pairs, 1 to 4
  --rounds=N                   rounds of each row (3)
  --figure=FILE.png            a chart of the ratios and their ranges
  --json[=FILE]                one JSON object per row, on stdout or at the end of FILE

Other programs on the machine make the figures worthless: a warning tells where they took more than
a tenth of it. PyTorch comes with pip install
'mednli_jax[torch]'. Exit codes: 0 done, 2 bad input or usage, 3 interrupted.
"""

import itertools
import json
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

from absl import flags
from benchmark_cases import ENCODERS, MODELS, Case, processors
from measurement import measure_case
from throughput_table import lines, write_figure

from mednli_jax import cli
from mednli_jax.errors import RunError, UsageError
from mednli_jax.files.paths import local_path
from mednli_jax.files.writing import append_line
from mednli_jax.terminal import say, warn

# share of the machine from which other programs change the ratios
MOST_OTHERS = 0.1


class _ListParser(flags.ArgumentParser):
    """Turns words with commas between them into a list. word: the parser of one word."""

    def __init__(self, word: flags.ArgumentParser) -> None:
        super().__init__()
        self.word = word

    def parse(self, argument: str) -> list[str | int]:
        return list(map(self.word.parse, argument.split(",")))


def define(values: cli.Flags) -> None:
    number = flags.IntegerParser(lower_bound=1)
    for name, default, word in (
        ("models", "bow,infersent,esim", flags.EnumParser(list(MODELS))),
        ("mode", "train,predict", flags.EnumParser(["train", "predict", "epoch"])),
        ("grouping", "off", flags.EnumParser(["off", "premise"])),
        ("batch", None, number),
        ("seeds", "1", number),
        ("pairs", None, number),
    ):
        flags.DEFINE(_ListParser(word), name, default, name, flag_values=values)
    cli.define(values, against=("torch", "none"), precision=("float32", "tf32", "bfloat16"))
    cli.define_paths(values, "figure")
    cli.define_numbers(values, hidden=None, vectors=None, buckets=None, rounds=3)
    cli.define_numbers(values, least=8, tokens=1500)
    pieces = flags.IntegerParser(0, 512)
    flags.DEFINE(pieces, "length", 64, "length", flag_values=values)
    # bare --json is "true": stdout
    flags.DEFINE(flags.ArgumentParser(), "json", None, "json", flag_values=values, boolean=True)


def main(values: cli.Flags) -> None:
    cases, machine = cases_of(values), machine_facts()
    rows = []
    file = None if values.json in (None, "true") else local_path(values.json, "--json")
    if values.against == "torch" and not machine["torch_version"]:
        fix = "pip install 'mednli_jax[torch]', or --against=none"
        raise RunError("PyTorch is not installed", fix=fix)
    say(", ".join(f"{key} {value}" for key, value in machine.items()))
    for number, case in enumerate(cases, start=1):
        say(f"{number}/{len(cases)}: {case.model}, {case.mode}, batch {case.batch}")
        row = {**measure_case(case).json(), **machine}
        rows.append(row)
        # Each setting of PyTorch with its speed, or why it has none.
        say("; ".join(row["notes"]) or "not compared")
        if row["others"] > MOST_OTHERS:
            warn(f"other programs took {row['others']:.0%} of the machine: measure again")
        line = json.dumps(row, allow_nan=False)
        if values.json == "true":
            print(line, flush=True)
        elif file:
            append_line(file, line)
    if values.json is None:
        print("\n".join(lines(rows)))
    if values.figure:
        write_figure(rows, values.figure)


def cases_of(values: cli.Flags) -> list[Case]:
    """The rows that the flags ask for: one for each model, size and mode. A size without a flag is
    that of the model's family."""
    cases = []
    for model in values.models:
        family = MODELS[model]
        if model in ENCODERS and values.grouping != ["off"]:
            problem = f"--grouping=premise: {model} reads both sentences together"
            raise UsageError(problem, fix="leave it out")
        combinations = itertools.product(
            values.pairs or (family.rows,),
            values.mode,
            values.batch or family.batch,
            values.grouping,
            values.seeds,
        )
        for pairs, mode, batch, grouping, seeds in combinations:
            case = Case(
                model,
                batch,
                seeds,
                mode,
                grouping,
                pairs,
                hidden=values.hidden or family.hidden,
                vectors=values.vectors or family.vectors,
                tokens=values.tokens,
                length=values.length,
                precision=values.precision,
                buckets=values.buckets,
                against=values.against,
                rounds=values.rounds,
            )
            cases.append(case)
    return cases


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def machine_facts() -> dict[str, str | int | None]:
    """The versions and the processor, for each line of the result."""
    try:
        about = Path("/proc/cpuinfo").read_text()
    except OSError:
        about = ""
    model = re.search("model name.*: (.*)", about)
    cpu = model[1] if model else platform.machine()
    return {
        "mednli_jax_version": version_of("mednli_jax"),
        "jax_version": version_of("jax"),
        "torch_version": version_of("torch"),
        "python": platform.python_version(),
        "cpu": cpu,
        "cpus": processors(),
    }


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
