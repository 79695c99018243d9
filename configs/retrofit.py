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
    config = defaults.nli(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="infersent",
        hidden_size=pick(300, demo=128),  # of each direction
        dropout=0.5,
        cell="lstm",
        pooling="max",
        matching="full",
        train_vectors=False,
        masking=pick("masked", code="paper"),
        knowledge="none",
        weighting="auto",
        knowledge_scale=pick(1.0, demo=4.0),
    )
    config.vectors.update(
        path=pick(defaults.GLOVE, demo=None, file=None),  # None: random vectors
        dim=pick(300, demo=100),
        retrofit="ontology",  # section 4.2.1
        retrofit_relations=pick(("is_a",), mednli=("all",)),
    )
    config.train.update(
        optimizer="adam",  # section 5
        learning_rate=pick(1e-3, demo=2e-3),
        weight_decay=1e-6,
        batch_size=pick(64, demo=32, mednli=512, code=512),
        epochs=pick(40, demo=8),
        patience=5,  # section 5: ends after 5 epochs without a lower dev loss
        select="loss",  # section 5: the epoch with the lowest dev loss is tested
    )
    return config
