"""Reports as one HTML file each: no script, no network, nothing beside it, and no sentence of a
corpus."""

import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from mednli_jax.data.examples import Split
from mednli_jax.errors import RunError
from mednli_jax.report import charts, public
from mednli_jax.report.outcomes import names_of, read_metrics
from mednli_jax.report.sections import Grid, RunSections, Section, markdown_text, number_of
from mednli_jax.rundir import SPLITS, RunDirectory, RunEnvironment, RunResult, read_json

CARD = "# Model card: "  # the first words of a model card's file


def render(title: str, sections: Sequence[Section], warning: str = "") -> str:
    """The page. warning: a highlighted note below the title."""
    how = {
        "autoescape": True,
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
    }
    loader = jinja2.PackageLoader("mednli_jax", "report")
    template = jinja2.Environment(loader=loader, **how).get_template("report.html.j2")
    return template.render(title=title, sections=sections, warning=warning, Markup=Markup)


def run_page(
    directory: RunDirectory,
    sections: Callable[[RunDirectory, RunResult], RunSections],
    units: str,
    more: Sequence[Section] = (),
) -> str:
    """The page of a run, finished or not, from the files of its run directory.

    Args:
      sections, units: run_sections and units of its TASK; the settings and the learning curves stand between both
        parts of sections.
      more: sections at the end, before versions, files and command, which are folded.
    """
    with _of_this_version(directory):
        of_task = sections(directory, directory.result())
        result, data = directory.result().values, directory.data().values
        corpus = result.get("corpus", directory.config["data"]["name"])
        settings = Section("Settings", facts=_settings(directory, corpus, result, data, units))
        shown = [*of_task.before[:1], settings, *of_task.before[1:], _curves(directory, result)]
        shown += of_task.after
        if "links_per_length" in data.get("knowledge", {}):
            shown.append(_links(data["knowledge"]))
        origin = _origin(_json(directory.folder / "env.json"), result, data)
        shown += [*more, Section("Versions, files and command", facts=origin, folded=True)]
        kept = [
            one for one in shown if one.grids or one.facts or any(chart for _, chart in one.charts)
        ]
        status, notes = result["status"], " ".join(result.get("notes", ()))
        warning = (
            "" if status == "complete" else f"The run is not finished: its status is {status}."
        )
        model = result.get("model", directory.config["model"]["name"])
        title = f"{model}{_knowledge(directory.config, data)} on {corpus}"
        return render(title, kept, f"{warning} {notes}".strip())


@contextlib.contextmanager
def _of_this_version(directory):
    """Names the run whose files lack a field that this version writes."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{directory.folder}: its files are not as this version writes them ({type(error).__name__})"
        raise RunError(problem, fix="restore them, or train again with this version") from error


def public_figures(folder: Path) -> dict:
    """The part of a run that may be shown outside, see public.figures."""
    directory = RunDirectory.existing(folder)
    with _of_this_version(directory):
        return public.figures(
            directory.result().values, directory.config, _json(folder / "env.json")
        )


def public_pages(found: dict) -> tuple[str, str]:
    """(the page of a run for others, the same in Markdown as the card of a model). found: of
    public_figures."""
    about = dict(found["about"])
    title = f"{about.pop('model', 'a run')} on {about.pop('corpus', 'a corpus')}"
    facts = {name: _text(value) for name, value in (about | found["settings"]).items()}
    left_out = f"counts below {public.LEAST}, single pairs, words, paths and commands are left out"
    sections = public.sections(found)
    lines = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    limits = (
        f"Trained on {found['about'].get('corpus', 'a corpus')}. Its licence may forbid to pass on weights that were "
        "made from its text. The scores are of its own dev and test parts and say little of other text. Not for "
        "decisions about patients."
    )
    parts = [f"{CARD}{title}", lines, markdown_text(sections), "## Limits", limits]
    shown = [*sections, Section("Settings", facts={**facts, "public": left_out})]
    return render(title, shown), "\n\n".join(filter(None, parts)) + "\n"


def _text(value):
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _json(path):
    return read_json(path) if path.is_file() else {}


def _sizes(splits):
    return ", ".join(
        f"{name} {splits[name]['rows']:,}" for name in ("train", *SPLITS) if name in splits
    )


def _files(splits):
    """The files that were read, with the first digits of their hashes. splits: facts of each
    split."""
    return ", ".join(
        f"{of['file']} ({of['sha256'][:12]})" for of in splits if "file" in of and "sha256" in of
    )


def _knowledge(config, data) -> str:
    """The title's words on the knowledge of a model that may use an ontology."""
    knowledge = config["model"].get("knowledge")
    if knowledge in (None, "none"):
        return " without knowledge" * (
            knowledge == "none" and not config.get("vectors", {}).get("retrofit")
        )
    return f" with {_ontology(data) or config['knowledge']['ontology']} ({knowledge})"


def _ontology(data):
    knowledge = data.get("knowledge", {})
    return " ".join(str(knowledge[name]) for name in ("ontology", "version") if name in knowledge)


