"""Flags, one-line errors and exit codes of all commands. Importing this module imports neither jax
nor a command.

Exit codes: 0 done, 1 a bug, 2 bad input or usage, 3 interrupted and resumable, or another process
trains in the run. Where several processes train together and one is lost, jax ends the others with
134 (SIGABRT), which is resumable too. Only the user can read written files. A command whose reader
leaves, as in `train 2>&1 | head`, does all of its work.
"""

import ast
import copy
import difflib
import errno
import os
import re
import runpy
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from absl import flags
from ml_collections import config_flags
from ml_collections.config_dict import ConfigDict

import mednli_jax
from mednli_jax import defaults, errors
from mednli_jax.errors import ResumableError, UsageError, UserError
from mednli_jax.files.paths import local_path
from mednli_jax.files.writing import SHORTER_NAME
from mednli_jax.terminal import lossy_streams
from mednli_jax.types import FieldValue

if TYPE_CHECKING:
    from mednli_jax.sweeps import Sweep

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
CONFIG_HELP = """  --config=NAME[:VARIANT]      of --list, or a file: esim_kd:mednli, own.py
  --config.FIELD=VALUE         a field of the config (see --fields): --config.seeds=0,1,2
                               --config.train.epochs=4 --config.data.dir=FOLDER
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

CONFIG_FIELD = "--config."  # begins an argument that sets a field
HELP_FLAGS = {"--help", "-h", "--helpfull", "-help", "--helpshort"}
Flags = flags.FlagValues
CONFIG_FIELDS = "config_fields"


Default = str | bool | list[str] | tuple[str, ...] | None


def define(values: Flags, **default_of: Default) -> None:
    """Declares flags: name = default. A tuple holds the allowed values of a text; the first is the
    default."""
    for name, default in default_of.items():
        if isinstance(default, tuple):
            flags.DEFINE_enum(name, default[0], default, name, flag_values=values)
        elif isinstance(default, bool):
            flags.DEFINE_bool(name, default, name, flag_values=values)
        elif isinstance(default, list):
            flags.DEFINE_list(name, default, name, flag_values=values)
        else:
            flags.DEFINE_string(name, default, name, flag_values=values)


def define_numbers(values: Flags, least: int | None = 1, **default_of: int | None) -> None:
    """Declares flags for integers from `least` up: name = default."""
    for name, default in default_of.items():
        flags.DEFINE_integer(name, default, name, lower_bound=least, flag_values=values)


class _PathParser(flags.ArgumentParser):
    """Turns the text of a flag into the path of a file or folder of this machine."""

    def __init__(self, name: str) -> None:
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
    """The flags --config.FIELD=VALUE as {field: value}."""
    fields: dict[str, str] = {}
    for word in values[CONFIG_FIELDS].value or ():
        name, equals, value = word.removeprefix(CONFIG_FIELD).partition("=")
        if not equals:
            raise UsageError(f"--config.{name} has no value", fix=f"give --config.{name}=VALUE")
        fields[name] = value
    return fields


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
      usage: the text that `--help` prints; CONFIG_HELP takes the place of {config} in it. It is the
        docstring of the command's module, which `python -OO` drops: None then.
      define: declares the command's flags. It returns a config file if --corpus names a variant of
        it.
    """

    def work() -> int | None:
        values = flags.FlagValues()
        words_given = set(sys.argv[1:])
        if HELP_FLAGS & words_given:
            text = _docstring(Path(main.__code__.co_filename)) if usage is None else usage
            print(text.strip().replace("{config}", CONFIG_HELP), flush=True)
        elif "--version" in words_given:
            print(f"mednli_jax {mednli_jax.__version__}")
        elif "--list" in words_given:
            print(_list())
        elif "--fields" in words_given:
            sys.argv.remove("--fields")
            _parse(values, define(values))
            print(*field_lines(config(values)), sep="\n")
        else:
            arguments = _parse(values, define(values))
            if len(arguments) > words:
                word = arguments[words]
                fix = _suggested_flag(values, word) or "flags are --name=value; see --help"
                raise UsageError(f"unexpected argument '{word}'", fix=fix)
            return main(values, *arguments)
        return None

    return script(work)


