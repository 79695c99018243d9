"""Natural language inference: a config becomes a prepared corpus, rows become batches, logits become scores."""

import hashlib
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mednli_jax import metrics
from mednli_jax.data import demo, encode, nli
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS, NLIExample
from mednli_jax.knowledge import ontology as ontologies
from mednli_jax.knowledge.load import load_ontology
from mednli_jax.text import UNK, Vocab, treebank_tokens

LINK_FIELDS = ("link_premise", "link_hypothesis", "link_distance")


@dataclass(frozen=True)
class NLITask:
    """Three-way classification of premise-hypothesis pairs (see task.Task)."""

    num_classes: int = len(LABELS)

    def load(self, config) -> tuple[encode.Prepared, bool]:
        """The config's corpus as arrays, prepared if it is not yet; and whether it was there already.

        Raises: UserError, DataError(s) for a bad config or bad files; nothing half-built is kept.
        """
        source = _Source(config)
        cache = encode.Cache(cache_folder())
        return cache.get(source.name, source.key(cache), source.build)

    def to_batch(self, data, index, bucket):
        """Rows `index` [B] as premise [B, P], hypothesis [B, H], their lengths, links [B, K], label and mask [B]."""
        row = jnp.maximum(index, 0)
        real = index >= 0
        batch = {"mask": real.astype(jnp.float32), "label": jnp.maximum(data["label"][row], 0)}
        for side, width in zip(encode.SIDES, bucket, strict=True):
            batch[side] = data[side][row, :width]
            batch[f"{side}_length"] = jnp.where(real, data[f"{side}_length"][row], 0)
        for name in LINK_FIELDS:
            if name in data:
                batch[name] = data[name][row]
        return batch

    def loss(self, logits, batch):
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])

    def correct(self, logits, batch):
        return (jnp.argmax(logits, axis=-1) == batch["label"]).astype(jnp.float32)

    def losses(self, rows: encode.Rows, logits: np.ndarray) -> np.ndarray:
        """Mean loss of each seed [S] over a split, from logits [S, N, C], in float64."""
        shifted = np.asarray(logits, np.float64)
        shifted -= shifted.max(axis=-1, keepdims=True)
        logp = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return -np.take_along_axis(logp, rows.label[None, :, None], axis=-1)[..., 0].mean(axis=1)

    def score(self, rows: encode.Rows, logits: np.ndarray) -> dict:
        """Accuracy and per-class scores of logits [S, N, C]; the same for each tag of the rows ("slices")."""
        predicted = np.asarray(logits).argmax(axis=-1)
        scores = _scores(rows.label, predicted)
        scores["loss"] = metrics.mean_sd(self.losses(rows, logits).tolist())
        for tag in sorted({tag for tags in rows.tags for tag in tags}):
            chosen = np.array([tag in tags for tags in rows.tags])
            scores.setdefault("slices", {})[tag] = _scores(rows.label[chosen], predicted[:, chosen])
        return scores

    def example(self, uid: str, premise: str, hypothesis: str) -> NLIExample:
        """An unlabelled example from two sentences, tokenised as a corpus without parses is."""
        return NLIExample(uid, premise, hypothesis, "", treebank_tokens(premise), treebank_tokens(hypothesis))

    def encode(self, config, vocab: Vocab, examples) -> tuple[dict, dict[str, int]]:
        """New examples as arrays in a trained run's vocabulary, and the number of tokens without a vector per side."""
        source = _Source(config)
        arrays = encode.encode_sentences(examples, vocab, source.encoding)
        unknown = {side: int((arrays[side] == UNK).sum()) for side in encode.SIDES}
        arrays["label"] = np.full(len(examples), -1, np.int32)
        if source.ontology_name:
            links, _ = encode.encode_links(examples, source.ontology(), source.encoding)
            arrays |= links
        return arrays, unknown


def _scores(label, predicted):
    """predicted [S, N]; the confusion is summed over seeds, the classes' scores belong to it."""
    seeds = len(predicted)
    gold, flat = np.tile(label, seeds), predicted.reshape(-1)
    return {
        "examples": len(label),
        "accuracy": metrics.mean_sd([metrics.accuracy(label, row) for row in predicted]),
        "macro_f1": metrics.mean_sd([metrics.macro_f1(label, row) for row in predicted]),
        "confusion": metrics.confusion(gold, flat).tolist(),
        "per_class": metrics.per_class(gold, flat),
    }


def cache_folder() -> Path:
    return Path(os.environ.get("MEDNLI_JAX_CACHE", "~/.cache/mednli_jax")).expanduser()


def data_folder(config) -> Path | None:
    """`config.data.dir`, else $MEDNLI_JAX_DATA, else None."""
    folder = config.data.dir or os.environ.get("MEDNLI_JAX_DATA")
    return Path(folder).expanduser() if folder else None


