"""Exports a finished run: as a run directory that can be carried elsewhere, or for the Transformers
library."""

from __future__ import annotations

import contextlib
from operator import itemgetter
from pathlib import Path

import jax

from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.errors import RunError
from mednli_jax.files.writing import private_folder, write_atomic
from mednli_jax.finished import Run
from mednli_jax.models.encoder import Encoder
from mednli_jax.models.weights import exported_files
from mednli_jax.report import html
from mednli_jax.rundir import TREES, TYPES, RunDirectory
from mednli_jax.terminal import warn
from mednli_jax.training.checkpoint import Checkpoints


def export(folder: Path, target: Path) -> None:
    """Copies the files that prediction needs from a finished run into a new folder: a run
    directory, with a model card."""
    run = Run(folder)
    source = run.directory
    # Reading its files refuses an unfinished or damaged run before anything is written.
    has_weights = run.variables is not None
    for name in ("vocabulary.json", "vectors.npy"):
        run.checked_file(name)
    _check_new(target)
    with contextlib.closing(RunDirectory.create(target, source.config)) as directory:
        checkpoint = Checkpoints(source.checkpoints).load() if has_weights else None
        if checkpoint:
            Checkpoints(directory.checkpoints).save(*checkpoint, alone=True)
        private = ("vocabulary.json", "vectors.npy", CONCEPTS, TYPES, TREES)
        names = ["data.json", *(f"private/{name}" for name in private), "result.json"]
        for name in names:
            if (source.folder / name).is_file():
                write_atomic(directory.folder / name, (source.folder / name).read_bytes())
    write_atomic(target / "README.md", _model_card(run))


def _check_new(target: Path) -> None:
    """Raises RunError if a folder for an export exists and is not empty."""
    if target.is_file() or (target.exists() and any(target.iterdir())):
        raise RunError(f"{target}: is there already", fix="name a new folder")


def _model_card(run: Run) -> str:
    """The README.md of an exported run, in the format of Hugging Face's model cards."""
    facts = "library_name: mednli_jax\nlanguage: en\nlicense: other"
    tags = f"tags: [clinical, jax, {run.scorer.name}]"
    call = f"load_run(FOLDER).predict([{run.task.form}])"
    use = f"```python\nfrom mednli_jax import load_run\n\n{call}\n```"
    _, card = html.public_pages(html.public_figures(run.directory.folder))
    return f"---\n{facts}\n{tags}\n---\n{card}\n## Use\n\n{use}\n"


def export_to_transformers(folder: Path, target: Path) -> None:
    """Writes the encoder of a finished run, and its tokenizer, as the Transformers library reads
    them; into a folder for each seed if there are several."""
    run = Run(folder)
    entry, vocabulary = run.experiment.model.entry, run.vocabulary
    if not isinstance(vocabulary, PieceVocabulary):
        problem = f"{folder}: the Transformers library has no model like '{entry.name}'"
        raise RunError(problem, fix="leave out --format, or give a run of an encoder")
    _check_new(target)
    facts, variables = run.scorer.model_facts(run.manifest), run.variables
    model = entry.build(run.experiment.model.fields, **facts)
    assert isinstance(model, Encoder)  # no other model reads pieces
    if model.knowledge != "none":
        warn("the links of the run stay behind: the exported model predicts without them")
    seeds = run.experiment.seeds
    for place, seed in enumerate(seeds):
        seed_folder = target / f"seed-{seed}" if len(seeds) > 1 else target
        private_folder(seed_folder, fix="name another folder")
        params = jax.tree.map(itemgetter(place), variables)["params"]
        for name, content in exported_files(model, params, run.scorer.labels).items():
            write_atomic(seed_folder / name, content)
        vocabulary.save_for_transformers(seed_folder, run.config.data.max_length)
