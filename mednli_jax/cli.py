"""Flags, one-line errors and exit codes of all commands. Importing this module imports neither jax nor a command.

Exit codes: 0 done, 1 a bug, 2 bad input or usage, 3 interrupted and resumable.
Only the user can read what a command or a script writes (files 0600, folders 0700). Reports of internal errors quote
no data, see errors.
"""

import ast
import contextlib
import difflib
import errno
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path

from absl import flags
from ml_collections import config_dict, config_flags

import mednli_jax
from mednli_jax import defaults, errors, field_help
from mednli_jax.errors import UsageError, UserError
from mednli_jax.textfiles import meant

OK, BUG, USAGE, INTERRUPTED = 0, 1, 2, 3
# Errors of the operating system that are reported as user errors, without a traceback.
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO)
CONFIGS = Path(mednli_jax.__file__).parent / "configs"
CONFIG_HELP = """  --config=NAME[:VARIANT]      a config of --list, or a file: esim_kd:mednli, configs/esim_kd.py:mednli
  --config.FIELD=VALUE         a field of the config (see --fields), e.g. --config.seeds=0,1,2 --config.train.epochs=4
                               --config.model.hidden_size=128 --config.data.dir=FOLDER --config.data.limit=1000
                               --config.vectors.path=FILE --config.knowledge.ontology=mesh|FILE"""

Flags = flags.FlagValues
# Type of a config field -> (function that parses a value, name of the type in messages).
EXPECTED = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    bool: (flags.BooleanParser().parse, "true or false"),
    config_dict.ConfigDict: ({}.__getitem__, "a value to one of its fields, --config.SECTION.FIELD=VALUE"),
}


def define_config(values: Flags) -> None:
    config_flags.DEFINE_config_file("config", None, "a config file", flag_values=values, lock_config=True)


def define_corpus(values: Flags) -> None:
    flags.DEFINE_string("corpus", None, "a corpus, or the user's own files, instead of --config", flag_values=values)


def run(main: Callable[..., int | None], usage: str, define: Callable[[Flags], str | None], *, words: int = 0) -> int:
    """Parses the flags of sys.argv, runs a command with them and returns its exit code.

    Args:
      main: takes the flags, then the arguments without --.
      usage: the text that `--help` prints.
      define: declares the command's flags. Where --corpus names a variant of a config file, it returns that file.
      words: how many arguments without -- the command takes.
    """
    argv = list(sys.argv)

    def work():
        if {"--help", "-h", "--helpfull", "-help", "--helpshort"} & set(argv[1:]):
            print(usage.strip(), flush=True)
            return OK
        if "--version" in argv[1:]:
            print(f"mednli_jax {mednli_jax.__version__}")
            return OK
        if "--list" in argv[1:]:
            print(_list())
            return OK
        values = flags.FlagValues()
        wants_fields = "--fields" in argv[1:]
        rest = _parse(values, [argument for argument in argv if argument != "--fields"], define(values))
        if wants_fields:
            print(*field_help.lines(config(values)), sep="\n")
            return OK
        if len(rest) > words:
            raise UsageError(f"unexpected argument '{rest[words]}'. Fix: flags are --name=value; see --help.")
        return main(values, *rest)

    return script(work)


