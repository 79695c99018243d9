"""`mednli-jax COMMAND ...` and `python -m mednli_jax COMMAND ...`: the same as `python -m
mednli_jax.COMMAND ...`."""

import sys
from typing import NoReturn

from mednli_jax import (
    analyze,
    cli,
    doctor,
    evaluate,
    export,
    predict,
    prepare,
    reproduce,
    sweep,
    train,
)
from mednli_jax.defaults import did_you_mean
from mednli_jax.errors import UsageError
from mednli_jax.report import __main__ as report

COMMANDS = {
    "train": (train, "train a model, keep the best dev epoch of each seed, score it on test"),
    "evaluate": (evaluate, "score a finished run, or the answers of any system"),
    "predict": (predict, "predict new inputs with a finished run"),
    "report": (report, "show finished runs, compare them, and set them beside the papers' tables"),
    "reproduce": (reproduce, "train the runs of a paper, and print its tables beside ours"),
    "export": (export, "copy what prediction needs of a finished run into a folder"),
    "analyze": (analyze, "describe a corpus and the annotation artifacts in it"),
    "prepare": (prepare, "write the corpus of a config as arrays to disk"),
    "sweep": (sweep, "train many runs over fields of a config, on one machine or several"),
    "doctor": (doctor, "list what this machine has, what is missing, and where to get it"),
}
WORDS = {
    "analyze": analyze.WORDS,
    "export": export.WORDS,
    "report": report.WORDS,
    "reproduce": reproduce.WORDS,
}  # commands that take arguments without --
USAGE = f"""Clinical natural language inference and reading comprehension in JAX.

  mednli-jax train --config=esim_kd
  mednli-jax COMMAND --help

{chr(10).join(f"  {name:10} {text}" for name, (_, text) in COMMANDS.items())}

  --list     the configs and the corpora
  --version"""


def main() -> int:
    word = (cli.arguments() or ["--help"])[0]
    if word in COMMANDS:
        command, _ = COMMANDS[word]
        cli.set_arguments(str(command.__file__), cli.arguments()[1:])
        return cli.run(command.main, command.__doc__, command.define, words=WORDS.get(word, 0))
    if word.startswith("-"):
        cli.set_arguments(__file__, [word])
        return cli.run(lambda values: None, USAGE, lambda values: None)

    def unknown() -> NoReturn:
        hint = did_you_mean(word, COMMANDS)
        raise UsageError(f"no command '{word}'.{hint}", fix=f"give one of {', '.join(COMMANDS)}")

    return cli.script(unknown)


if __name__ == "__main__":
    sys.exit(main())
