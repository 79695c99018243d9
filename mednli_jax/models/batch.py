"""The batches that models read: arrays, and the static layout for which a step is compiled.

Dimension letters: Q premises or passages, G pairs or queries of each, B = Q G rows, P, H, N, T
tokens, K links, S marked places of a passage, C its candidates.
"""

import jax
import jax.numpy as jnp
from flax import struct

from mednli_jax.data.batching import Layout, Segments


@struct.dataclass
class PairBatch:
    """Pairs of sentences; the G hypotheses of a premise are adjacent.

    Args:
      premise, hypothesis: [Q, P] and [B, H], numbers of words or pieces, 0 on padding.
      premise_length, hypothesis_length: [Q] and [B].
      mask: [B] float, 0 on rows that only fill the batch.
      label: [B].
      link_premise, link_hypothesis: [B, K], the tokens that a link joins.
      link_distance: [B, K], edges between their concepts, -1 in an empty slot.
      link_relation: [B, K], a bit for each type of their relation.
      expert: [B, C], log-probabilities of the expert of a debiased run; None for others.
      row_key: [B], keys of dropout; None in prediction.
      layout: static; None computes all sentences to the end of the widest one.
    """

    premise: jax.Array
    premise_length: jax.Array
    hypothesis: jax.Array
    hypothesis_length: jax.Array
    mask: jax.Array
    label: jax.Array | None = None
    # Models with knowledge need batches with links.
    link_premise: jax.Array = struct.field(default=None)
    link_hypothesis: jax.Array = struct.field(default=None)
    link_distance: jax.Array = struct.field(default=None)
    link_relation: jax.Array = struct.field(default=None)
    expert: jax.Array | None = None
    row_key: jax.Array | None = None
    layout: Layout | None = struct.field(pytree_node=False, default=None)

    @property
    def group_size(self) -> int:
        """G, the number of hypotheses of each premise."""
        return self.hypothesis.shape[0] // self.premise.shape[0]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(rows, padded tokens) of premises and of hypotheses."""
        return self.premise.shape, self.hypothesis.shape

    @property
    def attention_shape(self) -> tuple[int, int, int]:
        """The shape (B, P, H) of the attention between both sides."""
        rows, hypothesis_width = self.hypothesis.shape
        return rows, self.premise.shape[1], hypothesis_width

    @property
    def linked_tokens(self) -> tuple[jax.Array, jax.Array]:
        """The premise token and the hypothesis token of each link, int32 [B, K] each."""
        return self.link_premise.astype(jnp.int32), self.link_hypothesis.astype(jnp.int32)

    @property
    def row_width(self) -> int:
        """The most tokens of a row, both sides together."""
        width = self.premise.shape[1] + self.hypothesis.shape[1]
        return width if self.layout is None else self.layout.row_width or width

    @property
    def distinct_words(self) -> int:
        """The most distinct words of the batch; 0 if the number is not known."""
        return 0 if self.layout is None else self.layout.words


@struct.dataclass
class QueryBatch:
    """Queries about passages; the G queries of a passage are adjacent.

    Args:
      passage, query: [Q, N] and [B, T], numbers of words, 0 on padding.
      passage_length, query_length: [Q] and [B].
      mask: [B] float, 0 on rows that only fill the batch.
      position: [Q, S], marked tokens of the passage.
      position_candidate: [Q, S], the candidate of each marked token, C on padding.
      candidate_length: [Q, C], words of each candidate, 0 on padding.
      candidate_type: [Q, C], numbers of the candidates' phrases.
      blank: [B], the place of the blank in the query.
      label: [B], the right candidate.
      row_key: [B], keys of dropout; None in prediction.
      layout: static; None computes all texts to the end of the widest one.
    """

    passage: jax.Array
    passage_length: jax.Array
    query: jax.Array
    mask: jax.Array
    # Given in every batch of a corpus; tests of a single function leave arrays out.
    position: jax.Array = struct.field(default=None)
    position_candidate: jax.Array = struct.field(default=None)
    candidate_length: jax.Array = struct.field(default=None)
    candidate_type: jax.Array = struct.field(default=None)
    query_length: jax.Array = struct.field(default=None)
    blank: jax.Array = struct.field(default=None)
    label: jax.Array | None = None
    row_key: jax.Array | None = None
    layout: Layout | None = struct.field(pytree_node=False, default=None)

    @property
    def group_size(self) -> int:
        """G, the number of queries of each passage."""
        return self.query.shape[0] // self.passage.shape[0]

    @property
    def segments(self) -> Segments | None:
        """The segments of the passages, each passage once."""
        return None if self.layout is None else self.layout.sentences

    @property
    def paired_segments(self) -> Segments | None:
        """The segments of the passages, each passage once for each of its queries."""
        if self.layout is None or self.group_size == 1:
            return self.segments
        return self.layout.pairs
