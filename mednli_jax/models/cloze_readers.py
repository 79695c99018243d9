"""The two readers of Suster & Daelemans 2018 on CliCR: the Gated-Attention Reader (Dhingra et al.
2017; section 5.2, eq. 3) and the Stanford Attentive Reader (Chen et al. 2016; section 5.2, eq. 2).

Dimension letters: U passages, B queries (the G = B / U queries of a passage are adjacent), N
passage tokens, Q query tokens, T slots of packed tokens, S marked places of a passage, C its
candidates, E types of candidates, D feature.

Memory grows with N + S + C, because no array has both places and candidates as axes.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from mednli_jax.models import layers
from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.packing import MASKED_ENERGY, Packing
from mednli_jax.models.products import einsum, matmul
from mednli_jax.models.sparse_rows import take, trained_rows

UNKNOWN = 1  # number of all unknown words: two unknown tokens need not be the same word


class Reader(nn.Module):
    """The fields that both readers have.

    Args:
      hidden_size: units of each direction.
      platform: of the device.
      vocab_size, embedding_size: of the table of words that `init` draws, see
        layers.frozen_vectors.
    """

    hidden_size: int = 64
    dropout: float = 0.0
    train_vectors: bool = True
    platform: str = "cpu"
    product_dtype: DTypeLike | None = None
    vocab_size: int = 0
    embedding_size: int = 200

    trains_rows = True

    def embedded(self, tokens_T: jax.Array) -> jax.Array:
        """[T, D], the vectors of packed words of passages and queries."""
        sizes = self.vocab_size, self.embedding_size
        embedding = layers.WordEmbedding(self.train_vectors, *sizes, name="embedding")
        return layers.per_token(embedding(tokens_T))

    def bigru(self, name: str) -> layers.BiRNN:
        """A BiGRU with the initial weights of the published readers."""
        return layers.BiRNN(
            self.hidden_size,
            "gru",
            lasagne=True,
            platform=self.platform,
            product_dtype=self.product_dtype,
            transposes=True,
            name=name,
        )


# -- the Gated-Attention Reader --------------------------------------------------------------------


class GAReader(Reader):
    """Hops of passage and query BiGRUs joined by gated attention. The attention at a candidate's
    places is its score.

    Initial weights have the distributions of the published code (Lasagne's GRU and embeddings).

    Args:
      hops: number of hops. Each has its own BiGRUs, and its query BiGRU reads the words of the
        query.
      dropout: of the output of a gate.
      query_feature: adds to the input of the last hop two learned numbers that depend on whether
        the passage word occurs in the query (Dhingra et al. 2017, "Further Enhancements", qe-comm).
      pointer: a candidate's logit: "sum": log of its attention; "share": log of its share of all
        candidates' attention; "mean": log of its attention divided by its words; "span": as
        "share", for batches with marked places only.
    """

    hops: int = 3
    query_feature: bool = True
    pointer: str = "sum"

    @nn.compact
    def __call__(self, batch: QueryBatch, *, train: bool) -> jax.Array:
        batch = layers.with_keys(self, batch, self.dropout, train=train)
        queries, paired = packed_queries(batch), paired_passages(batch)
        # The first of several hops does not depend on the query, so it encodes the passage of
        # several queries once.
        is_shared = self.hops > 1 and batch.group_size > 1
        packing = packed_passages(batch) if is_shared else paired
        passage = batch.passage if is_shared else per_query(batch.passage, batch)
        passage_T, query_T = packing.tokens(passage), queries.tokens(batch.query)
        vectors_TD = self.embedded(jnp.concatenate([passage_T, query_T]))
        x_TD, words_TD = jnp.split(vectors_TD, [len(passage_T)])

        def encode(hop: int, x_TD: jax.Array, packing: Packing) -> tuple[jax.Array, jax.Array]:
            """States of passage tokens [T, D] and of query tokens [B, Q, D] (the paper's D and
            Q)."""
            states_TD = self.bigru(f"passage_{hop}")(x_TD, packing)
            query_TD = self.bigru(f"query_{hop}")(words_TD, queries)
            return states_TD, queries.unpack(query_TD, batch.query.shape)[0]

        for hop in range(self.hops - 1):
            states_TD, query_BQD = encode(hop, x_TD, packing)
            x_TD = self._gate(hop, states_TD, query_BQD, packing, paired, batch)
            x_TD = layers.drop_tokens(self.dropout, x_TD, paired, batch.row_key, f"drop_{hop}")
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
        mask_BN = layers.length_mask(passage_lengths(batch), energies_BN.shape[1])
        self.sow(layers.ATTENTION, "places", layers.masked_softmax(energies_BN, mask_BN))
        return candidate_logits(energies_BN, batch, self.pointer)

    def _gate(
        self,
        hop: int,
        states_TD: jax.Array,
        query_BQD: jax.Array,
        packing: Packing,
        paired: Packing,
        batch: QueryBatch,
    ) -> jax.Array:
        """Applies gated attention of passage tokens [T, D], packed by query, to the query (Dhingra
        et al. 2017, "Gated-Attention Module": a = softmax(Q^T d), q = Q a, x = d * q)."""
        shape = (len(packing.length_R), batch.passage.shape[1])
        states = packing.unpack(states_TD, shape)[0]  # of passages or of queries' passages
        if packing is not paired:
            states_TD = paired.pack(per_query(states, batch))
        mask_BQ = layers.length_mask(batch.query_length, query_BQD.shape[1])
        energies_BNQ = layers.token_products(states, query_BQD, self.product_dtype)
        weights_BNQ = layers.masked_softmax(energies_BNQ, mask_BQ[:, None, :])
        self.sow(layers.ATTENTION, f"hop_{hop}", weights_BNQ)
        attended_TD = paired.pack(matmul(weights_BNQ, query_BQD, self.product_dtype))
        return states_TD * attended_TD


def occurs(paired: Packing, batch: QueryBatch) -> jax.Array:
    """bool [T], whether each passage word also occurs in the query; unknown words do not count."""
    mask_BQ = layers.length_mask(batch.query_length, batch.query.shape[1])
    query_BQ = jnp.where(mask_BQ, batch.query, 0)
    token_T = paired.tokens(per_query(batch.passage, batch))
    is_same_TQ = token_T[:, None] == query_BQ[paired.sentence_N]
    return is_same_TQ.any(axis=1) & (token_T > UNKNOWN)


# -- the Stanford Attentive Reader -----------------------------------------------------------------


def published_init(
    key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
) -> jax.Array:
    """Draws from U(-.01, .01), Lasagne's default, which the published code uses for the
    attention."""
    return jax.random.uniform(key, shape, dtype, -0.01, 0.01)


class SAReader(Reader):
    """BiGRUs over passage and query, attention of the query to the passage, an output vector for
    each candidate.

    Args:
      dropout: of the words that the BiGRUs read.
      num_types: number of output vectors. A candidate that training never shows has no vector and
        is not predicted.
    """

    hidden_size: int = 70
    num_types: int = 0

    @nn.compact
    def __call__(self, batch: QueryBatch, *, train: bool) -> jax.Array:
        batch = layers.with_keys(self, batch, self.dropout, train=train)
        passages, queries = packed_passages(batch), packed_queries(batch)
        passage_T = passages.tokens(batch.passage)
        query_T = queries.tokens(batch.query)
        words_TD = self.embedded(jnp.concatenate([passage_T, query_T]))
        passage_TD, query_TD = jnp.split(words_TD, [len(passage_T)])
        query_keys = batch.row_key
        passage_keys = None if query_keys is None else query_keys[:: batch.group_size]

        def encode(
            x_TD: jax.Array, packing: Packing, keys: jax.Array | None, name: str
        ) -> jax.Array:
            x_TD = layers.drop_tokens(self.dropout, x_TD, packing, keys, f"drop_{name}")
            return self.bigru(name)(x_TD, packing)

        states_TD = encode(passage_TD, passages, passage_keys, "passage")
        query_BD = queries.ends(encode(query_TD, queries, query_keys, "query"))
        return self._scores(self._attend(states_TD, query_BD, passages, batch), batch)

    def _attend(
        self, states_TD: jax.Array, query_BD: jax.Array, passages: Packing, batch: QueryBatch
    ) -> jax.Array:
        """The attended passage o [B, D], o = sum a_n h_n, a = softmax of h_n^T W q over the passage
        (Chen et al. 2016, section 3.2)."""
        states_UND = passages.unpack(states_TD, batch.passage.shape)[0]
        size = query_BD.shape[-1]
        kernel = self.param("kernel", published_init, (size, size))
        mapped_B1D = matmul(query_BD, kernel.T, self.product_dtype)[:, None]
        energies_BN1 = layers.token_products(states_UND, mapped_B1D, self.product_dtype)
        energies_BN = energies_BN1[..., 0]
        mask_BN = layers.length_mask(passage_lengths(batch), batch.passage.shape[1])
        weights_BN = layers.masked_softmax(energies_BN, mask_BN)
        self.sow(layers.ATTENTION, "places", weights_BN)
        weights_UGN = weights_BN.reshape(len(states_UND), -1, states_UND.shape[1])
        return matmul(weights_UGN, states_UND, self.product_dtype).reshape(-1, size)

    def _scores(self, read_BD: jax.Array, batch: QueryBatch) -> jax.Array:
        """The scores e(i)^T o + b_i [B, C] of each passage's candidates (Suster & Daelemans 2018,
        eq. 2; the bias is from their code)."""
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
        has_vector_BC = per_query(batch.candidate_type < self.num_types, batch)
        real_BC = candidate_mask(batch) & has_vector_BC
        return jnp.where(real_BC, scores_BC, MASKED_ENERGY)


# -- packed passages and queries, scores of candidates at marked places ----------------------------


def per_query(x_U: jax.Array, batch: QueryBatch) -> jax.Array:
    """Repeats rows [U, ...] of the passages for their queries, [B, ...]."""
    return jnp.repeat(x_U, batch.group_size, axis=0)


def passage_lengths(batch: QueryBatch) -> jax.Array:
    """[B], the number of tokens of each query's passage; 0 for padding rows."""
    return jnp.where(batch.mask > 0, per_query(batch.passage_length, batch), 0)


