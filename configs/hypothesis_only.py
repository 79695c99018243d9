"""fastText on hypotheses only: Herlihy & Rudinger 2021, section 3, Table 1; section 6, Table 6 (no
premise).

  python -m mednli_jax.train --config=configs/hypothesis_only.py          # demo, 12 s on 2 cores
  python -m mednli_jax.train --config=configs/hypothesis_only.py:mednli

Expected test accuracy: demo 50.0 (seed 0; the library 50.7, majority class 33.3); MedNLI 62.6 in
the paper (dev 64.8), not measured here. The texts are whole raw texts; blanks separate words.
docs/settings.md lists the differences to the published code.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli(variant)
    config.data.update(
        hypothesis_only=True,
        tokens="blanks",
        max_length=(1 << 15) - 1,  # whole texts
    )
    config.model.update(name="fasttext", dim=100, buckets=1 << 17, train_vectors=True)
    config.vectors.update(path="", dim=1)  # not used: the model trains its own word vectors
    # `evaluate --merged` joins concepts of MeSH, as the paper.
    config.knowledge = defaults.nli("file").knowledge
    config.seeds = (0,)
    # The defaults of the fastText library, without a dev set. The library takes a step for each
    # text; a step here has the mean gradient of 16 texts at 16 times the rate, the sum of their
    # 16 steps.
    config.train.update(
        optimizer="sgd",
        learning_rate=16 * 0.1,
        schedule="linear",
        weight_decay=0.0,
        batch_size=16,
        group=1,
        max_buckets=1,
        epochs=5,
        select="last",
        checkpoint_epochs=5,  # a checkpoint takes as long as an epoch of 10,000 texts
    )
    return config
