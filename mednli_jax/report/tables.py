"""The papers' tables: their figures, which are the files published/*.json, and ours beside them.

A table reads the runs of one folder, each named for its row or cell. The task folders make the
tables. A run is like the paper's if its whole config is that of its PaperRun.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from mednli_jax.errors import RunError, UserError
from mednli_jax.report.options import PaperRun, Read
from mednli_jax.report.sections import Grid, Section
from mednli_jax.rundir import RunDirectory, RunResult, differing, read_json
from mednli_jax.types import Json

# Fields that may differ from those of the paper's run: places of files, which are compared by their
# content, and how a run is kept.
FREE = re.compile(
    r"task|seeds|data\.(name|genre|dir|builder|labels|answer_vectors)|vectors\.path"
    r"|knowledge\.mentions|transfer\.init_from|model\.weights|train\.checkpoint_\w+"
    r"|diskne\.at_once|data\.augment_\w+"
)
# Sections that a model does not use.
UNUSED = {
    "features": ("train.",),
    "fasttext": ("vectors.",),
    "encoder": ("vectors.",),
}
ENDING = re.compile(r"(\.(txt|vec|bin|npy))?(\.gz)?$")  # of a file of vectors
COMPLETE, MISSING = "complete", "missing"  # states of a run
Fields = dict[str, Json]  # a config as JSON values, {section: {field: value}}


@cache
def published_figures(name: str) -> Fields:
    """The figures in published/NAME.json: mednli, clicr, diskne or artifacts. Callers must not
    change them."""
    path = files("mednli_jax.report") / "published" / f"{name}.json"
    return dict(json.loads(path.read_text("utf-8")))


def corpus_fields(name: str, corpus: str, *path: str) -> Fields:
    """The figures at a path of names in published/NAME.json; {} for another corpus than the
    paper's."""
    figures = published_figures(name)
    if corpus != figures["corpus"]:
        return {}
    for name in path:
        figures = figures[name]
    return figures


def figures_in(path: Path, *fields: str) -> Fields | str:
    """Reads the figures of a JSON file, or returns the reason why there are none."""
    if not path.is_file():
        return f"no {path.name}"
    try:
        values: Fields = read_json(path, *fields)
    except UserError:
        return f"{path.name} is damaged"
    return values


def heading(number: str | int, title: str, elsewhere: str = "", paper: str = "") -> str:
    """The title of a table. Figures on another corpus than the paper's do not have its number.

    elsewhere: the other corpus; "" for the paper's. paper: the paper's corpus.
    """
    if not elsewhere:
        return f"Table {number}: {title}"
    return (
        f"{title[0].upper()}{title[1:]}, on {elsewhere} (the paper's Table {number} is on {paper})"
    )


def check_folder(folder: Path) -> Path:
    """The folder. Raises RunError if it does not exist."""
    if not Path(folder).is_dir():
        fix = "give --runs=FOLDER, the folder that holds the runs"
        raise RunError(f"{folder}: no such folder", fix=fix)
    return Path(folder)


def command_line(command: str, *arguments: str) -> str:
    """A command of this package as a line for a shell."""
    return shlex.join(["python", "-m", f"mednli_jax.{command}", *arguments])


def state(folder: Path) -> str:
    """The state of a run: complete, in training, missing, unreadable, or the status in its
    result."""
    if not (folder / "config.json").is_file():
        return MISSING
    directory = RunDirectory(folder)
    try:
        status = directory.status()
    except RunError:  # damaged, or of another format
        return "unreadable"
    return "in training" if status != COMPLETE and directory.in_training() else status


