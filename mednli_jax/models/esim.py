"""ESIM (Chen et al. 2017), with the knowledge-directed attention of Romanov & Shivade 2018, section 4.2.2, or with the
typed relations of Chen et al. 2018 (KIM).

Dimension letters: B pairs, Q premises, P premise tokens, H hypothesis tokens, N slots of packed sentences, D feature.
"""

import flax.linen as nn
import jax.numpy as jnp

from mednli_jax.models import layers
from mednli_jax.models.words import WordEmbedding


class ESIM(nn.Module):
    """BiLSTM, soft alignment, enhancement, composition BiLSTM, average and max pooling, tanh layer -> logits.

    knowledge "replace": a second enhancement, aligned by the paper's matrix A in place of attention scores, passes the
    same projection and is concatenated before composition (the dashed blocks of Romanov & Shivade's figure 2).
    knowledge "bias": a learned weight per path length is added to the attention scores; with weights of 0 it is plain
    ESIM.
    knowledge "typed": KIM. Related tokens attend to each other more (knowledge_scale is its lambda), local inference
    takes the relations of what a token attends to, and a pooling weighted by them is added to average and maximum.
    Where knowledge_scale and the weights of relations are 0 it is plain ESIM.
    knowledge_scale: factor of A; 1 is the paper's. weighting: "auto", or "paper", "exp", "learned" in any mode
    (layers.KnowledgeEnergies).
    masking "paper": softmax and max also run over padding, as published (pad all batches to one length then).
    relations: number of relation types of the corpus's typed links.
    heads: domains with a tanh layer and logits of their own.
    dropout: at the four places of the original ESIM; the published MedNLI code has none (0).
    """

    hidden_size: int = 300
    dropout: float = 0.0
    num_classes: int = 3
    train_vectors: bool = False
    knowledge: str = "none"
    weighting: str = "auto"
    masking: str = "masked"
    longest_path: int = 0
    relations: int = 0
    knowledge_scale: float = 1.0
    heads: int = 1
    platform: str = "cpu"

    @property
    def shares_words(self) -> bool:
        """Whether equal words of a batch are projected once: frozen, and without dropout, which would differ."""
        return not (self.train_vectors or self.dropout) and self.platform == "cpu"

    @nn.compact
    def __call__(self, batch, *, train: bool):
        masked = self.masking == "masked"
        row_key = batch.get("row_key")
        packing = layers.sentences(batch)
        paired = packing if layers.group_of(batch) == 1 else layers.paired_sentences(batch)
        tokens = packing.tokens(batch["premise"], batch["hypothesis"])
        distinct = batch.get("words", 0) if self.shares_words else 0
        words = WordEmbedding(self.train_vectors, name="embedding")(tokens, distinct=distinct)
        words = self._drop_tokens(words, packing, batch, "drop_words", train=train)
        encoded_ND = layers.BiRNN(self.hidden_size, platform=self.platform, name="encoder")(words, packing)
        inputs_ND, related_NR = self._local_inference(batch, encoded_ND, packing, paired, masked)
        inputs_ND = self._drop_tokens(inputs_ND, paired, batch, "drop_enhanced", train=train)
        states_ND = layers.BiRNN(self.hidden_size, platform=self.platform, name="composition")(inputs_ND, paired)
        x = layers.with_features(self._pool(batch, states_ND, paired, masked), batch)
        x = layers.RowDropout(self.dropout, name="drop_pooled")(x, row_key, train=train)
        weighted = None
        if related_NR is not None:
            weighted = layers.RowDropout(self.dropout, name="drop_weighted")(
                self._weighted_pool(states_ND, related_NR, paired), row_key, train=train
            )

        def head(number, mask_B):
            own = layers.Linear(self.hidden_size, name=f"layer{number}")(x)
            own = jnp.tanh(
                own if weighted is None else own + Unbiased(self.hidden_size, name=f"pooled{number}")(weighted)
            )
            own = layers.RowDropout(self.dropout, name=f"drop_layer{number}")(own, row_key, train=train)
            return layers.Linear(self.num_classes, name=f"logits{number}")(own)

        return layers.by_domain(self.heads, batch, head)

    def _drop_tokens(self, x, packing, batch, name, *, train):
        """Dropout of packed tokens [N, D]: the mask belongs to the side, the row and the token's place."""
        if not train or self.dropout == 0.0:
            return x
        keys_N = packing.token_keys(layers.sentence_keys(batch, packing.length_R.shape[0]))
        return layers.RowDropout(self.dropout, name=name)(x, keys_N, train=train, time=packing.time_N)

    def _pool(self, batch, states_ND, paired, masked):
        """[B, 8H]: average and maximum of the premise, then of the hypothesis (Chen et al. 2017, eqs. 18-19)."""
        if masked:
            top_RD = paired.max(states_ND)
        else:
            top_RD = jnp.concatenate([x.max(axis=1) for x in paired.unpack(states_ND, *layers.pair_shapes(batch))])
        both_RD = jnp.concatenate([paired.mean(states_ND), top_RD], axis=-1)
        return jnp.concatenate(jnp.split(both_RD, 2), axis=-1)

    def _weighted_pool(self, states_ND, related_NR, paired):
        """[B, 4H]: of the premise, then of the hypothesis, the mean of states by a softmax of relu(H(relations)), H a
        layer without hidden units (Chen et al. 2018, knowledge-enhanced inference composition)."""
        energies_N1 = nn.relu(layers.Linear(1, name="pooling")(related_NR))
        return jnp.concatenate(jnp.split(paired.softmax_mean(energies_N1, states_ND), 2), axis=-1)

    def _local_inference(self, batch, encoded_ND, packing, paired, masked):
        """(aligned and enhanced inputs of the composition, packed by pairs [N, H or 2H]; the relations of what their
        tokens attend to [N, R], None without typed links)."""
        padded = packing.unpack(encoded_ND, *layers.shapes(batch))
        masks = layers.sentence_masks(batch)
        if layers.group_of(batch) > 1:
            encoded_ND = paired.pack(layers.per_pair(padded[0], batch), padded[1])
        enhance = Enhancement(self.hidden_size, name="projection")

        def align(energies_BPH, name="tokens"):
            weights = layers.alignment(energies_BPH, *masks, masked=masked)
            self.sow(layers.ATTENTION, name, weights)
            return weights

        def aligned(weights, related_ND=0.0):
            return enhance(encoded_ND, paired.pack(*layers.attend(weights, *padded)), related_ND)

        energies_BPH = layers.token_products(*padded)
        if self.knowledge == "none":
            return aligned(align(energies_BPH)), None
        if self.knowledge == "typed":
            relations = layers.Relations(batch, self.relations)
            weights = align(energies_BPH + relations.energies(self.knowledge_scale))
            related_NR = paired.pack(*relations.attended(weights))
            return aligned(weights, Unbiased(self.hidden_size, name="relations")(related_NR)), related_NR
        weighting = layers.weighting_of(self.knowledge, self.weighting)
        links_BPH = layers.KnowledgeEnergies(weighting, self.longest_path, self.knowledge_scale, name="knowledge")(
            batch
        )
        if self.knowledge == "bias":
            return aligned(align(energies_BPH + links_BPH)), None
        both = aligned(align(energies_BPH)), aligned(align(links_BPH, "links"))
        return jnp.concatenate(both, axis=-1), None


class Enhancement(nn.Module):
    """relu(F([a, b, a - b, a * b])) of tokens a and what they attend to, b (Chen et al. 2017, eqs. 14-15, section 3.3).

    more_ND is added to what F gives.

    The difference is linear, so that its part of F is added to the parts of a and b: three products for four.
    """

    features: int

    @nn.compact
    def __call__(self, a_ND, b_ND, more_ND=0.0):
        size = 4 * a_ND.shape[-1]
        kernel = self.param("kernel", layers.uniform_init(size), (size, self.features))
        bias = self.param("bias", layers.uniform_init(size), (self.features,))
        own, other, difference, product = jnp.split(kernel, 4)
        linear_ND = a_ND @ (own + difference) + b_ND @ (other - difference) + (a_ND * b_ND) @ product + bias
        return nn.relu(linear_ND + more_ND)


class Unbiased(nn.Module):
    """y = x W: the part of a layer that belongs to further inputs of it."""

    features: int

    @nn.compact
    def __call__(self, x):
        init = layers.uniform_init(x.shape[-1])
        return layers.project(x, self.param("kernel", init, (x.shape[-1], self.features)))
