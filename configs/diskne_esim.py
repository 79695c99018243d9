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
    return defaults.diskne("esim", variant)
