"""Flags, one-line errors and exit codes of all commands. Importing this module imports neither jax
nor a command.

Exit codes: 0 done, 1 a bug, 2 bad input or usage, 3 interrupted and resumable, or another process
trains in the run. Where several processes train together and one is lost, jax ends the others with
134 (SIGABRT), which is resumable too. Only the user can read written files. A command whose reader
leaves, as in `train 2>&1 | head`, does all of its work.
"""

import argparse
import ast
import difflib
import errno
import os
import re
import runpy
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from absl import flags
from ml_collections import config_flags
from ml_collections.config_dict import ConfigDict

import mednli_jax
from mednli_jax import defaults, errors
from mednli_jax.errors import ResumableError, UsageError, UserError
from mednli_jax.files import SHORTER_NAME, local_path
from mednli_jax.terminal import lossy_streams

OK, BUG, USAGE, INTERRUPTED = 0, 1, 2, 3
# Errors of the operating system that are reported as user errors, without a traceback.
REFUSALS = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.ENAMETOOLONG,
)
NO_HOME = "Could not determine home directory"  # begins pathlib's RuntimeError for a path with ~
CONFIGS = Path(mednli_jax.__file__).parent / "configs"
CONFIG_HELP = """  --config=NAME[:VARIANT]      a config of --list, or a file: esim_kd:mednli, configs/esim_kd.py:mednli
  --config.FIELD=VALUE         a field of the config (see --fields), e.g. --config.seeds=0,1,2 --config.train.epochs=4
                               --config.model.hidden_size=128 --config.data.dir=FOLDER --config.data.limit=1000
                               --config.vectors.path=FILE --config.knowledge.ontology=mesh|FILE"""

# Other names of fields, for suggestions.
ALIASES = {
    "lr": "train.learning_rate",
    "rate": "train.learning_rate",
    "bs": "train.batch_size",
    "batch": "train.batch_size",
    "epoch": "train.epochs",
    "epochs": "train.epochs",
    "hidden": "model.hidden_size",
    "hidden_size": "model.hidden_size",
    "seed": "seeds",
    "seeds": "seeds",
}

Flags = flags.FlagValues
CONFIG_FIELDS = "config_fields"


def define(values: Flags, **defaults) -> None:
    """Declares flags: {name: default}. A tuple holds the known values of a text; the first is the
    default."""
    kinds = {bool: flags.DEFINE_bool, list: flags.DEFINE_list}
    for name, default in defaults.items():
        if isinstance(default, tuple):
            flags.DEFINE_enum(name, default[0], default, name, flag_values=values)
        else:
            kind = kinds.get(type(default), flags.DEFINE_string)
            kind(name, default, name, flag_values=values)


def define_numbers(values: Flags, least: int | None = 1, **defaults) -> None:
    """Declares flags for integers from `least` up: {name: default}."""
    for name, default in defaults.items():
        flags.DEFINE_integer(name, default, name, lower_bound=least, flag_values=values)


