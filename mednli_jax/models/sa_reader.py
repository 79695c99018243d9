"""The Stanford Attentive Reader (Chen et al. 2016), as in Suster & Daelemans 2018 on CliCR (section
5.2, eq. 2).

Dimension letters: U passages, B queries, G = B / U, N passage tokens, T slots of packed tokens, C
candidates, E types of candidates, D feature.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from mednli_jax.models import layers, pointer
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.packing import MASKED_ENERGY, Packing
from mednli_jax.models.products import matmul
from mednli_jax.models.sparse_rows import take, trained_rows


def published_init(
    key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
) -> jax.Array:
    """U(-.01, .01), Lasagne's default, which the published code uses for the attention."""
    return jax.random.uniform(key, shape, dtype, -0.01, 0.01)


class SAReader(nn.Module):
    """BiGRUs over passage and query, attention of the query to the passage, an output vector for
    each candidate.

    Args:
      dropout: of the words that the BiGRUs read.
      num_types: number of output vectors. A candidate that training never shows has no vector and
        is not predicted.
      platform: of the device.
    """

    hidden_size: int = 70
    dropout: float = 0.0
    num_types: int = 0
    train_vectors: bool = True
    platform: str = "cpu"
    product_dtype: DTypeLike | None = None

    trains_rows = True

    @nn.compact
    def __call__(self, batch: QueryBatch, *, train: bool) -> jax.Array:
        passages, queries = pointer.passages(batch), pointer.queries(batch)
        passage_T = passages.tokens(batch.passage)
        query_T = queries.tokens(batch.query)
        embedding = layers.WordEmbedding(self.train_vectors, name="embedding")
        words_TD = embedding(jnp.concatenate([passage_T, query_T]))
        passage_TD, query_TD = jnp.split(words_TD, [len(passage_T)])
        query_keys = batch.row_key
        passage_keys = None if query_keys is None else query_keys[:: batch.group]

        def encode(
            x_TD: jax.Array, packing: Packing, keys: jax.Array | None, name: str
        ) -> jax.Array:
            x_TD = layers.drop_tokens(
                self.dropout, x_TD, packing, keys, name=f"drop_{name}", train=train
            )
            return layers.lasagne_gru(self, name)(x_TD, packing)

        states_TD = encode(passage_TD, passages, passage_keys, "passage")
        query_BD = queries.ends(encode(query_TD, queries, query_keys, "query"))
        return self._scores(self._attend(states_TD, query_BD, passages, batch), batch)

    def _attend(
        self, states_TD: jax.Array, query_BD: jax.Array, passages: Packing, batch: QueryBatch
    ) -> jax.Array:
        """[B, D], o = sum a_n h_n, a = softmax of h_n^T W q over the passage (Chen et al. 2016,
        section 3.2)."""
        states_UND = passages.unpack(states_TD, batch.passage.shape)[0]
        size = query_BD.shape[-1]
        kernel = self.param("kernel", published_init, (size, size))
        mapped_B1D = matmul(query_BD, kernel.T, self.product_dtype)[:, None]
        energies_BN1 = layers.token_products(states_UND, mapped_B1D, self.product_dtype)
        energies_BN = energies_BN1[..., 0]
        mask_BN = layers.length_mask(pointer.passage_lengths(batch), batch.passage.shape[1])
        weights_BN = layers.masked_softmax(energies_BN, mask_BN)
        self.sow(layers.ATTENTION, "places", weights_BN)
        weights_UGN = weights_BN.reshape(len(states_UND), -1, states_UND.shape[1])
        return matmul(weights_UGN, states_UND, self.product_dtype).reshape(-1, size)

    def _scores(self, read_BD: jax.Array, batch: QueryBatch) -> jax.Array:
        """[B, C], e(i)^T o + b_i for the candidates of each passage (Suster & Daelemans 2018, eq.
        2; the bias is from their code)."""
        size, types = read_BD.shape[-1], max(self.num_types, 1)
        bias_E = self.param("bias", nn.initializers.zeros, (types,))
        passages, candidates = batch.candidate_type.shape
        type_UC = jnp.clip(batch.candidate_type, 0, types - 1)

        def init(key: jax.Array) -> jax.Array:
            return nn.initializers.glorot_uniform()(key, (types, size))

        vectors = trained_rows(self, "types", init, type_UC.reshape(-1))
        vectors_UCD = vectors.reshape(passages, candidates, size)
        bias_UC = take(bias_E, type_UC)
        read_UGD = read_BD.reshape(passages, -1, size)
        scores_UGC = matmul(read_UGD, jnp.swapaxes(vectors_UCD, 1, 2), self.product_dtype)
        scores_UGC = scores_UGC + bias_UC[:, None]
        scores_BC = scores_UGC.reshape(len(read_BD), -1)
        has_vector_BC = pointer.per_query(batch.candidate_type < self.num_types, batch)
        real_BC = pointer.candidate_mask(batch) & has_vector_BC
        return jnp.where(real_BC, scores_BC, MASKED_ENERGY)