def _suggested_flag(values: Flags, word: str) -> str:
    """The flag that the user probably meant by an argument that names a run, an input or a config;
    "" for another argument."""
    place = Path(word).expanduser()
    fits = {
        "run": (place / "config.json").is_file(),
        "config": place.suffix == ".py" or word.partition(":")[0] in _configs(),
        "input": place.is_file(),
    }
    for name in fits:
        if fits[name] and name in values:
            return f"--{name}={word}"
    return ""


# -- the words of this process ---------------------------------------------------------------------


def arguments() -> list[str]:
    """The arguments of this process, as `run` spells them."""
    return sys.argv[1:]


def command_line() -> list[str]:
    """The words that start this process again from a shell, in the same folder."""
    program, *arguments = sys.argv
    root = Path(mednli_jax.__file__).resolve().parent
    file = Path(program).resolve()
    if file.is_relative_to(root):
        names = file.relative_to(root.parent).with_suffix("").parts
        module = ".".join(names).removesuffix(".__main__")
        return ["python", "-m", module, *arguments]
    if file.suffix == ".py":
        return ["python", program, *arguments]
    return [program, *arguments]


def set_arguments(program: str, arguments: Sequence[str]) -> None:
    """Gives this process the arguments of another command. program: its file."""
    sys.argv = [program, *arguments]


def typed_command(command: str) -> str:
    """The words by which a user of this process starts a command: `mednli-jax train` or `python -m
    mednli_jax.train`."""
    script = Path([*sys.orig_argv, "", ""][1]).name
    return f"{script} {command}" if script == "mednli-jax" else f"python -m mednli_jax.{command}"


# -- exit codes ------------------------------------------------------------------------------------


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
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, ResumableError) else USAGE
    except KeyboardInterrupt:
        print("interrupted. Give the same command again.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        message = _refusal(error) or errors.plugin_message(error)
        if message:
            errors.print_traceback_if_asked(error)
            print(f"error: {message}", file=sys.stderr)
            return USAGE
        errors.report_bug(error)
        return BUG


def _refusal(error: Exception) -> str:
    """The line for an error of the system or of jax's checks that a user can correct; "" for
    another error."""
    problem = fix = ""
    if isinstance(error, OSError) and error.errno in REFUSALS:
        where = error.filename or "standard output or a file"
        problem, fix = f"{where}: {os.strerror(error.errno)}", "check the disk and its permissions"
        if error.errno == errno.ENAMETOOLONG:
            fix = SHORTER_NAME
    elif isinstance(error, RuntimeError) and str(error).startswith(NO_HOME):
        problem = "the home folder of a path with ~ is not known"
        fix = "set $HOME, or give paths without ~ and set $MEDNLI_JAX_CACHE"
    return str(UserError(problem, fix=fix))


# -- parsing ---------------------------------------------------------------------------------------


def _parse(values: Flags, corpus_config: str | None) -> list[str]:
    """Sets the flags from sys.argv and returns the other arguments. values.config becomes the
    config of its file.

    sys.argv afterwards holds `--dry_run` for `--dry-run`, and `--config.seeds=0` for
    `--config.seeds 0`.

    corpus_config: the file of which --corpus names a variant.
    """
    program, *words = sys.argv
    words = _with_values(list(map(_with_underscores, words)))
    sys.argv = [program, *words]
    if corpus_config:
        words = _with_corpus(words, corpus_config)
    if CONFIG_FIELDS in values:
        values[CONFIG_FIELDS].value = [word for word in words if word.startswith(CONFIG_FIELD)]
        words = [word for word in words if not word.startswith(CONFIG_FIELD)]
    if "config" in values:
        names = [word for word in words if word.startswith("--config=")]
        words = [word for word in words if word not in names]
    else:
        names = []
    words = [program, *words]
    if names:
        delattr(values, "config")
        config = read_config(names[-1].partition("=")[2])
        _check_fields(values, words, config)
        config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=words)
    elif any(word.startswith(CONFIG_FIELD) for word in words):
        raise UsageError("--config is missing", fix="--config=esim_kd")
    try:
        return list(values(words))[1:]
    except (flags.Error, TypeError, ValueError) as error:
        message = _in_one_line(error)
        message = message.replace("Unknown command line flag '", "unknown flag '--")
        message = re.sub(r"mean: (.+) \?$", r"mean --\1?", message)
        types = ", and --fields for types" if "config" in values else ""
        raise UsageError(message, fix=f"see --help{types}") from None