def script(
    work: Callable[[], int | None], report: Callable[[BaseException], None] = errors.report_bug, *, piped: bool = True
) -> int:
    """Runs `work` and returns its exit code. Bad input, a full disk and Ctrl-C print one line each.

    Output contains no control characters for the terminal, see errors.printable.

    Args:
      work: the function to run; it returns an exit code or None.
      report: reports a bug.
      piped: whether a closed output, as in `predict ... | head`, is a normal end. False where others await the process.
    """
    os.umask(0o077)
    errors.hide_messages()
    out, err = errors.PrintableStream(sys.stdout), errors.PrintableStream(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return _exit_code(work, report, piped)


def _exit_code(work, report, piped):
    try:
        return work() or OK
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError as error:
        if not piped:
            report(error)
            return BUG
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in REFUSALS:
            where, reason = _named(error.filename), os.strerror(error.errno)
            print(f"error: {where}: {reason}. Fix: check the disk and its permissions.", file=sys.stderr)
            return USAGE
        report(error)
        return BUG


def _named(path) -> str:
    """The path of an OSError, or "a file" where the path cannot be that of a file."""
    path = os.fsdecode(path) if isinstance(path, str | bytes) else ""
    known = os.path.lexists(path) or (os.path.dirname(path) and os.path.isdir(os.path.dirname(path)))
    return path if known else "a file"


def _parse(values, argv, corpus_config) -> list[str]:
    """Sets the flags and returns the other arguments. corpus_config: the config file of --corpus, or None."""
    argv = typed = [argv[0], *map(_underscored, _joined(argv[1:]))]
    if corpus_config:
        argv = _with_config(typed, corpus_config)
    argv = [_with_path(argument) for argument in argv]
    files = _given(argv, "config")
    if not files and any(argument.startswith("--config.") for argument in argv[1:]):
        raise UsageError("--config is missing. Fix: --config=configs/esim_kd.py")
    for argument in files:
        _check_config_file(argument.partition("=")[2])
    # ml_collections reads sys.argv and needs the file before the fields that override it.
    sys.argv = [argv[0], *files, *(argument for argument in argv[1:] if argument not in files)]
    try:
        rest = values(sys.argv)[1:]
        if argv != typed:
            sys.argv = typed  # reports show the command as the user typed it
        return rest
    except UserError:
        raise
    except Exception as error:  # a config file is code and may raise any exception
        if fault := _config_file_fault(files, error):
            raise fault from None
        if not isinstance(error, (flags.Error, AttributeError, KeyError, TypeError, ValueError)):
            raise
        raise _flag_fault(argv, files, error) from None


def _given(argv, name) -> list[str]:
    """The arguments --NAME=VALUE."""
    return [argument for argument in argv[1:] if argument.lstrip("-").partition("=")[0] == name]


def _with_config(argv, config_file) -> list[str]:
    """The arguments with --corpus expanded: to a variant of the config file, and the folder of the user's files."""
    corpora = _given(argv, "corpus")
    if not corpora:
        return argv
    if _given(argv, "config"):
        raise UsageError("--corpus and --config both name a corpus. Fix: leave one of them out.")
    value, more = corpora[-1].partition("=")[2], []
    path = Path(value).expanduser()
    if value not in defaults.VARIANTS:
        if not value or not path.exists():
            hint, known = defaults.did_you_mean(value, defaults.VARIANTS), ", ".join(defaults.VARIANTS)
            raise UsageError(f"--corpus: no corpus or file '{value}'.{hint} Fix: give a path or one of {known}.")
        more = [f"--config.data.dir={path if path.is_dir() else path.parent}"]
        value = "file"
    return [argv[0], f"--config={config_file}:{value}", *more, *argv[1:]]


def _joined(arguments) -> list[str]:
    """The arguments with `--config FILE` as `--config=FILE`."""
    joined = list(arguments)
    for place, argument in enumerate(joined[:-1]):
        if argument == "--config" and not joined[place + 1].startswith("--"):
            joined[place : place + 2] = [f"--config={joined[place + 1]}"]
            return _joined(joined)
    return joined


def _with_path(argument) -> str:
    """--config=NAME as --config=PATH of the package's own config, unless a file has the name."""
    flag, _, value = argument.partition("=")
    name, colon, variant = value.partition(":")
    if flag.lstrip("-") != "config" or Path(name).is_file() or not re.fullmatch(r"\w+", name):
        return argument
    path = CONFIGS / f"{name}.py"
    if not path.is_file():
        known = [path.stem for path in _config_files()]
        hint = defaults.did_you_mean(name, known)
        raise UsageError(f"--config: no config or file '{name}'.{hint} Fix: give a file or one of {', '.join(known)}.")
    return f"{flag}={path}{colon}{variant}"


def _config_files() -> list[Path]:
    return sorted(CONFIGS.glob("*.py"))


def _list() -> str:
    """The text of --list: a line for each config, then the names of the corpora."""
    lines = ["Configs, for --config=NAME or --config=NAME:VARIANT"]
    for path in _config_files():
        purpose = " ".join(ast.get_docstring(ast.parse(path.read_text("utf-8"))).partition("\n\n")[0].split())
        lines.append(f"  {path.stem:28} {purpose.partition(': ')[0]}")
    lines += ["", "Corpora, the VARIANT of a config; `doctor` lists those found, and where to get the others"]
    for kind, variants in defaults.VARIANTS_OF.items():
        lines += textwrap.wrap(f"{kind}: {', '.join(variants)}", 100, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def _config_file_fault(files, error) -> UserError | None:
    """The error with file and line where the code of the config file failed; None where other code failed."""
    if not files:
        return None
    path = Path(files[-1].partition("=")[2].split(":", 1)[0])
    if isinstance(error, SyntaxError) and Path(error.filename or "").name == path.name:
        line = error.lineno
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        line = frame.lineno if Path(frame.filename).name == path.name else None
        if line is None and not isinstance(error, ImportError):
            return None
    where = path if line is None else f"{path}:{line}"
    return UsageError(f"{where}: {type(error).__name__} in the config file. Fix: correct the line.")


def _flag_fault(argv, files, error) -> UserError:
    """The error for a bad flag: its name and the expected value, else the message of the flag library."""
    config = _unchanged(argv[0], files)
    for argument in argv[1:] if config is not None else []:
        name, equals, value = argument.lstrip("-").partition("=")
        if not name.startswith("config."):
            continue
        owner, item = None, config
        for part in name.split(".")[1:]:
            if not isinstance(item, config_dict.ConfigDict) or part not in item:
                problem = f"--{name}: the config has no such field.{_near_field(config, name)}"
                return UsageError(f"{problem} Fix: give a field that the config file has.")
            owner, item = item, item[part]
        if equals and (fault := _wrong_type(name, value, owner.get_type(part))):
            return fault
    return UsageError(f"{_last_line(str(error))} Fix: see --help.")


def _unchanged(program, files):
    """The config of the file without the fields set on the command line; None where it cannot be loaded."""
    values, given = flags.FlagValues(), sys.argv
    define_config(values)
    sys.argv = [program, *files]
    try:
        values(sys.argv)
        return values.config
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError):
        return None
    finally:
        sys.argv = given


def _near_field(config, name):
    """A hint with a similar field: of the named section, or of a similar name in another section."""
    fields = [f"config.{field}" for field, *_ in field_help.fields(config)]
    last = {field.rpartition(".")[2]: field for field in fields}
    near = difflib.get_close_matches(name, fields, n=1, cutoff=0.8)
    near = near or [last[word] for word in difflib.get_close_matches(name.rpartition(".")[2], last, n=1)]
    return f" Did you mean --{near[0]}?" if near else ""


def _wrong_type(name, value, kind):
    """The error for a value that cannot be parsed as the field's type; None where it can."""
    if kind not in EXPECTED:
        return None
    parse, expected = EXPECTED[kind]
    try:
        parse(value)
    except (KeyError, TypeError, ValueError):
        return UsageError(f"--{name}: '{value}' is of the wrong type. Fix: give {expected}.")
    return None


def _underscored(argument):
    """`--dry-run` as `--dry_run`."""
    name, equals, value = argument.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}" if name.startswith("--") else argument


