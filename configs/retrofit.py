"""InferSent with word vectors retrofitted to the ontology: Romanov & Shivade 2018, section 4.2.1,
Table 6.

  python -m mednli_jax.train --config=configs/retrofit.py       # demo, 28 s on 2 cores
  python -m mednli_jax.train --config=configs/retrofit.py:mednli --config.vectors.retrofit=concepts

In the paper retrofitting lowers the accuracy by 2.0 points (MedNLI, SNOMED CT, GloVe 840B); not
measured here. Lexicon files of Faruqui et al. 2015: --config.vectors.retrofit=FILE. Relations of
the ontology other than is-a:
--config.vectors.retrofit_relations; all of them by default for mednli. Expected test accuracy: demo 54.1 (three seeds).
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.nli("infersent", variant)
    config.vectors.retrofit = "ontology"
    return config