class _PathParser(flags.ArgumentParser):
    """Turns the text of a flag into the path of a file or folder of this machine."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name

    def parse(self, argument: str | Path) -> Path:
        return local_path(argument, f"--{self.name}")


def define_paths(values: Flags, *names: str) -> None:
    """Declares flags for files and folders, without defaults. Their values are Paths."""
    for name in names:
        flags.DEFINE(_PathParser(name), name, None, name, flag_values=values)


def define_config_fields(values: Flags) -> None:
    """Lets a command take --config.FIELD=VALUE without --config, for several configs."""
    flags.DEFINE_list(CONFIG_FIELDS, [], CONFIG_FIELDS, flag_values=values)


def config_fields(values: Flags) -> dict[str, str]:
    """{field: value} of the flags --config.FIELD=VALUE."""
    fields = {}
    for word in values[CONFIG_FIELDS].value:
        name, equals, value = word.removeprefix("--config.").partition("=")
        if not equals:
            raise UsageError(f"--config.{name} has no value", fix=f"give --config.{name}=VALUE")
        fields[name] = value
    return fields


def path(text: str) -> Path:
    """The same for a script's argparse, as `type=`."""
    try:
        return local_path(text, "the path")
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(
    main: Callable[..., int | None],
    usage: str | None,
    define: Callable[[Flags], str | None],
    *,
    words: int = 0,
) -> int:
    """Parses the flags of sys.argv, runs a command with them and returns its exit code.

    Args:
      main: takes the flags, then at most `words` arguments without --.
      usage: the text that `--help` prints; CONFIG_HELP takes the place of {config} in it. It is the docstring of the
        command's module, which `python -OO` drops: None then.
      define: declares the command's flags. Where --corpus names a variant of a config file, it returns that file.
    """

    def work():
        given, values = set(sys.argv[1:]), flags.FlagValues()
        if {"--help", "-h", "--helpfull", "-help", "--helpshort"} & given:
            text = _docstring(Path(main.__code__.co_filename)) if usage is None else usage
            print(text.strip().replace("{config}", CONFIG_HELP), flush=True)
        elif "--version" in given:
            print(f"mednli_jax {mednli_jax.__version__}")
        elif "--list" in given:
            print(_list())
        elif "--fields" in given:
            sys.argv.remove("--fields")
            _parse(values, define(values))
            print(*field_lines(config(values)), sep="\n")
        else:
            rest = _parse(values, define(values))
            if len(rest) > words:
                fix = _meant(values, rest[words]) or "flags are --name=value; see --help"
                raise UsageError(f"unexpected argument '{rest[words]}'", fix=fix)
            return main(values, *rest)

    return script(work)


def _meant(values: Flags, word: str) -> str:
    """The flag for an argument that names a run, an input or a config; "" for another argument."""
    place = Path(word).expanduser()
    kinds = {
        "run": (place / "config.json").is_file(),
        "config": place.suffix == ".py" or word.partition(":")[0] in _configs(),
        "input": place.is_file(),
    }
    return next((f"--{name}={word}" for name, fits in kinds.items() if fits and name in values), "")


def arguments() -> list[str]:
    """The arguments of this process, as `run` spells them."""
    return sys.argv[1:]


