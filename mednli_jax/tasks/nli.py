"""Natural language inference: a config becomes a prepared corpus, rows become batches, logits become scores."""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import optax

from mednli_jax import metrics
from mednli_jax.corpora import batching
from mednli_jax.corpora.nli import encoding as encode
from mednli_jax.corpora.nli import pieces as encode_pieces
from mednli_jax.corpora.nli import prepared as prepared_data
from mednli_jax.corpora.nli.wordpiece import WordPieces
from mednli_jax.errors import UserError
from mednli_jax.examples import LABELS, NLIExample
from mednli_jax.progress import say
from mednli_jax.tasks.task import frozen as frozen  # of this task, too
from mednli_jax.text import TOKENISERS, UNK, Vocab

LINK_FIELDS = ("link_premise", "link_hypothesis", "link_distance")
PREDICT_ROWS = 256
PREDICT_PIECES = 64  # rows of word pieces
PREDICT_GROUP = 3  # hypotheses of a premise in MedNLI, SNLI and MultiNLI
OPTIONAL_FIELDS = (*LINK_FIELDS, "domain", "features")  # that a corpus may have for each pair


@dataclass(frozen=True)
class NLITask:
    """Three-way classification of premise-hypothesis pairs (see task.Task)."""

    num_classes: int = len(LABELS)
    name: str = "nli"
    sides: tuple[str, str] = encode.SIDES
    units: str = "pairs"

    def load(self, config, asked: str = "") -> tuple[encode.Prepared, bool]:
        """The config's corpus as arrays, prepared if it is not yet; and whether it was there already.

        asked: a split that is all that is needed, see prepared.Source.
        Raises: UserError, DataError(s) for a bad config or bad files; nothing half-built is kept.
        """
        prepared, hit = prepared_data.prepare(config, asked)
        return (_with_features(config, prepared) if config.data.features else prepared), hit

    def vocabulary(self, config, path) -> Vocab | WordPieces:
        """What stands in a prepared corpus's vocabulary.json."""
        return (WordPieces.restore if in_pieces(config) else Vocab.load)(path)

    def model_facts(self, manifest: dict) -> dict:
        """What models.table.build is told of a prepared corpus: its longest path between concepts, its pieces."""
        facts = {"longest_path": manifest["knowledge"]["longest_path"]}
        if "pieces" in manifest:
            pieces = manifest["pieces"]
            facts |= {"vocab_size": pieces["size"], "cls_id": pieces["cls"], "sep_id": pieces["sep"]}
            facts["room"] = pieces["room"]
        return facts

    def resident(self, config, prepared: encode.Prepared) -> dict[str, np.ndarray]:
        """The arrays that live on the device: all splits, as one block per field."""
        return {name: np.asarray(array) for name, array in prepared.arrays.items()}

    def frozen(self, config, words, vectors: np.ndarray) -> dict:
        return {} if in_pieces(config) else frozen(vectors)

    def batches(self, config, prepared: encode.Prepared, name: str, *, shares: int, model):
        """A split's batches. Training follows the config; what is only predicted encodes every premise once."""
        rows, train = prepared.splits[name], config.train
        tokens = tuple(prepared.arrays[side][rows.first : rows.first + len(rows)] for side in encode.SIDES)
        width = tuple(prepared.arrays[side].shape[1] for side in encode.SIDES)
        common = {"width": width, "shares": shares, "first": rows.first}
        if not in_pieces(config):
            common["tokens"] = tokens if model.shares_words else None
            common["fixed"] = config.model.masking == "paper"  # which sees the padding: one width for all splits
        if name == "train":
            return batching.Batches(
                *rows.length,
                batch_size=train.batch_size,
                groups=batching.groups_of(tokens[0], min(train.group, train.batch_size)) if train.group > 1 else None,
                most=train.max_buckets,
                seeds=tuple(config.seeds),
                epochs=train.epochs,
                **common,
            )
        if in_pieces(config):  # a pair is one row: nothing is shared, and padding is work
            return batching.Batches(*rows.length, batch_size=PREDICT_PIECES, most=batching.MAX_BUCKETS, **common)
        groups = batching.groups_of(tokens[0], PREDICT_GROUP)
        return batching.Batches(*rows.length, batch_size=PREDICT_ROWS, groups=groups, **common)

    def to_batch(self, data, index, layout):
        """Rows `index` [Q, G] as premise [Q, P], hypothesis [B, H], their lengths, links [B, K], features [B, F],
        label, domain and mask [B].

        The G hypotheses of a unit share its premise; B = Q G. `sentences`, `pairs` and `words` are the layout's.
        """
        units, index = index.max(axis=1), index.reshape(-1)
        row, real = jnp.maximum(index, 0), index >= 0
        batch = {"mask": real.astype(jnp.float32), "label": jnp.maximum(data["label"][row], 0)}
        for side, of_side, width in zip(encode.SIDES, (units, index), layout.width, strict=True):
            batch[side] = data[side][jnp.maximum(of_side, 0), :width]
            batch[f"{side}_length"] = jnp.where(of_side >= 0, data[f"{side}_length"][jnp.maximum(of_side, 0)], 0)
        for name in OPTIONAL_FIELDS:
            if name in data:
                batch[name] = data[name][row]
        return {**batch, "sentences": layout.sentences, "pairs": layout.pairs, "words": layout.words}

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
        if np.isfinite(logits).all():  # a seed that diverged has no probabilities
            scores["calibration"] = _calibration(rows.label, probabilities(logits))
        for tag in sorted({tag for tags in rows.tags for tag in tags}):
            chosen = np.array([tag in tags for tags in rows.tags])
            scores.setdefault("slices", {})[tag] = _scores(rows.label[chosen], predicted[:, chosen])
        return scores

    def predictions(self, rows: encode.Rows, logits: np.ndarray) -> list[dict]:
        """One JSON row per pair: uid, gold label, each seed's prediction and class probabilities (order of LABELS)."""
        return [
            {
                "uid": uid,
                "label": LABELS[label] if label >= 0 else "",
                "predicted": [LABELS[i] for i in p_SC.argmax(axis=-1)],
                "probabilities": np.round(p_SC, 6).tolist(),
            }
            for uid, label, p_SC in zip(rows.uids, rows.label, np.swapaxes(probabilities(logits), 0, 1), strict=True)
        ]

    def summary(self, split: str, scores: dict) -> str:
        """One line on a split's scores."""
        accuracy = scores["accuracy"]
        text = f"{split} accuracy {accuracy['mean']:.4f}"
        if len(accuracy["per_seed"]) > 1:
            text += f" (sd {accuracy['sd']:.4f} over {len(accuracy['per_seed'])} seeds)"
        slices = scores.get("slices", {}).items()
        return text + "".join(f", {name} {s['accuracy']['mean']:.4f} ({s['examples']} pairs)" for name, s in slices)

    def example(self, uid: str, premise: str, hypothesis: str, tokeniser: str) -> NLIExample:
        """An unlabelled example from two texts. tokeniser: a name in text.TOKENISERS, that of the run's corpus."""
        return NLIExample(uid, premise, hypothesis, "", *map(TOKENISERS[tokeniser], (premise, hypothesis)))