def packed_passages(batch: QueryBatch) -> Packing:
    """The U passages, packed."""
    return Packing(batch.passage_length, batch.segments, steps=batch.passage.shape[1])


def paired_passages(batch: QueryBatch) -> Packing:
    """The passage of every query [B], packed."""
    return Packing(passage_lengths(batch), batch.paired_segments, steps=batch.passage.shape[1])


def packed_queries(batch: QueryBatch) -> Packing:
    """The B queries, packed."""
    length_B = jnp.where(batch.mask > 0, batch.query_length, 0)
    return Packing(length_B, steps=batch.query.shape[1])


def candidate_mask(batch: QueryBatch) -> jax.Array:
    """bool [B, C], whether each candidate exists in the query's passage."""
    return per_query(batch.candidate_length > 0, batch)


def candidate_logits(energies_BN: jax.Array, batch: QueryBatch, pointer: str) -> jax.Array:
    """Logits [B, C] from the attention mass on each candidate (pointer sum attention, Kadlec et al.
    2016, section 4).

    The mass of a candidate is the sum over its places of the softmax of the energies. A place of
    several candidates counts fully for each of them. Candidates without a place in the passage, and
    padding, get MASKED_ENERGY.

    pointer: "sum" takes the log of the mass, with a softmax over the marked places only (Dhingra et
    al. 2017, "Answer Prediction"); the masses of candidates that share places sum to more than 1.
    The other logits are normalised later, over the candidates: "share" and "span" take the log of
    the mass, "mean" that of the mass divided by the candidate's words.
    """
    position_BS = per_query(batch.position, batch)
    owner_BS = per_query(batch.position_candidate, batch)
    length_BC = per_query(batch.candidate_length, batch)
    rows_B1 = jnp.arange(len(owner_BS))[:, None]
    candidates, tokens = length_BC.shape[1], energies_BN.shape[1]
    real_BS = (position_BS < passage_lengths(batch)[:, None]) & (owner_BS < candidates)
    # Numbers out of range are dropped below.
    owner_BS = jnp.where(real_BS, owner_BS, candidates)
    energies_BS = jnp.take_along_axis(energies_BN, jnp.where(real_BS, position_BS, 0), axis=1)
    energies_BS = jnp.where(real_BS, energies_BS, MASKED_ENERGY)
    # The mass of each candidate, divided by exp of its largest energy.
    top_BC = jnp.full(length_BC.shape, MASKED_ENERGY, energies_BS.dtype)
    top_BC = top_BC.at[rows_B1, owner_BS].max(lax.stop_gradient(energies_BS), mode="drop")
    own_top_BS = top_BC.at[rows_B1, owner_BS].get(mode="fill", fill_value=0.0)
    exp_BS = jnp.exp(energies_BS - own_top_BS)
    mass_BC = jnp.zeros_like(top_BC).at[rows_B1, owner_BS].add(exp_BS, mode="drop")
    has_place_BC = (length_BC > 0) & (mass_BC > 0)
    logits_BC = top_BC + jnp.log(jnp.where(has_place_BC, mass_BC, 1.0))
    if pointer == "mean":
        logits_BC = logits_BC - jnp.log(jnp.maximum(length_BC, 1).astype(logits_BC.dtype))
    if pointer == "sum":
        marked_BS = jnp.where(real_BS, position_BS, tokens)
        marked_BN = jnp.zeros(energies_BN.shape, bool).at[rows_B1, marked_BS].set(True, mode="drop")
        marked_energies_BN = jnp.where(marked_BN, energies_BN, MASKED_ENERGY)
        logits_BC = logits_BC - nn.logsumexp(marked_energies_BN, axis=1, keepdims=True)
    return jnp.where(has_place_BC, logits_BC, MASKED_ENERGY)