class _Source:
    """What a config says about its corpus: where it comes from, how it is encoded, and the key of both."""

    def __init__(self, config):
        self.config, self.name = config, config.data.name
        if self.name not in (*demo.SIZES, *nli.CORPORA):
            known = ", ".join((*demo.SIZES, *nli.CORPORA))
            raise UserError(f"config.data.name: unknown corpus '{self.name}'. Known: {known}.")
        knowledge = config.knowledge
        self.ontology_name = "" if config.model.knowledge == "none" else knowledge.ontology
        path = config.vectors.path
        self.encoding = encode.Encoding(
            lowercase=config.data.lowercase,
            max_length=config.data.max_length,
            hypothesis_only=config.data.hypothesis_only,
            vectors_path=Path(os.path.expandvars(path)).expanduser() if path else None,
            vectors_dim=config.vectors.dim,
            vectors_seed=config.vectors.seed,
            direction=knowledge.direction,
            max_path=knowledge.max_path,
            max_links=knowledge.max_links,
        )
        for name, value in (
            ("data.max_length", config.data.max_length),
            ("knowledge.max_links", knowledge.max_links),
            ("vectors.dim", config.vectors.dim),
        ):
            if value < 1:
                raise UserError(f"config.{name} is {value}. Fix: give at least 1.")
        if config.data.limit is not None and config.data.limit <= 0:
            raise UserError(f"config.data.limit is {config.data.limit}. Fix: give at least 1, or leave it out for all.")

    def key(self, cache: encode.Cache) -> dict:
        """Everything that shapes the arrays, as JSON: settings, sources by content, and the code that reads them."""
        settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(self.encoding).items()}
        data = self.config.data
        key = {
            "corpus": self.name,
            "limit": data.limit or 0,
            "genre": data.genre,
            **settings,
            "code": self._code(cache),
            "sources": cache.digests(self._source_files()),
        }
        if self.ontology_name:
            key |= {"ontology": self.ontology_name, "permute_seed": -1 if self._permute is None else self._permute}
        return key

    @property
    def _permute(self):
        return self.config.knowledge.permute_seed

    def _code(self, cache):
        package = Path(encode.__file__).parent.parent
        files = [
            package / "text.py",
            *sorted((package / "data").glob("*.*")),
            *sorted((package / "knowledge").glob("*.py")),
            *sorted((package / "knowledge" / "resources").iterdir()),
        ]
        digests = cache.digests([path for path in files if path.is_file()])
        return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()

    def _source_files(self):
        files = []
        if self.name in nli.CORPORA:
            files += nli.find_files(self.name, nli.CORPORA[self.name], self._folder).values()
        if self.encoding.vectors_path:
            files.append(self.encoding.vectors_path)
        if Path(self.ontology_name).is_file():
            files.append(Path(self.ontology_name))
        missing = [path for path in files if not path.is_file()]
        if missing:
            raise UserError(f"E-VEC-001 {missing[0]}: there is no such file. Fix: check --config.vectors.path.")
        return files

    @property
    def _folder(self):
        folder = data_folder(self.config)
        if folder is None:
            raise UserError(
                f"E-DATA-001 no data folder is set for corpus '{self.name}'. Fix: set $MEDNLI_JAX_DATA to the "
                f"folder that holds {self.name}/, or give --config.data.dir=FOLDER."
            )
        return folder

    @cached_property
    def _loaded(self):
        loaded = load_ontology(self.ontology_name, data_folder(self.config))
        return loaded if self._permute is None else ontologies.permuted(loaded, self._permute)

    def ontology(self):
        return self._loaded

    def build(self):
        """(splits, arrays, vocabulary, vectors, facts) of the corpus."""
        if self.name in demo.SIZES:
            splits = demo.load_demo(self.name)
            if limit := self.config.data.limit:
                train = splits["train"]
                splits["train"] = replace(train, examples=train.examples[:limit])
        else:
            splits = nli.load_nli(self.name, self._folder, limit=self.config.data.limit, genre=self.config.data.genre)
        ontology = self.ontology() if self.ontology_name else None
        return (splits, *encode.encode_corpus(splits, ontology, self.encoding))


def resident(prepared: encode.Prepared) -> dict[str, np.ndarray]:
    """The arrays that live on the device: all splits, as one block per field."""
    return {name: np.asarray(array) for name, array in prepared.arrays.items()}


def frozen(vectors: np.ndarray) -> dict[str, dict[str, jax.Array]]:
    """The `frozen` collection of the models: the word vectors [V, D]."""
    return {"embedding": {"vectors": jnp.asarray(vectors)}}
