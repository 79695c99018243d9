"""ESIM on DisKnE, a fold for each disease: Alghanmi et al. 2021, sections 3.3 and 4.1, Tables 2 to
6.

  python -m mednli_jax.train --config=configs/diskne_esim.py          # demo: 44 folds, three seeds
  python -m mednli_jax.train --config=configs/diskne_esim.py:file --config.data.dir=FOLDER  # launch/data/build_diskne.py's
  python -m mednli_jax.train --config=configs/diskne_esim.py:mednli   # published annotations, MedNLI, UMLS

Other models: --config.model.name=bow or infersent. Hypotheses only:
--config.data.hypothesis_only=True. Some folds:
--config.diskne.diseases=D006333, --config.diskne.categories=symptoms. The paper has no ESIM. Always predicting true
gives F1 16.7.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.diskne(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="esim",
        hidden_size=pick(300, demo=32),  # of each direction
        dropout=0.0,
        train_vectors=False,
        knowledge="none",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=4.0),
    )
    config.vectors.update(
        path=pick(None, mednli=defaults.GLOVE),  # None: random vectors
        dim=pick(300, demo=64),
    )
    # A fold of the demo has 1,600 examples: a small model and a high rate. For about ten epochs its dev
    # loss stays at that of the class frequencies, so patience must not end the run.
    config.train.update(
        optimizer="adam",
        learning_rate=pick(1e-3, demo=2e-3),
        weight_decay=1e-6,
        batch_size=32,
        epochs=pick(40, demo=20),
        patience=pick(5, demo=20),
        select="loss",
    )
    return config
