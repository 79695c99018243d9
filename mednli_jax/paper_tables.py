"""The papers' tables by the names that --table takes, filled from a folder of runs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mednli_jax.cloze import tables as cloze_tables
from mednli_jax.cloze.stats import skill_section
from mednli_jax.diskne import runs as diskne_runs
from mednli_jax.errors import UsageError
from mednli_jax.nli import tables as nli_tables
from mednli_jax.report import public as public_part
from mednli_jax.report import tables
from mednli_jax.report.sections import Section


@dataclass(frozen=True)
class PaperTable:
    """A filled table.

    Args:
      sections: for a reader.
      figures: the same as JSON values.
      folders: the runs it was made from; none on a public page.
      paper: the paper's name.
    """

    sections: list[Section]
    figures: dict
    folders: list[Path]
    paper: str


def filled(
    name: str, runs: Path, split: str, skills: Path | None, prepared_of: Callable, *, public: bool
) -> PaperTable:
    """The table filled with the results of a folder's runs.

    Args:
      name: as --table takes it: 3 to 7, mednli, clicr4, diskne1 to diskne8.
      runs: the folder of the runs.
      split: what is scored.
      skills: a file of the queries' skills for Figure 5 beside clicr4, None for none.
      prepared_of: see kinds.Kind.
      public: whether counts of few pairs and names of folders are left out.

    Raises: UsageError for an unknown table; UserError where the folder or a run is missing, damaged, or of another
    corpus than the others.
    """
    if name == cloze_tables.NAME:
        found = _cloze(runs, split, skills, prepared_of, public)
    elif name.startswith(diskne_runs.TABLE):
        found = _diskne(name, runs)
    elif name == nli_tables.NAME:
        values = nli_tables.checked(runs)
        found = PaperTable(nli_tables.sections(values), values, [], _paper("mednli"))
    elif name.isdecimal():
        found = _accuracies(int(name), runs, public)
    else:
        raise UsageError(f"--table={name}: no such table. Fix: see --help.")
    there = [folder for folder in found.folders if (folder / "config.json").is_file()]
    return replace(found, folders=[] if public else there)


def _accuracies(number, runs, public) -> PaperTable:
    table = tables.table_of(number)
    found = tables.filled(table, runs)
    if public:
        found = public_part.table(found, [cell.run for cell in table.cells])
    names = {name for cell in found["cells"] for name in (cell["run"], cell["baseline"]) if name}
    return PaperTable([tables.table_section(found)], found, [runs / name for name in sorted(names)], _paper("mednli"))


def _cloze(runs, split, skills, prepared_of, public) -> PaperTable:
    found = cloze_tables.filled(runs, split)
    found = public_part.table(found) if public else found
    shown = [cloze_tables.table_section(found)]
    if skills:
        found["skills"] = cloze_tables.skills_of_runs(runs, split, skills, prepared_of)
        shown.append(skill_section(found["skills"]))
    return PaperTable(shown, found, [runs / name for name in cloze_tables.RUNS.values()], _paper("clicr"))


def _diskne(name, runs) -> PaperTable:
    """All finished runs of the folder are columns."""
    found = diskne_runs.systems(runs)
    section = diskne_runs.table_section(name.removeprefix(diskne_runs.TABLE), found)
    return PaperTable([section], asdict(section.grids[0]), [runs / one.name for one in found], _paper("diskne"))


def _paper(name: str) -> str:
    return tables.published(name)["source"]