def _check_config_file(value):
    path = Path(value.split(":", 1)[0])
    if not value:
        raise UsageError("--config needs a value after '='. Fix: --config=configs/esim_kd.py")
    if not path.is_file():
        known = [config.stem for config in _config_files()]
        near = difflib.get_close_matches(path.stem, known, n=1)
        fix = f"give --config={near[0]}, without a path" if near else "give the path of a file, or a name of --list"
        raise UsageError(f"{path}: no such config file.{meant(path)} Fix: {fix}.")
    if path.suffix != ".py" or "def get_config(" not in path.read_text(errors="replace"):
        raise UsageError(f"{path}: not a config file, it does not define get_config. Fix: give one of configs/.")


def _last_line(message):
    """The last line of a message. ml_collections reports an error in a config file as the text of a traceback."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    line = lines[-1] if lines else message
    if "Traceback" in message:
        line = re.sub(r"^mednli_jax\.errors\.\w+: ", "", line)
    return line if line.endswith((".", "?")) else line + "."


def config(values: Flags):
    """The parsed --config. Raises UserError where the flag is missing."""
    if "config" not in values or values.config is None:  # --fields of a command without configs
        raise UsageError("--config is missing. Fix: --config=configs/esim_kd.py")
    if not isinstance(values.config, config_dict.ConfigDict):
        raise UsageError("--config: its get_config does not return a ConfigDict. Fix: derive it from defaults.nli.")
    return values.config


def read_config(name: str):
    """The config that --config=NAME would load, without a command. Raises UserError where there is none."""
    values, before = flags.FlagValues(), sys.argv
    define_config(values)
    try:
        _parse(values, ["mednli_jax", f"--config={name}"], None)
        return config(values)
    finally:
        sys.argv = before


def path(name: str | None) -> Path | None:
    """The path that a flag gives; None where the flag is empty."""
    return Path(name).expanduser() if name else None


def required(values: Flags, name: str, example: str) -> str:
    """The value of a string flag. Raises UserError where it is missing."""
    value = values[name].value
    if not value:
        raise UsageError(f"--{name} is missing. Fix: {example}")
    return value


def config_name() -> str:
    """The name of a run directory: `esim_kd-demo` from `--config=configs/esim_kd.py`."""
    for argument in sys.argv:
        name, _, value = argument.partition("=")
        if name.lstrip("-") == "config":
            path, _, variant = value.partition(":")
            return f"{Path(path).stem}-{(variant or 'demo').replace('/', '-')}"
    return "run"
