"""Exports a finished run: as a run directory that can be carried elsewhere, or for the Transformers
library."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path

import jax
import numpy as np

from mednli_jax.data.arrays import VECTORS_OF_RUN, npy
from mednli_jax.data.cache import CONCEPTS
from mednli_jax.data.corpus import corpora_folder, file_path
from mednli_jax.data.pieces import VOCABULARY, PieceVocabulary
from mednli_jax.data.text import PAD, UNK, Vocab
from mednli_jax.data.vectors import load_vectors
from mednli_jax.errors import RunError, UsageError, UserError
from mednli_jax.files.writing import (
    private_folder,
    sha256,
    write_atomic,
    write_json,
    write_sealed,
    writing,
)
from mednli_jax.finished import Run
from mednli_jax.models.encoder import Encoder
from mednli_jax.models.weights import exported_files
from mednli_jax.report import html
from mednli_jax.rundir import MODEL, TREES, TYPES, RunDirectory
from mednli_jax.terminal import say, warn
from mednli_jax.training.checkpoint import Checkpoints
from mednli_jax.training.scorer import LabelScorer
from mednli_jax.training.transfer import OF_WORDS
from mednli_jax.types import Json, JsonObject

# The fields of result.json and data.json that prediction needs. All others may be counts, scores or
# digests of the corpus.
RESULT = ("format", "status", "corpus", "task", "model", "config", "seeds", "best_epoch")
DATA = ("tokeniser", "setup", "pieces", VECTORS_OF_RUN)
PARTS = {
    "files": (VOCABULARY, "vectors.npy"),
    "key": (*OF_WORDS, "retrofit", "retrofit_lexicon", "retrofit_rounds"),
    "vocabulary": ("source", "sha256"),
    "knowledge": ("ontology", "version", "sha256", "longest_path"),
    "candidates": ("types_of_train",),
}


def export(folder: Path, target: Path, *, public: bool = False) -> None:
    """Copies the files that prediction needs from a finished run into a new folder: a run
    directory, with a model card.

    public: keep only those words of the vocabulary that the file of vectors has.
    """
    run = Run(folder)
    # Reading its files refuses an unfinished or damaged run before anything is written.
    variables = run.variables
    vocabulary, vectors = _public_words(run) if public else (run.vocabulary, run.vectors)
    _check_new(target)
    directory = RunDirectory(private_folder(target))
    with writing(directory.private):
        directory.private.mkdir(mode=0o700)
    vocabulary.save(directory.private / VOCABULARY)
    write_atomic(directory.private / "vectors.npy", npy(vectors))
    for name in (CONCEPTS, TYPES, TREES):
        if (run.directory.private / name).is_file():
            write_atomic(directory.private / name, (run.directory.private / name).read_bytes())
    write_json(target / "config.json", run.directory.config)
    if variables is not None:
        best = {**variables, "epoch": np.array(run.result.best_epoch)}
        Checkpoints(directory.checkpoints).save({"best": best}, {})
    facts = _model_facts(run)
    if public:
        paths = (directory.private / name for name in PARTS["files"])
        facts["data"]["files"] = {path.name: sha256(path) for path in paths}
        facts["data"].pop(VECTORS_OF_RUN, None)
    write_sealed(target / MODEL, facts)
    notice = _notice(run, target if public else None)
    if run.experiment.corpus.name in run.task.licensed:
        notice += f"; the licence of {run.result.corpus} decides who may have words and weights"
        warn(notice)
    else:
        say(notice)
    write_atomic(target / "README.md", _model_card(run, notice))


def _model_facts(run: Run) -> JsonObject:
    """The content of model.json."""
    result, data = _only(run.result.values, RESULT), _only(run.manifest, DATA)
    if run.scorer.padded_length:
        result["width"] = run.result.width
    for part, names in PARTS.items():
        data[part] = _only(run.manifest.get(part, {}), names)
    relations = run.manifest.get("knowledge", {}).get("relations", ())
    data["knowledge"]["relations"] = sorted(relations)  # without the links of each
    return {"result": result, "data": {**data, "splits": {}}}


def _only(values: Mapping[str, Json], names: Iterable[str]) -> JsonObject:
    return {name: values[name] for name in names if name in values}


def _public_words(run: Run) -> tuple[Vocab, np.ndarray]:
    """The words of a run that its file of vectors has, in the order of their characters, and their
    vectors [V, D]."""
    path, problem = file_path(run.config.vectors.path, corpora_folder(run.config.data.dir)), ""
    if run.experiment.trains_words:
        problem = "reads pieces of words, or trained its vectors of words"
    elif path is None:
        problem = "has no file of vectors (config.vectors.path is empty)"
    elif run.predictor or not isinstance(run.scorer, LabelScorer):
        problem = "keeps words of its corpus in other files, too"
    if problem:
        raise UsageError(f"--vocabulary=public: the run {problem}", fix="leave it out")
    words = run.vocabulary.words
    found = load_vectors(path, words, dim=run.vectors.shape[1], seed=0, try_lower_case=False)
    rows = [PAD, UNK, *sorted(found.rows.tolist(), key=words.__getitem__)]
    return Vocab(tuple(words[row] for row in rows)), run.vectors[rows]


def _notice(run: Run, public: Path | None) -> str:
    """Says what an exported run tells of its corpus.

    public: the folder of an exported run that has public words alone.
    """
    corpus = run.result.corpus
    if public:
        file = Path(run.config.vectors.path).name
        return f"its vocabulary: words of {corpus} that {file} has; {_cost(run, Run(public))}"
    if isinstance(run.vocabulary, Vocab):
        return f"its vocabulary: the words of {corpus}, the most frequent first"
    return f"its vocabulary: that of the weights, or pieces of the words of {corpus}"


def _cost(run: Run, exported: Run) -> str:
    """The accuracy on dev of a run, and of the exported one with fewer words."""
    try:
        dev = run.experiment.corpus.splits()["dev"]
    except (UserError, KeyError):
        return "their accuracy on dev was not measured: the corpus has no dev part here"
    accuracies = []
    for opened in (exported, run):
        rows, logits = opened.rows_and_logits(dev)
        accuracies.append(opened.scorer.score(rows, logits)["accuracy"]["mean"])
    return "accuracy on dev {:.4f}, with all words of the run {:.4f}".format(*accuracies)


def _check_new(target: Path) -> None:
    """Raises RunError if a folder for an export exists and is not empty."""
    if target.is_file() or (target.exists() and any(target.iterdir())):
        raise RunError(f"{target}: is there already", fix="name a new folder")


def _model_card(run: Run, notice: str) -> str:
    """The README.md of an exported run, in the format of Hugging Face's model cards."""
    facts = "library_name: mednli_jax\nlanguage: en\nlicense: other"
    tags = f"tags: [clinical, jax, {run.scorer.name}]"
    call = f"load_run(FOLDER).predict([{run.task.form}])"
    use = f"```python\nfrom mednli_jax import load_run\n\n{call}\n```"
    _, card = html.public_pages(html.public_figures(run.directory.folder))
    return f"---\n{facts}\n{tags}\n---\n{card}\n{notice}\n\n## Use\n\n{use}\n"


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