def _settings(directory, corpus, result, data, units) -> dict[str, str]:
    """What decides the scores of a run."""
    config, splits, words = directory.config, data.get("splits", {}), data.get("vocabulary", {})
    best = ", ".join(map(str, result.get("best_epoch", ())))
    vectors = Path(config.get("vectors", {}).get("path") or "random").name
    chosen = {**config["model"], **(config["train"] if "epochs" in result else {})}
    named = {"hidden size": "hidden_size", "learning rate": "learning_rate", "batch": "batch_size"}
    return {
        "run": directory.folder.resolve().name,
        "data": f"{corpus}: {_sizes(splits)} {units}" if splits else corpus,
        "config": result.get("config", ""),
        "knowledge": chosen.get("knowledge", ""),
        "ontology": _ontology(data),
        "word vectors": f"{words.get('source') or vectors}, {words['with_vector']:,} words"
        if words
        else "",
        **{name: str(chosen[field]) for name, field in named.items() if field in chosen},
        "epochs": ", best ".join(filter(None, (str(result.get("epochs", "")), best))),
        "seeds": ", ".join(map(str, config["seeds"])),
        "parameters": f"{result['parameters']:,} of each seed" if "parameters" in result else "",
        "set-up": data.get("setup", ""),
        "trained in": f"{result['seconds']:,.0f} s" if "seconds" in result else "",
    }


def _origin(env, result, data) -> dict[str, str]:
    """The files and programs that a run comes from."""
    named = {
        "files": _files(data.get("splits", {}).values()),
        "prepared": result.get("prepared", ""),
    }
    return {**named, "devices": ", ".join(env.get("devices", ())), **_provenance(env)}


def _provenance(env) -> dict[str, str]:
    versions = {
        "mednli_jax": env.get("mednli_jax", ""),
        "python": env.get("python", ""),
        **env.get("versions", {}),
    }
    return {
        "started": env.get("started", ""),
        "versions": ", ".join(f"{name} {value}" for name, value in versions.items() if value),
        "commit": env.get("commit", ""),
        "command": shlex.join(env.get("command", ())),
    }


def _curves(directory, result) -> Section:
    """Loss and accuracy by epoch, or step, a line per seed; the epoch that was kept is marked."""
    metrics, drawn = read_metrics(directory), []
    best = dict(zip(result.get("seeds", ()), result.get("best_epoch", ()), strict=False))
    time = "step" if any("step" in row for row in metrics) else "epoch"
    for name, scale, unit in (("loss", 1, "nats"), ("accuracy", 100, "points")):
        series, marks = {}, []
        for side in ("train", "dev"):
            for row in metrics:
                for seed, value in zip(row["seeds"], row.get(f"{side}_{name}", ()), strict=False):
                    value = float("nan") if value is None else scale * value
                    series.setdefault(f"{side}:{seed}", []).append((row[time], value))
                    if side == "dev" and best.get(seed) == row["epoch"]:
                        marks.append((row[time], value))
        title = f"{name.capitalize()} by {time}"
        chart = charts.curves(
            series, title=title, x=time, y=f"{name} ({unit})", dashed=("train",), marks=marks
        )
        drawn.append((f"{title}, a line per seed; circles: the epoch kept", chart))
    return Section("Learning curves", charts=drawn)


def _links(knowledge) -> Section:
    counts = knowledge["links_per_length"]
    keys = sorted(counts, key=int)
    title = f"Links between tokens by path length, {knowledge.get('ontology', '')}"
    chart = charts.bars(
        {"links": [counts[k] for k in keys]}, keys, title=title, x="shortest path", y="links"
    )
    pairs = f"{number_of(knowledge.get('pairs_with_links', 0), 'pair')} with links"
    return Section("Knowledge", [pairs], charts=[(title, chart)])


def corpus_page(
    corpus: str,
    splits: Mapping[str, Split],
    sections: Sequence[Section],
    knowledge: str,
    notes: str,
    process: RunEnvironment,
) -> str:
    """The page of a corpus's analyses.

    Args:
      knowledge: the ontology of its concepts.
      notes: remarks for the reader.
      process: that analysed the corpus.
    """
    sizes = ", ".join(f"{name} {len(split):,}" for name, split in splits.items())
    facts = {
        "data": f"{sizes} pairs",
        "files": _files(split.facts for split in splits.values()),
        "ontology": knowledge,
    }
    about = Section("About", facts=facts | _provenance(process.to_json()))
    return render(f"Corpus {corpus}", [*sections, about], notes)


def runs_section(folders: Sequence[Path]) -> Section:
    """Where the figures of several runs come from."""
    rows, origins = [], {}
    for name, folder in zip(names_of(folders), folders, strict=True):
        directory = RunDirectory.existing(folder)
        result, env = directory.result().values, _provenance(_json(folder / "env.json"))
        seeds = ", ".join(map(str, result.get("seeds", ())))
        rows.append(
            (name, result.get("model", ""), result.get("corpus", ""), seeds, env.pop("commit"))
        )
        sizes = _sizes(_json(folder / "data.json").get("splits", {}))
        origins[name] = "; ".join(filter(None, (sizes, *env.values())))
    header = ("run", "model", "corpus", "seeds", "commit")
    return Section("Runs", grids=[Grid("", header, rows, left=len(header))], facts=origins)
