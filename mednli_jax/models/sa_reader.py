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
from mednli_jax.models.packing import MASKED_ENERGY
from mednli_jax.models.products import matmul
from mednli_jax.models.sparse_rows import take, trained_rows


def published_init(key, shape, dtype=jnp.float32):
    """U(-.01, .01), Lasagne's default, which the published code uses for the attention."""
    return jax.random.uniform(key, shape, dtype, -0.01, 0.01)


class SAReader(nn.Module):
    """BiGRUs over passage and query, attention of the query to the passage, an output vector for
    each candidate.

    Args:
      dropout: of the words that the BiGRUs read.
      num_types: number of output vectors. A candidate that training never shows has no vector and is not predicted.
      platform: of the device.
      product_dtype: see models.products.
    """

    hidden_size: int = 70
    dropout: float = 0.0
    num_types: int = 0
    train_vectors: bool = True
    platform: str = "cpu"
    product_dtype: DTypeLike | None = None

    trains_rows = True

    @nn.compact
    def __call__(self, batch, *, train: bool):
        passages, queries = pointer.passages(batch), pointer.queries(batch)
        both_T = [passages.tokens(batch.passage), queries.tokens(batch.query)]
        words_TD = layers.WordEmbedding(self.train_vectors, name="embedding")(
            jnp.concatenate(both_T)
        )
        of_passages_TD, of_queries_TD = jnp.split(words_TD, [len(both_T[0])])

        def encode(words_TD, packing, keys, name):
            words_TD = layers.drop_tokens(
                self.dropout, words_TD, packing, keys, name=f"drop_{name}", train=train
            )
            gru = layers.BiRNN(
                self.hidden_size,
                "gru",
                lasagne=True,
                platform=self.platform,
                product_dtype=self.product_dtype,
                name=name,
            )
            return gru(words_TD, packing)

        keys_B = batch.row_key
        keys_U = None if keys_B is None else keys_B[:: batch.group]  # of the first query
        states_TD = encode(of_passages_TD, passages, keys_U, "passage")
        query_BD = queries.ends(encode(of_queries_TD, queries, keys_B, "query"))
        return self._scores(self._attend(states_TD, query_BD, passages, batch), batch)

    def _attend(self, states_TD, query_BD, passages, batch):
        """[B, D], o = sum a_n h_n, a = softmax of h_n^T W q over the passage (Chen et al. 2016,
        section 3.2)."""
        states_UND = passages.unpack(states_TD, batch.passage.shape)[0]
        size = query_BD.shape[-1]
        kernel = self.param("kernel", published_init, (size, size))
        mapped_BD = matmul(query_BD, kernel.T, self.product_dtype)
        energies_BN1 = layers.token_products(states_UND, mapped_BD[:, None], self.product_dtype)
        energies_BN = energies_BN1[..., 0]
        mask_BN = layers.length_mask(pointer.passage_lengths(batch), batch.passage.shape[1])
        weights_BN = layers.masked_softmax(energies_BN, mask_BN)
        self.sow(layers.ATTENTION, "places", weights_BN)
        weights_UGN = weights_BN.reshape(len(states_UND), -1, states_UND.shape[1])
        return matmul(weights_UGN, states_UND, self.product_dtype).reshape(-1, size)

    def _scores(self, read_BD, batch):
        """[B, C], e(i)^T o + b_i for the candidates of each passage (Suster & Daelemans 2018, eq.
        2; the bias is from their code)."""
        size, types = read_BD.shape[-1], max(self.num_types, 1)
        bias_E = self.param("bias", nn.initializers.zeros, (types,))
        type_UC = batch.candidate_type
        known_UC = jnp.clip(type_UC, 0, types - 1)

        def init(key):
            return nn.initializers.glorot_uniform()(key, (types, size))

        vectors_UCD = trained_rows(self, "types", init, known_UC.reshape(-1)).reshape(
            *known_UC.shape, size
        )
        bias_UC = take(bias_E, known_UC)
        read_UGD = read_BD.reshape(len(type_UC), -1, size)
        scores_UGC = matmul(read_UGD, jnp.swapaxes(vectors_UCD, 1, 2), self.product_dtype)
        scores_UGC = scores_UGC + bias_UC[:, None]
        scores_BC = scores_UGC.reshape(len(read_BD), -1)
        known_BC = pointer.candidate_mask(batch) & pointer.per_query(
            type_UC < self.num_types, batch
        )
        return jnp.where(known_BC, scores_BC, MASKED_ENERGY)
