"""Tables 1 to 8 of Alghanmi et al. 2021 (DisKnE), beside our figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import starmap
from pathlib import Path

import numpy as np

from mednli_jax.diskne.data import CATEGORIES
from mednli_jax.diskne.folds import phrase
from mednli_jax.diskne.runs import BERT_BASE, FOLDERS, MODELS, STRONGEST, settings_of
from mednli_jax.diskne.scores import ALWAYS, AVERAGES, TITLES, with_averages
from mednli_jax.errors import RunError
from mednli_jax.report.options import PaperRun, Read, TableOptions
from mednli_jax.report.sections import Grid, Report, Section
from mednli_jax.report.tables import (
    COMPLETE,
    check_folder,
    command_line,
    differences_from_paper,
    heading,
    published_figures,
    state,
)
from mednli_jax.rundir import RunDirectory
from mednli_jax.types import Json

TITLE = "DisKnE (Alghanmi et al. 2021)"
PAPER = published_figures("diskne")
CORPUS = "mednli"  # of the configs on the published annotations
NAME = "diskne"
EXAMPLES_TABLE, WORDINGS_TABLE = "1", "7"
Scores = Mapping[str, Json]


@dataclass(frozen=True)
class System:
    """A finished run.

    Args:
      about: `diskne` of its data.json.
      categories: its `scores`.
      unlike: its differences from the paper's run, see report.tables.differences_from_paper.
      weights: name of the folder of its pretrained weights.
      corpus: the name of the benchmark in its config.
    """

    name: str
    about: Scores
    categories: Scores
    unlike: Sequence[str] = ()
    weights: str = ""
    corpus: str = CORPUS


def report(number: str, folder: Path, options: TableOptions) -> Report:
    """Reports one of the tables. All finished runs of the folder are columns."""
    place = check_folder(folder) / FOLDERS[number]
    runs = place if place.is_dir() else folder
    systems = systems_in(runs, options.read)
    section = table_section(number, systems)
    names = [system.name for system in systems]
    lacking = [name for name in MODELS if name not in names]
    if lacking and number not in (EXAMPLES_TABLE, WORDINGS_TABLE):
        weights = ",".join(f"{name}=FOLDER" for name in lacking)
        variant = systems[0].corpus.partition("_")[0]  # "demo" for demo_diskne
        words = ("reproduce", NAME, str(folder), variant, f"--tables={number}")
        command = f"{options.command or command_line(*words)} --weights={weights}"
        missing = (f"not there yet: {', '.join(lacking)}", command)
        section = replace(section, commands=(*section.commands, missing))
    return Report(asdict(section.grids[0]), [section], runs=[runs / name for name in names])


def systems_in(folder: Path, read: Read) -> list[System]:
    """The finished runs of folds in a folder, by name."""
    systems = []
    for path in sorted(path.parent for path in folder.glob("*/config.json")):
        run = RunDirectory(path)
        is_locked_once = (path / "lock").is_file()
        if is_locked_once and run.task == NAME and state(path) == COMPLETE:
            systems.append(_system(run, read))
    if not systems:
        fix = "give the folder that `reproduce diskne` made"
        raise RunError(f"{folder}: holds no finished run of folds", fix=fix)
    return systems


def _system(run: RunDirectory, read: Read) -> System:
    path, config, result = run.folder, run.config, run.result()
    weights = config["model"].get("weights", "")
    settings = dict(settings_of(path.parent.name, path.name))
    if "weights" in config["model"]:
        settings |= BERT_BASE
    paper_run = PaperRun(path.name, result.config.partition("-")[0], settings)
    return System(
        path.name,
        run.data().values["diskne"],
        result.values["categories"],
        differences_from_paper(path, read, paper_run),
        Path(weights).name,
        config["data"]["name"],
    )


def table_section(number: str, systems: Sequence[System]) -> Section:
    """A section of one of the paper's tables, in per cent: our systems, the classifier that always
    says true, the paper's columns.

    The diseases are those of the first system; the others must have them, too.
    """
    first = systems[0]
    about = first.about
    words = [f"ours on {about['name']}; F1 of the positive class in %, mean and sd over runs"]
    if note := about["facts"].get("note"):
        words.append(note)
    for system in systems:
        if system.unlike:
            words.append(f"{system.name}, unlike the paper's: {'; '.join(system.unlike)}")
    table = PAPER["tables"][number]
    if number == WORDINGS_TABLE:
        of_name = {system.name: system for system in systems}
        systems = [of_name[name] for name in table["columns"] if name in of_name] or systems
        weights = first.weights or "no pretrained weights"
        words.append(f"ours with {weights}, the paper's with {STRONGEST}")
    if number == EXAMPLES_TABLE:
        grid = _example_grid(table, about)
    elif "diseases" in table:
        grid = _disease_grid(table, systems)
    else:
        grid = _category_grid(table, systems)
    elsewhere = "" if first.corpus == CORPUS else about["name"]
    caption = heading(number, grid.caption, elsewhere, "its annotations of MedNLI")
    return Section(TITLE, words, [replace(grid, caption=caption)])


def _example_grid(table: Scores, about: Scores) -> Grid:
    """Table 1."""
    facts = about["facts"]
    rows: list[tuple[str, ...]] = []
    for category in CATEGORIES:
        ours = (facts["positives"][category], facts["negatives"][category])
        paper = table["rows"][category]
        rows.append((TITLES[category], *map(str, (*ours, *paper))))
    header = ("category", "positives", "negatives", *table["columns"])
    return Grid("examples of the benchmark", header, rows)


def _category_grid(table: Scores, systems: Sequence[System]) -> Grid:
    """Tables 7 and 8: averages over the diseases of each category."""
    first = systems[0].categories
    scored = _system_scores(systems, first)
    rows: list[tuple[str, ...]] = []
    for average in AVERAGES:
        for category in CATEGORIES:
            ours = [_average_cell(scores.get(category, {}), average) for scores in scored.values()]
            paper = starmap(_format, table[average][category])
            rows.append((average, TITLES[category], *ours, *paper))
    columns = [*scored, *map("paper: {}".format, table["columns"])]
    return Grid(table["caption"], ("average", "category", *columns), rows, left=2)


def _disease_grid(table: Scores, systems: Sequence[System]) -> Grid:
    """Tables 2 to 6: each disease of ours, each further one of the paper's, then the averages over
    all, and over the diseases that both have."""
    category, of_paper = table["category"], table["diseases"]
    about, first = systems[0].about, systems[0].categories
    ours = first.get(category, {}).get("diseases", {})
    scored = _system_scores(systems, first)
    of_systems = [scores.get(category, {}) for scores in scored.values()]
    paper_names = _paper_names(about, ours, of_paper)
    blank_ours, blank_paper = [""] * len(scored), [""] * len(MODELS)
    rows: list[tuple[str, ...]] = []
    order = sorted(ours, key=lambda d: (-ours[d]["positives"], about["names"][d]))
    for disease in order:
        cells = [f"{100 * scores['diseases'][disease]['f1']:.0f}" for scores in of_systems]
        paper = blank_paper
        if disease in paper_names:
            paper = list(map(str, of_paper[paper_names[disease]]))
        positives = str(ours[disease]["positives"])
        rows.append((about["names"][disease], positives, *cells, *paper))
    for name in sorted(of_paper.keys() - set(paper_names.values())):
        rows.append((name, "", *blank_ours, *map(str, of_paper[name])))
    for average in AVERAGES:
        cells = [_average_cell(scores, average) for scores in of_systems]
        rows.append((f"{average} average", "", *cells, *starmap(_format, table[average])))
    if paper_names and not len(paper_names) == len(ours) == len(of_paper):
        rows += _shared_rows(of_systems, ours, paper_names, of_paper)
    columns = [*scored, *map("paper: {}".format, MODELS)]
    caption = f"{TITLES[category]}, F1 of the positive class in %"
    return Grid(caption, ("disease", "positives", *columns), rows)


def _shared_rows(
    of_systems: Sequence[Scores], ours: Scores, paper_names: Mapping[str, str], of_paper: Scores
) -> list[tuple[str, ...]]:
    """The averages over the diseases that both have. The paper's figures are weighted by our
    positive examples, because it does not print its own."""
    weights, paper = [], []
    for disease, name in paper_names.items():
        weights.append(ours[disease]["positives"])
        paper.append(of_paper[name])
    weights_D, paper_DM = np.array(weights, float), np.array(paper, float)
    shared = [_with_averages(scores["diseases"], paper_names) for scores in of_systems]
    averages = {
        "macro": paper_DM.mean(axis=0),
        "weighted": np.average(paper_DM, axis=0, weights=weights_D),
    }
    rows: list[tuple[str, ...]] = []
    for average, paper_M in averages.items():
        title = f"{average} average, the {len(paper_names)} that both have"
        cells = [_average_cell(scores, average) for scores in shared]
        rows.append((title, "", *cells, *map("{:.0f}".format, paper_M)))
    return rows


def _system_scores(systems: Sequence[System], first: Scores) -> dict[str, dict[str, Scores]]:
    """The scores of the diseases in `first`, by system and category; the classifier that always
    says true stands last."""
    scored: dict[str, dict[str, Scores]] = {system.name: {} for system in systems}
    scored[ALWAYS] = {}
    for category, of_first in first.items():
        for system in systems:
            scored[system.name][category] = _scores_of_diseases(
                system, category, of_first["diseases"]
            )
        diseases = {}
        for disease, scores in of_first["diseases"].items():
            f1 = scores["always_positive"]
            diseases[disease] = {**scores, "f1": f1, "per_run": [f1]}
        scored[ALWAYS][category] = with_averages(diseases)
    return scored


def _scores_of_diseases(system: System, category: str, diseases: Scores) -> Scores:
    """A system's scores of some diseases of a category."""
    own = system.categories.get(category, {}).get("diseases", {})
    if missing := diseases.keys() - own.keys():
        problem = (
            f"{system.name}: {len(missing)} diseases of other runs have no scores in {category}"
        )
        raise RunError(problem, fix="give runs of one benchmark, with all its folds")
    return _with_averages(own, diseases)


def _with_averages(scores: Scores, diseases: Iterable[str]) -> Scores:
    """The scores of some diseases with their averages."""
    return with_averages({disease: scores[disease] for disease in diseases})


def _paper_names(about: Scores, diseases: Scores, wanted: Scores) -> dict[str, str]:
    """The name of each disease in the paper's table, found by its own name, else by any other
    name."""
    own_names = {disease: [name] for disease, name in about["names"].items()}
    paper_names: dict[str, str] = {}
    for names_of in (own_names, about["synonyms"]):
        for disease in sorted(set(diseases) - set(paper_names)):
            phrases = set(map(phrase, names_of[disease]))
            for name in wanted:
                if name not in paper_names.values() and phrase(name) in phrases:
                    paper_names[disease] = name
                    break
    return paper_names


# F1 as the paper prints it.


def _format(mean: float, sd: float) -> str:
    return f"{mean} ±{sd}"


def _average_cell(scores: Scores, average: str) -> str:
    """The cell of an average. A single run has no standard deviation."""
    if not scores:
        return ""
    figures = scores[average]
    spread = f" ±{100 * figures['sd']:.1f}" if len(figures["per_seed"]) > 1 else ""
    return f"{100 * figures['mean']:.0f}{spread}"
