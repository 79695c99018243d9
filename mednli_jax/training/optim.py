"""Optimisers of the papers, built from a config's `train` section."""

import optax


def build_optimizer(
    *, learning_rate: float, weight_decay: float = 0.0, clip: float = 0.0
) -> optax.GradientTransformation:
    """Adam (Kingma & Ba 2015) with L2 added to the gradient before Adam, as in PyTorch's `weight_decay`.

    Not AdamW: the MedNLI systems were trained with the coupled form. clip > 0: global gradient norm limit, per seed.
    """
    parts = []
    if clip > 0:
        parts.append(optax.clip_by_global_norm(clip))
    if weight_decay > 0:
        parts.append(optax.add_decayed_weights(weight_decay))
    return optax.chain(*parts, optax.adam(learning_rate))