def section(
    number: str | int,
    title: str,
    words: Sequence[str],
    grid: Grid,
    *,
    corpus: str,
    comparable: bool,
    paper: str,
    lacking: Mapping[str, Sequence[str]],
    more: Sequence[str],
) -> Section:
    """The section of a table.

    Args:
      words, more: before and after the note on corpora.
      corpus: of our figures; "" if there are none.
      comparable: whether the corpus is the paper's.
      paper: the paper's corpus.
      lacking: command -> names of the rows or runs that it makes.
    """
    notes = list(words)
    elsewhere = "" if comparable else corpus
    if not corpus:
        notes.append("no run of this table is finished yet")
    elif elsewhere:
        notes.append(
            f"the paper's figures are of {paper}: they are NOT COMPARABLE with ours on {corpus}"
        )
    commands = []
    for command, names in lacking.items():
        between = "; " if any("," in name for name in names) else ", "
        commands.append((f"not there yet: {between.join(names)}", command))
    title = heading(number, title, elsewhere, paper)
    return Section(title, [*notes, *more], [grid], commands=commands)


# -- how runs differ from a paper's ----------------------------------------------------------------


def differences_from_paper(folder: Path, read: Read, paper_run: PaperRun) -> list[str]:
    """Lists the differences of a run from a paper's: fields of its config and their numbers, seeds,
    vectors; no names of files."""
    directory = RunDirectory.existing(folder)
    config, result = directory.config, directory.result()
    if result.answers:
        return ["another system"]
    try:
        expected = _expected_config(read, paper_run, _variant(config, result))
    except UserError:
        return ["no config of this package"]
    remarks = [*_other_fields(expected, config, result.model)]
    seeds, wanted = len(result.seeds), len(expected["seeds"])
    if seeds != wanted > 1:
        remarks.append(f"{seeds} seed{'s' * (seeds != 1)}")
    if "vectors." not in UNUSED.get(result.model, ()):
        remarks += _other_vectors(expected, config, paper_run)
    return remarks


def _variant(config: Fields, result: RunResult) -> str:
    """The variant of the config of a paper's run on the corpus of a run."""
    data = config["data"]
    corpus = "demo" if data["name"].startswith("demo_") else data["name"]
    code = "_code" if "_code" in result.config else ""
    genre = f"/{data['genre']}" if data.get("genre") else ""
    return f"{corpus}{code}{genre}"


def _expected_config(read: Read, paper_run: PaperRun, variant: str) -> Fields:
    """The config of a paper's run as JSON values."""
    expected: Fields = json.loads(json.dumps(read(f"{paper_run.config}:{variant}").to_dict()))
    for field, value in paper_run.settings.items():
        section, _, name = field.rpartition(".")
        fields = expected[section] if section else expected
        fields[name] = list(value) if isinstance(value, tuple) else value
    return expected


def _other_fields(expected: Fields, config: Fields, model: str) -> Iterator[str]:
    """Yields each field that differs, with its value if that is a number."""
    unused = UNUSED.get(model, ())
    if not (_uses_knowledge(expected) or _uses_knowledge(config)):
        # Direct transfer has the source's fields.
        unused = (*unused, "knowledge.", "vectors.retrofit_")
    for field in differing(expected, config):
        if FREE.fullmatch(field) or field.startswith(unused):
            continue
        # Pretrained weights add settings that the config leaves to them.
        if config["model"].get("weights") and _at(expected, field) is None:
            continue
        value = _at(config, field)
        yield f"{field} {value:,}" if isinstance(value, int | float) else f"other {field}"


def _uses_knowledge(config: Fields) -> bool:
    return _at(config, "model.knowledge") != "none" or bool(_at(config, "vectors.retrofit"))


def _other_vectors(expected: Fields, config: Fields, paper_run: PaperRun) -> Iterator[str]:
    """Yields a line if the file of vectors has another name than that of the paper's run."""
    name, usual = (_stem(_at(fields, "vectors.path")) for fields in (config, expected))
    names = paper_run.vectors or (usual,)
    # Files of a row with other vectors than usual have no fixed name.
    is_papers = name in names if usual in names else name not in ("", usual)
    if not is_papers:
        yield "other vectors" if name else "random vectors"


def _stem(path: str | None) -> str:
    """The name of a file of vectors without its ending."""
    return ENDING.sub("", Path(path or "").name)


def _at(config: Fields, field: str) -> Json:
    section, _, name = field.partition(".")
    return config.get(section, {}).get(name)
