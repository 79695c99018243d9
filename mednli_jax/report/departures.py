"""How finished runs differ from the experiments of a paper: size, epochs, vectors, seeds, pairs.

The papers' settings are data, `settings` in published/*.json: fields of a config, the number of seeds, how the name of
the file of vectors begins, and in `of` what holds for one model alone.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from mednli_jax.errors import UserError
from mednli_jax.report.runs import RunDirectory, read_json

MISSING = "missing"  # for a field that a config lacks
# Field of a config -> the remark on a value that is not the paper's. Fields of `train` only apply to models that are
# trained by gradients.
SETTINGS = {
    "model.hidden_size": "hidden size {}",
    "model.trees": "{} trees",
    "vectors.dim": "vectors of {}",
    "train.epochs": "epochs at most {}",
    "train.batch_size": "batches of {}",
    "data.limit": "the first {} pairs",
    "data.sample": "a sample of {} pairs",
    "data.max_passage": "{} tokens of a passage",
    "data.max_length": "{} tokens of a text",
}
# Fields in which a run and its baseline have to be equal, because a gain must not come from them.
ALIKE = ("data.lowercase", "data.keep", "data.max_length", "vectors.unknown", "model.masking", "train.shuffle")
# Runs of Tables 5 and 7 with other vectors than GloVe's.
OTHER_VECTORS = re.compile(r"(mimic|vectors-(fasttext|wiki|glove-bioasq))-")


def departures(folder: Path, baseline: Path | None, paper: Mapping) -> list[str]:
    """The differences of a run, of the run that it was transferred from, and of its baseline; empty if there is none.

    paper: published/mednli.json. Fields that a config lacks are skipped. The remarks contain numbers, but no
    names of files or folders.
    Raises: UserError for a damaged run.
    """
    found, seeds = unlike(folder, paper), _result(folder).get("seeds")
    if (source := _source(folder)) is not None:
        found += [f"source: {words}" for words in unlike(source, paper) if words not in found]
    if baseline is not None:
        found += [f"baseline: {words}" for words in unlike(baseline, paper) if words not in found]
        if seeds != _result(baseline).get("seeds"):
            found.append("other seeds than the baseline")
        configs = [RunDirectory.existing(one).config for one in (folder, baseline)]
        found += [f"{field} unlike the baseline" for field in ALIKE if _at(configs[0], field) != _at(configs[1], field)]
    return found


def unlike(folder: Path, paper: Mapping) -> list[str]:
    """`departures` of a run by itself. paper: any of published/*.json that has settings."""
    config, result = RunDirectory.existing(folder).config, _result(folder)
    model = config.get("model", {})
    expected = paper["settings"] | paper["settings"].get("of", {}).get(model.get("name"), {})
    neural, found = {"hidden_size", "dim"} & model.keys(), []
    for field, words in SETTINGS.items():
        value = _at(config, field)
        if value not in (MISSING, expected.get(field, value)) and (neural or not field.startswith("train.")):
            found.append(words.format(f"{value:,}" if value else "all"))
    seeds = len(result.get("seeds", ()))
    if seeds != expected.get("seeds", seeds):
        found.append(f"{seeds} seed{'s' * (seeds != 1)}")
    counted = "train" in paper.get("statistics", ()) and result.get("corpus") == paper["corpus"]
    if counted and result.get("transfer", {}).get("mode") != "direct":
        rows, pairs = _training_pairs(folder), paper["statistics"]["train"]["pairs"]
        found += [f"{rows:,} training pairs"] * (rows not in (None, pairs))
    return found + (_vectors(folder.name, config, expected["vectors"]) if "vectors" in expected else [])


def _vectors(name, config, beginning):
    fields = config.get("vectors", {})
    if "path" not in fields:
        return []
    if not fields["path"]:
        return ["random vectors"]
    of_paper = OTHER_VECTORS.match(name) or Path(fields["path"]).name.startswith(beginning)
    return [] if of_paper else ["other vectors"]


def _at(config, field):
    section, name = field.split(".")
    return config.get(section, {}).get(name, MISSING)


def _result(folder):
    return RunDirectory.existing(folder).result()


def _training_pairs(folder):
    try:
        return read_json(folder / "data.json", "splits")["splits"]["train"]["rows"]
    except (UserError, KeyError, TypeError):
        return None


def _source(folder):
    """The run in the same folder whose weights this run started from, or None."""
    given = RunDirectory.existing(folder).config.get("transfer", {}).get("init_from")
    name = given or _result(folder).get("transfer", {}).get("source")
    source = folder.parent / Path(name).name if name else None
    return source if source and (source / "config.json").is_file() else None
