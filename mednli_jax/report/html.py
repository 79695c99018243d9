"""Reports as one HTML file each: no script, no network, nothing beside it, and no sentence of a corpus."""

import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from mednli_jax.data.examples import Split
from mednli_jax.errors import RunError
from mednli_jax.report import charts, public
from mednli_jax.report.outcomes import read_metrics
from mednli_jax.report.runs import SPLITS, RunDirectory, environment, read_json
from mednli_jax.report.sections import Grid, Section, markdown_text

CARD = "# Model card: "  # the first words of a model card's file


def render(title: str, sections: Sequence[Section], facts: Mapping[str, str] | None = None, warning: str = "") -> str:
    """The page. facts: below the title, without empty ones; warning: a highlighted note."""
    how = {"autoescape": True, "undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    loader = jinja2.PackageLoader("mednli_jax", "report")
    template = jinja2.Environment(loader=loader, **how).get_template("report.html.j2")
    return template.render(title=title, sections=sections, facts=facts or {}, warning=warning, Markup=Markup)


def run_page(
    directory: RunDirectory,
    sections: Callable[[RunDirectory, dict], tuple[Sequence[Section], Sequence[Section]]],
    units: str,
    more: Sequence[Section] = (),
) -> str:
    """The page of a run, finished or not, from the files of its run directory.

    Args:
      sections, units: run_sections and units of its TASK; the learning curves stand between both parts of sections.
      more: sections at the end.
    """
    with _of_this_version(directory):
        result, data = directory.result(), _json(directory.folder / "data.json")
        first, rest = sections(directory, result)
        shown = [*first, _curves(directory, result), *rest]
        if "links_per_length" in data.get("knowledge", {}):
            shown.append(_links(data["knowledge"]))
        kept = [one for one in (*shown, *more) if one.grids or any(chart for _, chart in one.charts)]
        status, notes = result["status"], " ".join(result.get("notes", ()))
        warning = "" if status == "complete" else f"The run is not finished: its status is {status}."
        corpus = result.get("corpus", directory.config["data"]["name"])
        title = f"{result.get('model', directory.config['model']['name'])} on {corpus}"
        facts = _facts(directory, corpus, result, data, units)
        return render(title, kept, facts, f"{warning} {notes}".strip())


@contextlib.contextmanager
def _of_this_version(directory):
    """Names the run whose files lack a field that this version writes."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{directory.folder}: its files are not as this version writes them ({type(error).__name__})"
        raise RunError(f"{problem}. Fix: restore them, or train again with this version.") from error


def public_figures(folder: Path) -> dict:
    """The part of a run that may be shown outside, see public.figures."""
    directory = RunDirectory.existing(folder)
    with _of_this_version(directory):
        return public.figures(directory.result(), directory.config, _json(folder / "env.json"))


def public_pages(found: dict) -> tuple[str, str]:
    """(the page of a run for others, the same in Markdown as the card of a model). found: of public_figures."""
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
    return render(title, sections, {**facts, "public": left_out}), "\n\n".join(filter(None, parts)) + "\n"


def _text(value):
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _json(path):
    return read_json(path) if path.is_file() else {}


def _sizes(splits):
    return ", ".join(f"{name} {splits[name]['rows']:,}" for name in ("train", *SPLITS) if name in splits)


def _files(splits):
    """The files that were read, with the first digits of their hashes. splits: facts of each split."""
    return ", ".join(f"{of['file']} ({of['sha256'][:12]})" for of in splits if "file" in of and "sha256" in of)


def _facts(directory, corpus, result, data, units) -> dict[str, str]:
    env, splits = _json(directory.folder / "env.json"), data.get("splits", {})
    knowledge, words = data.get("knowledge", {}), data.get("vocabulary", {})
    best = ", ".join(map(str, result.get("best_epoch", ())))
    vectors = Path(directory.config.get("vectors", {}).get("path") or "random").name
    return {
        "run": directory.folder.resolve().name,
        "data": f"{corpus}: {_sizes(splits)} {units}" if splits else corpus,
        "files": _files(splits.values()),
        "prepared": result.get("prepared", ""),
        "config": result.get("config", ""),
        "seeds": ", ".join(map(str, directory.config["seeds"])),
        "epochs": ", best ".join(filter(None, (str(result.get("epochs", "")), best))),
        "parameters": f"{result['parameters']:,} of each seed" if "parameters" in result else "",
        "set-up": data.get("setup", ""),
        "word vectors": f"{words.get('source') or vectors}, {words['with_vector']:,} words" if words else "",
        "ontology": " ".join(str(knowledge[name]) for name in ("ontology", "version") if name in knowledge),
        "trained in": f"{result['seconds']:,.0f} s" if "seconds" in result else "",
        "devices": ", ".join(env.get("devices", ())),
        **_provenance(env),
    }


def _provenance(env) -> dict[str, str]:
    versions = {"mednli_jax": env.get("mednli_jax", ""), "python": env.get("python", ""), **env.get("versions", {})}
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
        chart = charts.curves(series, title=title, x=time, y=f"{name} ({unit})", dashed=("train",), marks=marks)
        drawn.append((f"{title}, a line per seed; circles: the epoch kept", chart))
    return Section("Learning curves", charts=drawn)


def _links(knowledge) -> Section:
    counts = knowledge["links_per_length"]
    keys = sorted(counts, key=int)
    title = f"Links between tokens by path length, {knowledge.get('ontology', '')}"
    chart = charts.bars({"links": [counts[k] for k in keys]}, keys, title=title, x="shortest path", y="links")
    pairs = f"{knowledge.get('pairs_with_links', 0):,} pairs have links"
    return Section("Knowledge", [pairs], charts=[(title, chart)])


def corpus_page(corpus: str, splits: dict[str, Split], sections: Sequence[Section], knowledge: str, notes: str) -> str:
    """The page of a corpus's analyses. knowledge: the ontology of its concepts; notes: remarks for the reader."""
    sizes = ", ".join(f"{name} {len(split):,}" for name, split in splits.items())
    facts = {"data": f"{sizes} pairs", "files": _files(split.facts for split in splits.values()), "ontology": knowledge}
    return render(f"Corpus {corpus}", sections, facts | _provenance(environment()), notes)


def runs_section(folders: Sequence[Path]) -> Section:
    """Where the figures of several runs come from."""
    rows = []
    for folder in map(Path.resolve, folders):
        directory = RunDirectory.existing(folder)
        result, env = directory.result(), _provenance(_json(folder / "env.json"))
        sizes = _sizes(_json(folder / "data.json").get("splits", {}))
        seeds = ", ".join(map(str, result.get("seeds", ())))
        origin = (env[name] for name in ("commit", "started", "versions", "command"))
        rows.append((folder.name, result.get("model", ""), result.get("corpus", ""), sizes, seeds, *origin))
    header = ("run", "model", "corpus", "rows", "seeds", "commit", "started", "versions", "command")
    return Section("Runs", grids=[Grid("", header, rows, left=len(header))])