def command_line() -> list[str]:
    """The words that start this process again from a shell, in the same folder."""
    program, *arguments = sys.argv
    root = Path(mednli_jax.__file__).resolve().parent
    file = Path(program).resolve()
    if file.is_relative_to(root):
        parts = file.relative_to(root.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__main__")
        return ["python", "-m", module, *arguments]
    return [*["python"] * (file.suffix == ".py"), program, *arguments]


def set_arguments(program: str, arguments: Sequence[str]) -> None:
    """Gives this process the arguments of another command. program: its file."""
    sys.argv = [program, *arguments]


def typed(command: str) -> str:
    """How a user of this process starts a command: `mednli-jax train` or `python -m
    mednli_jax.train`."""
    script = Path([*sys.orig_argv, "", ""][1]).name
    return f"{script} {command}" if script == "mednli-jax" else f"python -m mednli_jax.{command}"


def script(work: Callable[[], int | None]) -> int:
    """Runs `work` and returns its exit code."""
    os.umask(0o077)
    errors.hide_messages()
    with lossy_streams():
        return _exit_code(work)


def _exit_code(work: Callable[[], int | None]) -> int:
    try:
        code = work() or OK
        sys.stdout.flush()  # a full disk is an error of the command
        return code
    except ResumableError as error:
        print(f"error: {error}", file=sys.stderr)
        return INTERRUPTED
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in REFUSALS:
            where, reason = error.filename or "standard output or a file", os.strerror(error.errno)
            fix = (
                SHORTER_NAME
                if error.errno == errno.ENAMETOOLONG
                else "check the disk and its permissions"
            )
            print(f"error: {where}: {reason}. Fix: {fix}.", file=sys.stderr)
            return USAGE
        if isinstance(error, RuntimeError) and str(error).startswith(NO_HOME):
            fix = "set $HOME, or give paths without ~ and set $MEDNLI_JAX_CACHE"
            print(
                f"error: the home folder of a path with ~ is not known. Fix: {fix}.",
                file=sys.stderr,
            )
            return USAGE
        if isinstance(error, FloatingPointError):  # as $JAX_DEBUG_NANS and $JAX_DEBUG_INFS ask for
            problem = f"jax_debug_nans or jax_debug_infs is set, and a number was not finite ({errors.summary(error)})"
            fix = "give a lower --config.train.learning_rate, or unset JAX_DEBUG_NANS and JAX_DEBUG_INFS"
            print(f"error: {problem}. Fix: {fix}.", file=sys.stderr)
            return USAGE
        if told := errors.of_plugin(error):
            print(f"error: {told}", file=sys.stderr)
            return USAGE
        errors.report_bug(error)
        return BUG


def _parse(values: Flags, corpus_config: str | None) -> list[str]:
    """Sets the flags from sys.argv and returns the other arguments. values.config becomes the
    config of its file.

    sys.argv afterwards holds `--dry_run` for `--dry-run`, and `--config.seeds=0` for
    `--config.seeds 0`.
    """
    program, *argv = sys.argv
    argv = [
        re.sub("^--?([a-z][^=]*)", lambda flag: "--" + flag[1].replace("-", "_"), each)
        for each in argv
    ]
    argv = _with_values(argv)
    sys.argv = [program, *argv]
    if corpus_config:
        argv = _with_corpus(argv, corpus_config)
    if CONFIG_FIELDS in values:
        words = [word for word in argv if word.startswith("--config.")]
        argv = [word for word in argv if not word.startswith("--config.")]
        values[CONFIG_FIELDS].value = words
    files = [each for each in argv if each.startswith("--config=") and "config" in values]
    argv = [program, *(each for each in argv if each not in files)]
    if files:
        delattr(values, "config")
        found = read_config(files[-1].partition("=")[2])
        _check_fields(values, argv, found)
        config_flags.DEFINE_config_dict("config", found, flag_values=values, sys_argv=argv)
    elif any(each.startswith("--config.") for each in argv):
        raise UsageError("--config is missing", fix="--config=esim_kd")
    try:
        return values(argv)[1:]
    except (flags.Error, TypeError, ValueError) as error:
        message = " ".join(str(error).split()).replace(
            "Unknown command line flag '", "unknown flag '--"
        )
        message = re.sub(r"mean: (.+) \?$", r"mean --\1?", message)
        end, types = (
            "." * (not message.endswith("?")),
            ", and --fields for types" * ("config" in values),
        )
        raise UsageError(f"{message}{end}", fix=f"see --help{types}") from None


def _with_values(argv: list[str]) -> list[str]:
    """Joins --config and each --config.FIELD with a value that is a word of its own."""
    joined = []
    for argument in argv:
        before = joined[-1] if joined else ""
        is_value = re.fullmatch(r"--config(\.[^=]*)?", before) and not argument.startswith("--")
        if is_value:
            joined[-1] = f"{before}={argument}"
        else:
            joined.append(argument)
    return joined


def _with_corpus(argv, config_file) -> list[str]:
    """The arguments with --corpus expanded: to a variant of the config file, and the folder of the
    user's files."""
    corpora = [each.partition("=")[2] for each in argv if each.startswith("--corpus=")]
    if not corpora:
        return argv
    if any(each.startswith("--config=") for each in argv):
        raise UsageError("--corpus and --config both name a corpus", fix="leave one of them out")
    if corpora[-1] in defaults.VARIANTS:
        return [f"--config={config_file}:{corpora[-1]}", *argv]
    path = Path(corpora[-1]).expanduser()
    if not corpora[-1] or not path.exists():
        hint, known = (
            defaults.did_you_mean(corpora[-1], defaults.VARIANTS),
            ", ".join(defaults.VARIANTS),
        )
        raise UsageError(
            f"--corpus: no corpus or file '{corpora[-1]}'.{hint}",
            fix=f"give a path or one of {known}",
        )
    return [
        f"--config={config_file}:file",
        f"--config.data.dir={path if path.is_dir() else path.parent}",
        *argv,
    ]


def config_file(name: str) -> Path:
    """The file of --config=NAME, whatever its variant."""
    name, configs = name.partition(":")[0], _configs()
    path = Path(name) if Path(name).is_file() else configs.get(name)
    if path is None:
        hint, known = defaults.did_you_mean(Path(name).stem, configs), ", ".join(configs)
        raise UsageError(
            f"--config: no config or file '{name}'.{hint}", fix=f"give a file or one of {known}"
        )
    return path


def read_config(name: str) -> ConfigDict:
    """The config of --config=NAME: `esim_kd:mednli`, or a file and a variant."""
    path, variant = config_file(name), name.split(":", 1)[1:]
    try:
        found = runpy.run_path(str(path))["get_config"](*variant)
        found.lock()
        return found
    except UserError:
        raise
    except Exception as error:  # a config file is code and may raise any exception
        frames = traceback.walk_tb(error.__traceback__)
        lines = [f":{line}" for frame, line in frames if frame.f_code.co_filename == str(path)]
        lines += [f":{error.lineno}"] if isinstance(error, SyntaxError) else []
        problem = f"{path}{''.join(lines[-1:])}: {type(error).__name__} in the config file"
        raise UsageError(problem, fix="define get_config as the files of configs/ do") from None


def _configs() -> dict[str, Path]:
    """The package's own configs: name -> file."""
    return {path.stem: path for path in sorted(CONFIGS.glob("*.py"))}


def config(values: Flags) -> ConfigDict:
    if "config" not in values or values.config is None:  # --fields of a command without configs
        raise UsageError("--config is missing", fix="--config=esim_kd")
    return values.config


def required(values: Flags, name: str, example: str) -> str | Path:
    """The value of a flag."""
    if not values[name].value:
        raise UsageError(f"--{name} is missing", fix=example)
    return values[name].value


def config_name() -> str:
    """The name of a run directory: `esim_kd-demo` from `--config=configs/esim_kd.py`."""
    for argument in sys.argv:
        if argument.startswith("--config="):
            file, _, variant = argument.partition("=")[2].partition(":")
            return f"{Path(file).stem}-{(variant or 'demo').replace('/', '-')}"
    return "run"


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text("utf-8")))


