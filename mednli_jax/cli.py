"""What the doors share: flags, one-line errors, exit codes. Importing it imports neither jax nor a door.

Exit codes: 0 done, 1 a bug, 2 bad input or usage, 3 interrupted and resumable.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from mednli_jax.errors import UserError

OK, BUG, USAGE, INTERRUPTED = 0, 1, 2, 3
CONFIG_HELP = """  --config=FILE[:VARIANT]      a file of configs/, e.g. configs/esim_kd.py:mednli
  --config.FIELD=VALUE         any field of it, e.g. --config.seeds=0,1,2 --config.train.epochs=4
                               --config.model.hidden_size=128 --config.data.dir=FOLDER --config.data.limit=1000
                               --config.vectors.path=FILE --config.knowledge.ontology=mesh|FILE"""


Flags = flags.FlagValues


def define_config(values: Flags) -> None:
    config_flags.DEFINE_config_file("config", None, "a config file", flag_values=values, lock_config=True)


def run(main: Callable[..., int | None], usage: str, define: Callable[[Flags], None], *, words: int = 0) -> int:
    """Parses the flags of sys.argv, runs a door with them and returns its exit code.

    usage: what `--help` prints. define: declares the door's flags; they are the door's own, so that doors can be
    imported side by side. words: how many bare words (a command) main takes after the flags at most.
    Whatever a door writes is for its user alone: files 0600, folders 0700.
    """
    os.umask(0o077)
    try:
        return _run(main, usage, define, words, list(sys.argv))
    except BrokenPipeError:  # the reader of our output has gone: `predict ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _run(main, usage, define, words, argv):
    if {"--help", "-h", "--helpfull", "-help", "--helpshort"} & set(argv[1:]):
        print(usage.strip(), flush=True)
        return OK
    try:
        values = flags.FlagValues()
        define(values)
        rest = _parse(values, argv)
        if len(rest) > words:
            unexpected = rest[words]
            raise UserError(f"E-USE-004 unexpected argument '{unexpected}'. Fix: flags are --name=value; see --help.")
        return main(values, *rest) or OK
    except UserError as error:
        print(error, file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return INTERRUPTED


def _parse(values, argv) -> list[str]:
    """Sets the flags and returns the bare words."""
    argv = [argv[0], *map(_underscored, argv[1:])]
    files = [argument for argument in argv[1:] if argument.lstrip("-").partition("=")[0] == "config"]
    for argument in files:
        _check_config_file(argument.partition("=")[2])
    # ml_collections wants the file before the fields that override it, and looks for it in sys.argv.
    sys.argv = [argv[0], *files, *(argument for argument in argv[1:] if argument not in files)]
    try:
        rest = values(sys.argv)[1:]
    except flags.Error as error:
        raise UserError(f"E-USE-001 {_last_line(str(error))} Fix: see --help.") from None
    except (AttributeError, KeyError) as error:
        raise UserError(
            f"E-USE-002 the config has no such field: {_unknown_field(error)} Fix: see the config file."
        ) from None
    except (TypeError, ValueError) as error:
        raise UserError(f"E-USE-003 a config field has a value of the wrong type: {_last_line(str(error))}") from None
    return rest


def _underscored(argument):
    """--dry-run is --dry_run."""
    name, equals, value = argument.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}" if name.startswith("--") else argument


def _check_config_file(value):
    path = Path(value.split(":", 1)[0])
    if not value:
        raise UserError("E-USE-005 --config needs a value after '='. Fix: --config=configs/esim_kd.py")
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        known = f" Known there: {', '.join(near)}." if near else ""
        raise UserError(f"E-USE-005 {path}: no such config file.{known} Fix: give a path like configs/esim_kd.py.")
    if path.suffix != ".py" or "def get_config(" not in path.read_text(errors="replace"):
        raise UserError(f"E-USE-005 {path}: no config file, it defines no get_config. Fix: give one of configs/.")


def _last_line(message):
    """ml_collections hands a config file's own error on as a traceback in text; its last line is what was said."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    line = lines[-1] if lines else message
    if "Traceback" in message:
        line = line.removeprefix("mednli_jax.errors.").removeprefix("UserError: ")
    return line if line.endswith((".", "?")) else line + "."


def _unknown_field(error):
    """ml_collections quotes its own message, line break and all."""
    text = str(error.args[0] if error.args else error).replace("\\n", " ").replace("\\'", "'").replace('"', "'")
    text = " ".join(text.split()).strip("'")
    return f"'{text}" + ("" if text.endswith("?") else "'." if "'" not in text else ".")


def config(values: Flags):
    """The parsed --config. Raises UserError where the flag is missing."""
    if values.config is None:
        raise UserError("E-USE-005 --config is missing. Fix: --config=configs/esim_kd.py")
    return values.config


def required(values: Flags, name: str, example: str) -> str:
    """The value of a string flag. Raises UserError where it is missing."""
    value = values[name].value
    if not value:
        raise UserError(f"E-USE-006 --{name} is missing. Fix: {example}")
    return value


def config_name(argv: list[str] | None = None) -> str:
    """`esim_kd-demo` from `--config=configs/esim_kd.py`: names run directories."""
    for argument in sys.argv if argv is None else argv:
        name, _, value = argument.partition("=")
        if name.lstrip("-") == "config":
            path, _, variant = value.partition(":")
            return f"{Path(path).stem}-{(variant or 'demo').replace('/', '-')}"
    return "run"