def _in_one_line(error: Exception) -> str:
    """The message of a parser of flags, in one line. Its remarks on tuples, which are for Python's
    own syntax, are cut."""
    message = " ".join(str(error).split())
    return re.sub("Error while.* as tuple.*", "no values with commas between them", message)


def _with_underscores(word: str) -> str:
    """Spells a flag with underscores: `--dry_run=1` for `-dry-run=1`; the value stays."""
    return re.sub("^--?([a-z][^=]*)", lambda flag: "--" + flag[1].replace("-", "_"), word)


def _with_values(words: Sequence[str]) -> list[str]:
    """Joins --config and each --config.FIELD with a value that is a word of its own."""
    joined: list[str] = []
    for word in words:
        before = joined[-1] if joined else ""
        is_value = re.fullmatch(r"--config(\.[^=]*)?", before) and not word.startswith("--")
        if is_value:
            joined[-1] = f"{before}={word}"
        else:
            joined.append(word)
    return joined


def _with_corpus(words: list[str], config_file: str) -> list[str]:
    """Expands --corpus in the arguments: to a variant of the config file, and the folder of the
    user's files."""
    corpora = [word.partition("=")[2] for word in words if word.startswith("--corpus=")]
    if not corpora:
        return words
    if any(word.startswith("--config=") for word in words):
        raise UsageError("--corpus and --config both name a corpus", fix="leave one of them out")
    corpus = corpora[-1]
    if corpus in defaults.VARIANTS:
        return [f"--config={config_file}:{corpus}", *words]
    path = Path(corpus).expanduser()
    if not corpus or not path.exists():
        hint = defaults.did_you_mean(corpus, defaults.VARIANTS)
        fix = f"give a path or one of {', '.join(defaults.VARIANTS)}"
        raise UsageError(f"--corpus: no corpus or file '{corpus}'.{hint}", fix=fix)
    folder = path if path.is_dir() else path.parent
    return [f"--config={config_file}:file", f"--config.data.dir={folder}", *words]


# -- configs ---------------------------------------------------------------------------------------


def config_file(name: str) -> Path:
    """The file of --config=NAME, for any variant."""
    name = name.partition(":")[0]
    if Path(name).is_file():
        return Path(name)
    configs = _configs()
    if name not in configs:
        hint = defaults.did_you_mean(Path(name).stem, configs)
        problem = f"--config: no config or file '{name}'.{hint}"
        raise UsageError(problem, fix=f"give a file or one of {', '.join(configs)}")
    return configs[name]


def read_config(name: str) -> ConfigDict:
    """The config of --config=NAME: `esim_kd:mednli`, or a file and a variant."""
    return _call_config(config_file(name), "get_config", *name.split(":", 1)[1:])


def read_sweep(values: Flags) -> "Sweep":
    """The return value of get_sweep in the file of --config."""
    config(values)  # raises UsageError where --config is missing
    names = [word for word in arguments() if word.startswith("--config=")]
    return _call_config(config_file(names[-1].removeprefix("--config=")), "get_sweep")


def _call_config(path: Path, function: str, *arguments: str) -> "ConfigDict | Sweep":
    """Calls a function of a config file and returns its value. A config is locked."""
    try:
        definitions = runpy.run_path(str(path))
        if function not in definitions:
            fix = f"define {function} as configs/search_ga.py does"
            raise UsageError(f"{path}: it defines no {function}", fix=fix)
        result = definitions[function](*arguments)
        if function == "get_config":
            result.lock()
        return result
    except UserError:
        raise
    except Exception as error:  # a config file is code and may raise any exception
        frames = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == str(path)]
        if isinstance(error, SyntaxError) and error.lineno:
            lines.append(error.lineno)
        place = f"{path}:{lines[-1]}" if lines else str(path)
        problem = f"{place}: {type(error).__name__} in the config file"
        raise UsageError(problem, fix=f"define {function} as configs/search_ga.py does") from None


def with_fields(config: ConfigDict, values: Mapping[str, object]) -> ConfigDict:
    """The config with values of its fields, which are read as those of --config.FIELD=VALUE."""
    words = ["", *(f"{CONFIG_FIELD}{name}={value}" for name, value in values.items())]
    config, parsed = copy.deepcopy(config), flags.FlagValues()
    _check_fields(parsed, words, config)
    try:
        config_flags.DEFINE_config_dict("config", config, flag_values=parsed, sys_argv=words)
        parsed(words)
    except (flags.Error, TypeError, ValueError) as error:
        fix = "give values of the types of --fields"
        raise UsageError(_in_one_line(error), fix=fix) from None
    return parsed.config