def _list() -> str:
    """A line for each config, then the names of the corpora."""
    lines = ["Configs, for --config=NAME or --config=NAME:VARIANT"]
    for name, file in _configs().items():
        purpose = " ".join(_docstring(file).partition("\n\n")[0].split())
        lines.append(f"  {name:28} {purpose.partition(': ')[0]}")
    lines += [
        "",
        "Corpora, the VARIANT of a config; `doctor` lists those found, and where to get the others",
    ]
    for kind, variants in defaults.VARIANTS_OF.items():
        lines += textwrap.wrap(
            f"{kind}: {', '.join(variants)}", 100, initial_indent="  ", subsequent_indent="    "
        )
    return "\n".join(lines)


def _check_fields(values, argv, config) -> None:
    """Raises UserError where an argument --config.FIELD names no field, with a similar field of any
    section.

    Also where --lr or --epochs, which are no flags, stand for a field.
    """
    known = {f"--config.{field}": field.rpartition(".")[2] for field, *_ in fields(config)}
    for argument in argv:
        name = argument.partition("=")[0].replace("--noconfig.", "--config.")
        flag, last = name.lstrip("-"), name.lstrip("-").rpartition(".")[2]
        alias = f"--config.{ALIASES.get(last)}"
        if (flag in ALIASES and flag not in values) or (
            name.startswith("--config.") and name not in known
        ):
            near = (
                [alias]
                if alias in known
                else difflib.get_close_matches(name, known, n=1, cutoff=0.8)
            )
            last = difflib.get_close_matches(last, known.values(), n=1)
            near = near or [flag for flag in known if known[flag] in last]
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"{name}: the config has no such field.{hint}", fix="give a field of --fields"
            )


def fields(config: ConfigDict, prefix: str = "") -> Iterator[tuple[str, str, object]]:
    """(name with its sections, type, value) of each field."""
    for name, value in config.items(preserve_field_references=True):
        if isinstance(value, ConfigDict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", getattr(config.get_type(name), "__name__", ""), config[name]


def field_lines(config: ConfigDict) -> Iterator[str]:
    """One line per field: its flag, type, value and meaning."""
    rows = [
        (f"--config.{name}", kind, "" if value is None else repr(value))
        for name, kind, value in fields(config)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        meaning = defaults.HELP.get(row[0].removeprefix("--config."), "")
        yield "  ".join([*map(str.ljust, row, widths), meaning]).rstrip()
