"""Reports as one HTML file each: without scripts, network and other files, and without a sentence
of a corpus."""

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2

from mednli_jax.data.examples import Split
from mednli_jax.report import charts, public
from mednli_jax.report.outcomes import names_of, read_metrics
from mednli_jax.report.sections import Grid, RunSections, Section, markdown_text
from mednli_jax.rundir import (
    SPLITS,
    Json,
    RunData,
    RunDirectory,
    RunEnvironment,
    RunResult,
    SplitFacts,
    read_json,
)

CARD = "# Model card: "  # the first words of a model card's file
# Fields of a run's config by the names that its page gives them.
SETTINGS = {"hidden size": "hidden_size", "learning rate": "learning_rate", "batch": "batch_size"}


class Page(NamedTuple):
    """A page of a report. warning: a highlighted note below the title."""

    title: str
    sections: Sequence[Section]
    warning: str

    def html(self) -> str:
        return render(*self)


def render(title: str, sections: Sequence[Section], warning: str = "") -> str:
    """Renders a page. warning: a highlighted note below the title."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("mednli_jax", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = templates.get_template("report.html.j2")
    return page.render(title=title, sections=sections, warning=warning)


# -- a run -----------------------------------------------------------------------------------------


def run_page(
    directory: RunDirectory,
    sections: Callable[[RunDirectory, RunResult], RunSections],
    row_noun: str,
    more: Sequence[Section] = (),
) -> Page:
    """The page of a run, finished or not, from the files of its run directory.

    Args:
      sections, row_noun: run_sections and row_noun of its TASK; the settings and the learning
        curves stand between the two parts of sections.
      more: sections at the end, before versions, files and command.
    """
    result, data, env = directory.result(), directory.data(), directory.environment()
    of_task = sections(directory, result)
    config = directory.config
    corpus = result.corpus or config["data"]["name"]
    settings = Section("Settings", facts=_settings(directory, corpus, result, data, row_noun))
    curves = _curves(directory, result, of_task.measure)
    shown = [*of_task.before[:1], settings, *of_task.before[1:], curves, *of_task.after]
    origin = {
        "files": _files(data.splits.values()),
        "prepared": result.prepared,
        "devices": ", ".join(env.devices),
        **_provenance(env),
    }
    about = Section("Versions, files and command", facts=origin)
    shown = [section for section in (*shown, *more, about) if _has_content(section)]
    warning = ""
    if result.status != "complete":
        warning = f"The run is not finished: its status is {result.status}."
    model = result.model or config["model"]["name"]
    knowledge = "" if result.answers else _knowledge(config, data)
    title = f"{model}{knowledge} on {corpus}"
    return Page(title, shown, f"{warning} {' '.join(result.notes)}".strip())


def _has_content(section: Section) -> bool:
    return bool(section.grids or section.facts or any(chart for _, chart in section.charts))


def _knowledge(config: Mapping[str, Json], data: RunData) -> str:
    """The words of the title on the knowledge of a model that may use an ontology."""
    knowledge = config["model"].get("knowledge")
    if knowledge is None:
        return ""
    if knowledge == "none":
        return "" if config.get("vectors", {}).get("retrofit") else " without knowledge"
    return f" with {_ontology(data) or config['knowledge']['ontology']} ({knowledge})"


def _ontology(data: RunData) -> str:
    return f"{data.ontology} {data.ontology_version}".strip()


def _settings(
    directory: RunDirectory, corpus: str, result: RunResult, data: RunData, row_noun: str
) -> dict[str, str]:
    """The facts that decide the scores of a run; a page shows no empty facts."""
    config = directory.config
    facts = {
        "run": directory.folder.resolve().name,
        "data": f"{corpus}: {_sizes(data.splits)} {row_noun}" if data.splits else corpus,
    }
    if result.answers:  # the config names the corpus alone
        return {**facts, "answers": result.answers}
    facts |= {
        "config": result.config,
        "knowledge": config["model"].get("knowledge", ""),
        "ontology": _ontology(data),
        "word vectors": _word_vectors(config, data),
    }
    fields = {**config["model"]}
    if result.epochs is not None:  # other models take no settings of training
        fields.update(config["train"])
    for name, field in SETTINGS.items():
        if field in fields:
            facts[name] = str(fields[field])
    epochs = "" if result.epochs is None else str(result.epochs)
    best = _list(result.best_epoch)
    facts["epochs"] = ", best ".join(filter(None, (epochs, best)))
    facts["seeds"] = _list(config["seeds"])
    if result.parameters is not None:
        facts["parameters"] = f"{result.parameters:,} of each seed"
    facts["set-up"] = data.setup
    if result.seconds is not None:
        facts["trained in"] = f"{result.seconds:,.0f} s"
    return facts


def _word_vectors(config: Mapping[str, Json], data: RunData) -> str:
    if not data.values.get("vocabulary"):
        return ""
    vectors = Path(config.get("vectors", {}).get("path") or "random").name
    return f"{data.vectors or vectors}, {data.words_with_vector:,} words"


def _list(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _curves(directory: RunDirectory, result: RunResult, accuracy: str) -> Section:
    """The section of loss and accuracy by epoch, or step, a line per seed; the best epoch is
    marked. accuracy: its name."""
    rows = read_metrics(directory)
    time = "step" if any("step" in row for row in rows) else "epoch"
    best = dict(zip(result.seeds, result.best_epoch, strict=False))
    drawn = []
    for measure, name, scale, unit in (
        ("loss", "loss", 1, "nats"),
        ("accuracy", accuracy, 100, "points"),
    ):
        lines, marks = _lines(rows, time, measure, scale, best)
        title = f"{name.capitalize()} by {time}"
        chart = charts.curves(lines, title=title, x=time, y=f"{name} ({unit})", marks=marks)
        drawn.append((f"{title}, a line per seed; circles: the epoch kept", chart))
    return Section("Learning curves", charts=drawn)


def _lines(
    rows: Sequence[Mapping[str, Json]],
    time: str,
    measure: str,
    scale: float,
    best: Mapping[int, int],
) -> tuple[list[charts.Line], list[charts.Point]]:
    """The lines of a measure, and the points of the best epochs on dev. best: seed -> epoch."""
    lines: dict[tuple[str, int], charts.Line] = {}
    marks = []
    for side in ("train", "dev"):
        for row in rows:
            for seed, value in zip(row["seeds"], row.get(f"{side}_{measure}", ()), strict=False):
                point = row[time], math.nan if value is None else scale * value
                line = charts.Line(side, seed, [], dashed=side == "train")
                lines.setdefault((side, seed), line).points.append(point)
                if side == "dev" and best.get(seed) == row["epoch"]:
                    marks.append(point)
    return list(lines.values()), marks


def _provenance(env: RunEnvironment) -> dict[str, str]:
    """The programs and the command that made a run."""
    versions = {"mednli_jax": env.mednli_jax, "python": env.python, **env.versions}
    return {
        "started": env.started,
        "versions": ", ".join(f"{name} {value}" for name, value in versions.items() if value),
        "commit": env.commit,
        "command": shlex.join(env.command),
    }


def _sizes(splits: Mapping[str, SplitFacts]) -> str:
    names = [name for name in ("train", *SPLITS) if name in splits]
    return ", ".join(f"{name} {splits[name].rows:,}" for name in names)


def _files(splits: Iterable[SplitFacts]) -> str:
    """The files that were read, with the first digits of their hashes."""
    files = [split for split in splits if split.file and split.sha256]
    return ", ".join(f"{split.file} ({split.sha256[:12]})" for split in files)


# -- for others ------------------------------------------------------------------------------------


def public_figures(folder: Path) -> dict:
    """The part of a run that may be published, see public.figures."""
    directory = RunDirectory.existing(folder)
    env = folder / "env.json"
    result, values = directory.result().values, read_json(env) if env.is_file() else {}
    return public.figures(result, directory.config, values)


def public_pages(figures: dict) -> tuple[str, str]:
    """The (page, model card in Markdown) of a run for others. figures: of public_figures."""
    about = dict(figures["about"])
    model, corpus = about.pop("model", "a run"), about.pop("corpus", "a corpus")
    title = f"{model} on {corpus}"
    facts = {name: _text(value) for name, value in (about | figures["settings"]).items()}
    left_out = f"counts below {public.LEAST}, single pairs, words, paths and commands are left out"
    sections = public.sections(figures)
    limits = (
        f"Trained on {corpus}. Its licence may forbid to pass on weights that were "
        "made from its text. The scores are of its own dev and test splits and say little of other "
        "text. Not for decisions about patients."
    )
    lines = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    paragraphs = [f"{CARD}{title}", lines, markdown_text(sections), "## Limits", limits]
    card = "\n\n".join(filter(None, paragraphs)) + "\n"
    settings = Section("Settings", facts={**facts, "public": left_out})
    return render(title, [*sections, settings]), card


def _text(value: Json) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return _list(value) if isinstance(value, list) else str(value)


# -- a corpus, and several runs --------------------------------------------------------------------


def corpus_page(
    corpus: str,
    splits: Mapping[str, Split],
    sections: Sequence[Section],
    knowledge: str,
    notes: str,
    process: RunEnvironment,
) -> str:
    """The page of a corpus's analyses. knowledge: the ontology of its concepts; notes: remarks for
    the reader."""
    sizes = ", ".join(f"{name} {len(split):,}" for name, split in splits.items())
    facts = {
        "data": f"{sizes} pairs",
        "files": _files(SplitFacts.from_json(split.facts) for split in splits.values()),
        "ontology": knowledge,
    }
    about = Section("About", facts=facts | _provenance(process))
    summary = Section("Summary", [section.lead for section in sections if section.lead])
    shown = [summary, *sections] if summary.words else sections
    return render(f"Corpus {corpus}", [*shown, about], notes)


def runs_section(folders: Sequence[Path]) -> Section:
    """The section on the sources of the figures of several runs."""
    rows, origins, commands = [], {}, []
    for name, folder in zip(names_of(folders), folders, strict=True):
        directory = RunDirectory.existing(folder)
        result, facts = directory.result(), _provenance(directory.environment())
        commit, command = facts.pop("commit"), facts.pop("command")
        rows.append((name, result.model, result.corpus, _list(result.seeds), commit))
        sizes = _sizes(directory.data().splits)
        origins[name] = "; ".join(filter(None, (sizes, *facts.values())))
        commands.append((name, command))
    header = ("run", "model", "corpus", "seeds", "commit")
    grid = Grid("", header, rows, left=len(header))
    return Section("Runs", grids=[grid], facts=origins, commands=commands)
