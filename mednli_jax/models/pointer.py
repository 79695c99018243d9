"""Shared functions of the cloze readers: packed passages and queries, and scores of candidates at
marked places.

Dimension letters: U passages, B queries (the G = B / U queries of a passage are adjacent), N
passage tokens, Q query tokens, S marked places of a passage, C its candidates.

Memory grows with N + S + C, because no array has both places and candidates as axes.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from mednli_jax.models.batch import QueryBatch
from mednli_jax.models.packing import MASKED_ENERGY, Packing


def per_query(x_U: jax.Array, batch: QueryBatch) -> jax.Array:
    """[B, ...] for the queries from [U, ...] for the passages."""
    return jnp.repeat(x_U, batch.group, axis=0)


def passage_lengths(batch: QueryBatch) -> jax.Array:
    """[B], the number of tokens of each query's passage; 0 for padding rows."""
    return jnp.where(batch.mask > 0, per_query(batch.passage_length, batch), 0)


def passages(batch: QueryBatch) -> Packing:
    """The U passages, packed."""
    return Packing(batch.passage_length, batch.segments, steps=batch.passage.shape[1])


def paired_passages(batch: QueryBatch) -> Packing:
    """The passage of every query [B], packed."""
    return Packing(passage_lengths(batch), batch.paired_segments, steps=batch.passage.shape[1])


def queries(batch: QueryBatch) -> Packing:
    """The B queries, packed."""
    length_B = jnp.where(batch.mask > 0, batch.query_length, 0)
    return Packing(length_B, steps=batch.query.shape[1])


def candidate_mask(batch: QueryBatch) -> jax.Array:
    """[B, C] bool: True on the candidates of each query's passage."""
    return per_query(batch.candidate_length > 0, batch)


def candidate_logits(energies_BN: jax.Array, batch: QueryBatch, pointer: str = "sum") -> jax.Array:
    """[B, C], logits from the attention mass on each candidate (pointer sum attention, Kadlec et
    al. 2016, section 4).

    The mass of a candidate is the sum over its places of the softmax of the energies. A place of
    several candidates counts fully for each of them. Candidates without a place in the passage, and
    padding, get MASKED_ENERGY.

    pointer: "sum": the log of the mass, with a softmax over the marked places only (Dhingra et al.
    2017, "Answer Prediction"); the masses of candidates that share places sum to more than 1. The
    logits of the others are normalised later, over the candidates: "share" and "span": of the mass;
    "mean": of the mass divided by the candidate's words.
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