def in_pieces(config) -> bool:
    """Whether a config's models read pieces of words, through embeddings of their own."""
    return config.data.tokens == "pieces"


class Encoder:
    """New examples as arrays in a trained run's vocabulary; the ontology is read and its linker made once.

    Raises: UserError where the config's ontology is not the one the run was trained with, or its models take features,
    which belong to a corpus.
    """

    def __init__(self, config, vocab: Vocab | WordPieces, ontology_sha256: str):
        if config.data.features:
            raise UserError(
                "E-RUN-021 the run's models take features, which are made of a whole corpus. Fix: use a run without "
                "config.data.features, or evaluate this one on a corpus of these pairs (--config=configs/bow.py:file)."
            )
        source = prepared_data.Source(config)
        self.vocab, self.encoding, self.linker = vocab, source.encoding, source.linker
        self.pieces = source.pieces
        if source.linking.mentions:
            say("the run's concepts were found by another program; those of new pairs are found by this package")
        if self.linker and self.linker.ontology.sha256 != ontology_sha256:
            name = self.linker.ontology.name
            raise UserError(
                f"E-RUN-012 the ontology '{name}' changed since the run was trained. Fix: restore it, or train again."
            )

    def tokens(self, example, side: str) -> list[str]:
        """The tokens of one side that the arrays hold; of pieces all that there are."""
        if self.pieces:
            return [self.vocab.words[number] for number in self.vocab.encode(getattr(example, side)).numbers]
        return encode.tokens_of(example, side, self.encoding)

    def __call__(self, examples) -> tuple[dict, dict[str, int]]:
        """(arrays of the examples, number of tokens without a vector per side)."""
        if self.pieces:
            return self._of_pieces(examples)
        arrays = encode.encode_sentences(examples, self.vocab, self.encoding)
        unknown = {side: int((arrays[side] == UNK).sum()) for side in encode.SIDES}
        arrays["label"] = np.full(len(examples), -1, np.int32)
        if self.linker:
            links, _ = encode.encode_links(examples, self.linker, self.encoding)
            arrays |= links
        return arrays, unknown

    def _of_pieces(self, examples):
        arrays, found, _ = encode_pieces.encode_pairs(examples, self.vocab, self.pieces, self.encoding.hypothesis_only)
        unknown = {side: int((arrays[side] == self.vocab.unk).sum()) for side in encode.SIDES}
        if self.linker:
            arrays |= encode_pieces.encode_links(arrays, found, self.linker, self.encoding)[0]
        arrays["label"] = np.full(len(examples), -1, np.int32)
        return arrays, unknown


def _with_features(config, prepared: encode.Prepared) -> encode.Prepared:
    """The corpus with the 35 features of the feature-based system as `features` [N, F] float32, standardised by the
    training rows; a feature that is the same on all of them is 0."""
    from mednli_jax.baselines import boosting  # scikit-learn takes a second to import

    table, _ = boosting.load(config, prepared)
    rows = prepared.splits["train"]
    train = table[rows.first : rows.first + len(rows)]
    mean, sd = train.mean(axis=0), train.std(axis=0)
    scaled = np.where(sd > 0, (table - mean) / np.where(sd > 0, sd, 1.0), 0.0)
    return replace(prepared, arrays={**prepared.arrays, "features": scaled.astype(np.float32)})


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


def probabilities(logits) -> np.ndarray:
    """Softmax over the classes in float64."""
    exp = np.exp(np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def _calibration(label, p_SNC):
    """Expected calibration error of each seed, and the reliability diagram's bins over all of them."""
    seeds, _, classes = p_SNC.shape
    return {
        "ece": metrics.mean_sd([metrics.expected_calibration_error(p_NC, label) for p_NC in p_SNC]),
        "bins": metrics.reliability(p_SNC.reshape(-1, classes), np.tile(label, seeds)),
    }
