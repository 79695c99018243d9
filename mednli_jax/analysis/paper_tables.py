"""The papers' tables by the names that --table takes, filled from a folder of runs."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mednli_jax.analysis import public, tables
from mednli_jax.analysis.cloze import skills as cloze_skills
from mednli_jax.analysis.cloze import table4
from mednli_jax.analysis.cloze.outcomes import f1_of_queries
from mednli_jax.analysis.diskne import runs as diskne_runs
from mednli_jax.analysis.sections import Section
from mednli_jax.errors import UsageError


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


@dataclass(frozen=True)
class Options:
    """How a table is filled.

    Args:
      split: what is scored.
      public: whether counts of few pairs and names of folders are left out.
      skills: a file of the queries' skills, None for none.
      prepared_of: see kinds.Kind.
    """

    split: str
    public: bool
    skills: Path | None
    prepared_of: Callable


def filled(name: str, runs: Path, options: Options) -> PaperTable:
    """The table with what the runs of a folder say. Raises: UserError for an unknown table, and where the folder or a
    run is missing, damaged, or of another corpus than the others."""
    if name == table4.NAME:
        return _cloze(runs, options)
    if name.startswith(diskne_runs.TABLE):
        return _diskne(name, runs)
    if not name.isdecimal():
        raise UsageError(f"--table={name}: no such table. Fix: see --help.")
    return _accuracies(int(name), runs, options)


def _accuracies(number: int, runs: Path, options: Options) -> PaperTable:
    table = tables.table_of(number)
    found = tables.filled(table, runs)
    if options.public:
        found = public.table(found, [cell.run for cell in table.cells])
    names = {name for cell in found["cells"] for name in (cell["run"], cell["baseline"]) if name}
    return PaperTable([tables.table_section(found)], found, _shown(runs, sorted(names), options), _paper("mednli"))


def _cloze(runs: Path, options: Options) -> PaperTable:
    """Table 4 of the paper on CliCR; Figure 5 beside it where skills are given."""
    found = table4.filled(runs, options.split)
    found = public.table(found) if options.public else found
    shown = [table4.table_section(found)]
    if options.skills:
        skills = cloze_skills.read_skills(options.skills)
        systems = table4.systems(runs, options.split, options.prepared_of)
        queries = next(iter(systems.values())).queries
        found["skills"] = cloze_skills.statistics(skills, queries, f1_of_queries(systems))
        shown.append(cloze_skills.section(found["skills"]))
    return PaperTable(shown, found, _shown(runs, table4.RUNS.values(), options), _paper("clicr"))


def _diskne(name: str, runs: Path) -> PaperTable:
    """A table of the paper on DisKnE, with all finished runs of the folder as columns."""
    found = diskne_runs.systems(runs)
    section = diskne_runs.table_section(name.removeprefix(diskne_runs.TABLE), found)
    return PaperTable([section], asdict(section.grids[0]), [runs / one.name for one in found], _paper("diskne"))


def _paper(name: str) -> str:
    return tables.published(name)["source"]


def _shown(runs: Path, names: Sequence[str], options: Options) -> list[Path]:
    """The folders of these runs that are there; none for a public page."""
    return [] if options.public else [runs / name for name in names if (runs / name / "config.json").is_file()]