def _configs() -> dict[str, Path]:
    """The files of the package's own configs, by name."""
    return {path.stem: path for path in sorted(CONFIGS.glob("*.py"))}


def config(values: Flags) -> ConfigDict:
    if "config" not in values or values.config is None:  # --fields of a command without configs
        raise UsageError("--config is missing", fix="--config=esim_kd")
    return values.config


def required_path(values: Flags, name: str, example: str) -> Path:
    """The path of a flag. Raises UsageError if the flag, of any type, is missing."""
    path: Path | None = values[name].value
    if not path:
        raise UsageError(f"--{name} is missing", fix=example)
    return path


def config_name(plugin_class: str = "") -> str:
    """The name of a run directory: `esim_kd-demo` from `--config=configs/esim_kd.py`.

    plugin_class: of the user's own model, which replaces the name of a config of this package.
    """
    for word in sys.argv:
        if word.startswith("--config="):
            file, _, variant = word.partition("=")[2].partition(":")
            name = Path(file).stem
            if plugin_class and name in _configs():
                name = plugin_class
            return f"{name}-{(variant or 'demo').replace('/', '-')}"
    return "run"


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""


def _list() -> str:
    """A line for each config, then the names of the corpora."""
    lines = ["Configs, for --config=NAME or --config=NAME:VARIANT"]
    for name, file in _configs().items():
        purpose = " ".join(_docstring(file).partition("\n\n")[0].split())
        lines.append(f"  {name:28} {purpose.partition(': ')[0]}")
    lines.append("")
    lines.append(
        "Corpora, the VARIANT of a config; `doctor` lists those found, and where to get the others"
    )
    for examples, variants in defaults.VARIANTS_OF.items():
        text = f"{examples}: {', '.join(variants)}"
        lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def _check_fields(values: Flags, words: Sequence[str], config: ConfigDict) -> None:
    """Raises UsageError if an argument --config.FIELD names no field, with a similar field of any
    section.

    --lr or --epochs, which are no flags, count as such an argument.
    """
    last_names = {f"--config.{field.name}": field.last_name for field in fields(config)}
    for word in words:
        name = word.partition("=")[0].replace("--noconfig.", CONFIG_FIELD)
        flag, last_name = name.lstrip("-"), name.rpartition(".")[2].lstrip("-")
        is_alias = flag in ALIASES and flag not in values
        if is_alias or (name.startswith(CONFIG_FIELD) and name not in last_names):
            near = _nearest(name, f"--config.{ALIASES.get(last_name)}", last_name, last_names)
            hint = f" Did you mean {near}?" if near else ""
            problem = f"{name}: the config has no such field.{hint}"
            raise UsageError(problem, fix="give a field of --fields")


def _nearest(name: str, alias: str, last_name: str, last_names: Mapping[str, str]) -> str:
    """The flag of the most similar field, by alias, by whole name, or by name without section; ""
    if none is similar. last_names: flag -> name without section."""
    if alias in last_names:
        return alias
    whole = difflib.get_close_matches(name, last_names, n=1, cutoff=0.8)
    if whole:
        return whole[0]
    similar = difflib.get_close_matches(last_name, last_names.values(), n=1)
    return next((flag for flag in last_names if last_names[flag] in similar), "")


class Field(NamedTuple):
    """A field of a config: its name with the sections, its type and value."""

    name: str
    type_name: str
    value: FieldValue

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2]


def fields(config: ConfigDict, prefix: str = "") -> Iterator[Field]:
    """Yields the fields of a config and of its sections."""
    for name, value in config.items(preserve_field_references=True):
        if isinstance(value, ConfigDict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            type_name = config.get_type(name).__name__
            yield Field(f"{prefix}{name}", type_name, config[name])


def field_lines(config: ConfigDict) -> Iterator[str]:
    """Yields one line per field: its flag, type, value and meaning."""
    rows = []
    for field in fields(config):
        value = "" if field.value is None else repr(field.value)
        meaning = defaults.HELP.get(field.name, "")
        rows.append((f"--config.{field.name}", field.type_name, value, meaning))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for flag, type_name, value, meaning in rows:
        line = f"{flag:{widths[0]}}  {type_name:{widths[1]}}  {value:{widths[2]}}  {meaning}"
        yield line.rstrip()
