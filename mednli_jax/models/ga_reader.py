"""The Gated-Attention Reader (Dhingra et al. 2017), as in Suster & Daelemans 2018 on CliCR (section
5.2, eq. 3).

Dimension letters: U passages, B queries, N passage tokens, Q query tokens, T slots of packed
tokens, C candidates, D feature.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from mednli_jax.models import layers, pointer
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.packing import Packing
from mednli_jax.models.products import einsum, matmul
from mednli_jax.models.sparse_rows import take

# number of all unknown words; two unknown tokens need not be the same word
UNKNOWN = 1


class GAReader(nn.Module):
    """Hops of passage and query BiGRUs joined by gated attention. The attention at a candidate's
    places is its score.

    Initial weights have the distributions of the published code (Lasagne's GRU and embeddings).

    Args:
      hidden_size: units of each direction.
      hops: number of hops. Each has its own BiGRUs, and its query BiGRU reads the words of the
        query.
      dropout: of the output of a gate.
      query_feature: adds to the input of the last hop two learned numbers that depend on whether
        the passage word occurs in the query (Dhingra et al. 2017, "Further Enhancements", qe-comm).
      pointer: a candidate's logit: "sum": log of its attention; "share": log of its share of all
        candidates' attention; "mean": log of its attention divided by its words; "span": as
        "share", where the batch holds marked places only.
      platform: of the device.
    """

    hidden_size: int = 64
    hops: int = 3
    dropout: float = 0.0
    query_feature: bool = True
    pointer: str = "sum"
    train_vectors: bool = True
    platform: str = "cpu"
    product_dtype: DTypeLike | None = None

    trains_rows = True

    @nn.compact
    def __call__(self, batch: QueryBatch, *, train: bool) -> jax.Array:
        queries, paired = pointer.queries(batch), pointer.paired_passages(batch)
        # The first hop does not depend on the query, so the passage of several queries is encoded
        # once.
        once = self.hops > 1 and batch.group > 1
        packing = pointer.passages(batch) if once else paired
        passage = batch.passage if once else pointer.per_query(batch.passage, batch)
        passage_T, query_T = packing.tokens(passage), queries.tokens(batch.query)
        embedding = layers.WordEmbedding(self.train_vectors, name="embedding")
        vectors_TD = embedding(jnp.concatenate([passage_T, query_T]))
        x_TD, words_TD = jnp.split(vectors_TD, [len(passage_T)])

        def encode(hop: int, x_TD: jax.Array, packing: Packing) -> tuple[jax.Array, jax.Array]:
            """States of passage tokens [T, D] and of query tokens [B, Q, D] (the paper's D and
            Q)."""
            states_TD = layers.lasagne_gru(self, f"passage_{hop}")(x_TD, packing)
            query_TD = layers.lasagne_gru(self, f"query_{hop}")(words_TD, queries)
            return states_TD, queries.unpack(query_TD, batch.query.shape)[0]

        for hop in range(self.hops - 1):
            states_TD, query_BQD = encode(hop, x_TD, packing)
            x_TD = self._gated(hop, states_TD, query_BQD, packing, paired, batch)
            x_TD = layers.drop_tokens(
                self.dropout, x_TD, paired, batch.row_key, name=f"drop_{hop}", train=train
            )
            packing = paired
        if self.query_feature:
            numbers = self.param("occurrence", nn.initializers.normal(0.01), (2, 2))
            feature_T2 = take(numbers, occurs(paired, batch).astype(jnp.int32))
            x_TD = jnp.concatenate([x_TD, feature_T2], axis=-1)
        states_TD, query_BQD = encode(self.hops - 1, x_TD, packing)
        states_BND = paired.unpack(states_TD, (len(batch.query), batch.passage.shape[1]))[0]
        blank_BD = jnp.take_along_axis(query_BQD, batch.blank[:, None, None], axis=1)[:, 0]
        # Dhingra et al. 2017, "Answer Prediction".
        energies_BN = einsum("bnd,bd->bn", states_BND, blank_BD, self.product_dtype)
        mask_BN = layers.length_mask(pointer.passage_lengths(batch), energies_BN.shape[1])
        self.sow(layers.ATTENTION, "places", layers.masked_softmax(energies_BN, mask_BN))
        return pointer.candidate_logits(energies_BN, batch, self.pointer)

    def _gated(
        self,
        hop: int,
        states_TD: jax.Array,
        query_BQD: jax.Array,
        packing: Packing,
        paired: Packing,
        batch: QueryBatch,
    ) -> jax.Array:
        """Passage tokens [T, D], packed by query, after gated attention to the query (Dhingra et
        al. 2017, "Gated-Attention Module": a = softmax(Q^T d), q = Q a, x = d * q)."""
        shape = (len(packing.length_R), batch.passage.shape[1])
        states = packing.unpack(states_TD, shape)[0]  # of passages or of queries' passages
        if packing is not paired:
            states_TD = paired.pack(pointer.per_query(states, batch))
        mask_BQ = layers.length_mask(batch.query_length, query_BQD.shape[1])
        energies_BNQ = layers.token_products(states, query_BQD, self.product_dtype)
        weights_BNQ = layers.masked_softmax(energies_BNQ, mask_BQ[:, None, :])
        self.sow(layers.ATTENTION, f"hop_{hop}", weights_BNQ)
        attended_TD = paired.pack(matmul(weights_BNQ, query_BQD, self.product_dtype))
        return states_TD * attended_TD


def occurs(paired: Packing, batch: QueryBatch) -> jax.Array:
    """[T] bool: True on passage words that also occur in the query; unknown words do not count."""
    mask_BQ = layers.length_mask(batch.query_length, batch.query.shape[1])
    query_BQ = jnp.where(mask_BQ, batch.query, 0)
    token_T = paired.tokens(pointer.per_query(batch.passage, batch))
    is_same_TQ = token_T[:, None] == query_BQ[paired.sentence_N]
    return is_same_TQ.any(axis=1) & (token_T > UNKNOWN)
