"""`mednli-jax COMMAND ...` and `python -m mednli_jax COMMAND ...`: the same as `python -m mednli_jax.COMMAND ...`."""

import sys

from mednli_jax import analyze, benchmark, cli, doctor, evaluate, predict, prepare, report, train
from mednli_jax.defaults import did_you_mean
from mednli_jax.errors import UsageError

COMMANDS = {
    "train": (train, "train a model, keep the best dev epoch of each seed, test it once"),
    "evaluate": (evaluate, "score a finished run, or any system's answers"),
    "predict": (predict, "what a finished run says of new inputs"),
    "report": (report, "finished runs as a page, against each other, and beside the papers' tables"),
    "analyze": (analyze, "what a corpus looks like, and what its annotators left in it"),
    "prepare": (prepare, "a config's corpus as arrays on disk"),
    "benchmark": (benchmark, "speed against PyTorch on this machine"),
    "doctor": (doctor, "what this machine has, what is missing, and where to get it"),
}
USAGE = f"""Clinical natural language inference and reading comprehension in JAX.

  mednli-jax train --config=esim_kd
  mednli-jax COMMAND --help

{chr(10).join(f"  {name:10} {text}" for name, (_, text) in COMMANDS.items())}

  --list     the configs and the corpora
  --version"""


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if word in COMMANDS:
        command, _ = COMMANDS[sys.argv.pop(1)]
        sys.argv[0] = command.__file__
        return cli.run(command.main, command.USAGE, command.define, words=getattr(command, "WORDS", 0))
    if word.startswith("-"):
        sys.argv = [sys.argv[0], word]
        return cli.run(lambda values: None, USAGE, lambda values: None)
    return cli.script(lambda: _unknown(word))


def _unknown(word):
    hint = did_you_mean(word, COMMANDS)
    raise UsageError(f"no command '{word}'.{hint} Fix: give one of {', '.join(COMMANDS)}.")


if __name__ == "__main__":
    sys.exit(main())
