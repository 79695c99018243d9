"""`python -m mednli_jax.benchmark`: speed against the fastest PyTorch we could find, on this machine."""

import sys

from absl import flags

from mednli_jax import cli

USAGE = """Measure training and prediction against PyTorch: same model, same pairs, interleaved rounds, median ratio.

  python -m mednli_jax.benchmark --models=bow --batch=64 --pairs=1024 --rounds=3       a first look
  python -m mednli_jax.benchmark --models=bow,infersent,esim --batch=64,512
  python -m mednli_jax.benchmark --models=ga_reader --mode=train --tokens=1500 --json=readers.jsonl

  --models=NAME,...            bow, infersent, esim (default: these); ga_reader, sa_reader; bert
  --against=torch|none         the other side: the fastest of at most four PyTorch settings (default: torch)
  --mode=NAME,...              train, predict: a sample of an epoch's batches (default: both)
                               epoch: one epoch end to end, against the script that one would write first; with
                               --grouping=premise that script has no groups, and a second row's PyTorch has them
  --grouping=off,premise       premise: batches of whole premise or passage groups, encoded once (default: off)
  --batch=N,... --seeds=N,...  batch sizes (64,512; readers 32; bert 16,32) and seeds in one program (1)
  --pairs=N,...                training rows of the synthetic corpus (11232, as MedNLI; readers 4096 queries)
  --tokens=N --length=N        tokens of a passage on average (1500); pieces of bert's pairs (64; 0 = as MedNLI's)
  --hidden=N --vectors=N       sizes of the model and of the synthetic word vectors (300; readers 64, 200; bert 384)
  --precision=NAME             float32 (default), tf32, bfloat16: of both sides' matrix products
  --rounds=N                   rounds of each row (3)
  --figure=FILE.png            a chart of the ratios and their ranges
  --json[=FILE]                one JSON object per row, on stdout or at the end of FILE
  --allow_load                 measure although others use the machine; rows are marked as loaded

PyTorch comes with pip install 'mednli_jax[torch]'. Exit codes: 0 done, 2 bad input or usage, 3 interrupted."""


def define(values: cli.Flags) -> None:
    texts = {"models": "bow,infersent,esim", "against": "torch", "mode": "train,predict", "grouping": "off"}
    texts |= {"batch": "", "seeds": "1", "pairs": "", "precision": "float32", "figure": ""}
    for name, default in texts.items():
        flags.DEFINE_string(name, default, name, flag_values=values)
    numbers = {"hidden": (None, 1), "vectors": (None, 1), "tokens": (1500, 8), "length": (64, 0), "rounds": (3, 1)}
    for name, (default, least) in numbers.items():
        most = 512 if name == "length" else None
        flags.DEFINE_integer(name, default, name, lower_bound=least, upper_bound=most, flag_values=values)
    flags.DEFINE_bool("allow_load", False, "measure on a busy machine", flag_values=values)
    output = flags.Flag(flags.ArgumentParser(), flags.ArgumentSerializer(), "json", None, "print JSON")
    output.boolean = True  # bare --json is "true": stdout
    flags.DEFINE_flag(output, flag_values=values)


def main(values: cli.Flags) -> None:
    from mednli_jax.benchmarking import families, measure, results
    from mednli_jax.io import Bar, say

    cases = families.cases_of(values)
    if values.against == "torch":
        results.check_installed(cases)
    machine, write = results.machine(), results.json_writer(values.json)
    results.check_figure(values.figure)
    if not values.allow_load:
        measure.check_quiet()
    say(", ".join(f"{key} {value}" for key, value in machine.items()))
    rows = []
    with Bar("benchmark", len(cases), unit="rows") as bar:
        for number, case in enumerate(cases, start=1):
            say(f"{number}/{len(cases)}: {case.model}, {case.mode}, batch {case.batch}")
            for row in measure.measure_case(case):
                rows.append(row)
                write({**row, **machine})
            bar.advance(1)
    if values.figure:
        results.write_figure(rows, values.figure)
    if values.json is None:
        print("\n".join(results.lines(rows)))


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
