"""The masked language model of BERT's pretraining (Devlin et al. 2019, section 3.1, task 1).

Dimension letters: B rows, T pieces of a row, M most masked places of a row, V pieces of the vocabulary, D hidden.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from mednli_jax.models.bert import BERT, Affine, LayerNorm, Noise, gelu, mixed, rows_of_pairs

SHARE = 0.15  # share of a row's pieces that are predicted
KEPT, RANDOM = 0.1, 0.1  # shares of these that stay, and that become a random piece; all others become [MASK]


class MaskedLM(BERT):
    """BERT's encoder and a head that predicts the masked pieces. The decoder's matrix is the table of pieces.

    A row is [CLS] first text [SEP] second text [SEP], as for a pair of sentences. In training each step draws new
    masked places from the row's key. For dev and test they depend only on the row's number.
    The result [B, 3] holds a row's mean loss (nats), its share of right predictions and its number of predicted pieces.
    mask_id: the number of the piece [MASK].
    """

    mask_id: int = 103

    @nn.compact
    def __call__(self, batch, *, train: bool):
        row = rows_of_pairs(batch, self.cls_id, self.sep_id, self._size(batch))
        key_B2 = _words_of_keys(batch, train)
        given_BT, places_BM, masked_BM = masked(row, key_B2, self.mask_id, self.vocab_size)
        noise = Noise.of(batch, train and self.dropout > 0)
        states = self._encoded(dataclasses.replace(row, pieces_BT=given_BT), noise)
        states_BTD = states.reshape(*given_BT.shape, -1)
        chosen_BMD = jnp.take_along_axis(states_BTD, places_BM[..., None], axis=1)
        inner_BMD = gelu(Affine(self.hidden_size, name="transform")(chosen_BMD))
        inner_BMD = LayerNorm(self.epsilon, name="norm_transform")(inner_BMD)
        bias_V = self.param("decoder_bias", nn.initializers.zeros, (self.vocab_size,))
        words_VD = self.variables["params"]["embeddings"]["words"]
        logits_BMV = inner_BMD @ words_VD.T + bias_V
        gold_BM = jnp.take_along_axis(row.pieces_BT, places_BM, axis=1)
        gold_logits_BM = jnp.take_along_axis(logits_BMV, gold_BM[..., None], axis=-1)[..., 0]
        losses_BM = nn.logsumexp(logits_BMV, axis=-1) - gold_logits_BM
        right_BM = logits_BMV.argmax(axis=-1) == gold_BM
        count_B = masked_BM.sum(axis=1)
        shares = (jnp.where(masked_BM, x, 0).sum(axis=1) / jnp.maximum(count_B, 1) for x in (losses_BM, right_BM))
        return jnp.stack([*shares, count_B.astype(losses_BM.dtype)], axis=-1)


def predicted_pieces(length_B):
    """[B], the number of predicted pieces: 15 % of length_B [B] (pieces without special ones), at least one if any."""
    length_B = jnp.asarray(length_B)
    return jnp.minimum(jnp.maximum(jnp.round(SHARE * length_B).astype(jnp.int32), 1), length_B)


def masked(row, key_B2, mask_id: int, vocab_size: int):
    """The masked input of the encoder and the places to predict, which depend only on a row's key and its length.

    key_B2: two random 32-bit numbers for each row.
    Returns (pieces [B, T] with replacements, places [B, M] in no order, whether each place is predicted [B, M]).
    """
    size = row.pieces_BT.shape[1]
    own_BT = row.premise_BT | row.hypothesis_BT
    most = max(round(SHARE * size), 1)
    draws_BT = _draws(key_B2, size, 0)
    _, places_BM = lax.top_k(jnp.where(own_BT, (draws_BT >> 1).astype(jnp.int32), -1), most)
    masked_BM = jnp.arange(most) < predicted_pieces(own_BT.sum(axis=1))[:, None]
    at_BT = jnp.zeros_like(own_BT).at[jnp.arange(len(own_BT))[:, None], places_BM].set(masked_BM)
    how_BT = _draws(key_B2, size, 1).astype(jnp.float32) / 2.0**32
    other_BT = (_draws(key_B2, size, 2) % jnp.uint32(vocab_size)).astype(jnp.int32)
    replaced_BT = jnp.where(how_BT < RANDOM, other_BT, mask_id)
    return jnp.where(at_BT & (how_BT < 1 - KEPT), replaced_BT, row.pieces_BT), places_BM, masked_BM


def _words_of_keys(batch, train):
    """[B, 2], two 32-bit numbers for each row: in training from its key, otherwise from its number."""
    if train:
        return jax.vmap(jax.random.key_data)(batch["row_key"])
    number_B = batch["row_number"].astype(jnp.uint32)
    return jnp.stack([number_B, ~number_B], axis=-1)


def _draws(key_B2, size, use):
    """[B, size] random uint32 from the row's key, the place and the use; see bert.drop."""
    place = jnp.arange(size, dtype=jnp.uint32)[None] + jnp.uint32((use + 1) << 16)
    return mixed(mixed(place ^ key_B2[:, :1]) + key_B2[:, 1:])
