"""SA reader (Chen et al. 2016): Suster & Daelemans 2018, sections 3.3 and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/sa.py                 # demo, phrases as single tokens (ent)
  python -m mednli_jax.train --config=configs/sa.py:clicr/anonym    # phrases as numbered tokens
  python -m mednli_jax.train --config=configs/sa.py:file --config.data.dir=FOLDER

The variant is CORPUS/SETUP; without SETUP it is ent. Values of :clicr are those of appendix A and
the protocol of the published code; :file is for smaller corpora. The paper does not use the set-up
noent, because the reader scores whole phrases (section 5.2); here it is the same reader on unmarked
passages. A phrase that does not occur in training cannot be predicted; `prepare` reports how many
queries have such an answer.

Expected test exact match: demo ent 12.3, anonym 12.0, noent 9.0 (most frequent
phrase: 7.3); CliCR in the
paper ent 6.1 (F1 11.4), anonym 19.6 (27.2), not measured here.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.cloze(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="sa_reader",
        hidden_size=pick(70, demo=48),  # appendix A; 72 in the code
        dropout=pick(0.57, demo=0.2),  # appendix A; 0.61 in the code
    )
    config.data.max_words = 50_000
    config.vectors.update(
        path=pick(None, clicr=defaults.PUBMED_MIMIC),  # None: random vectors
        dim=pick(200, demo=64),
        # code: words without a vector have the standard deviation of U(-0.01, 0.01)
        random_sd=pick(0.4, clicr=0.01 / 3**0.5),
    )
    config.train.update(
        optimizer=pick("adam", clicr="sgd"),  # on a small corpus SGD would take too few steps
        learning_rate=pick(1e-3, demo=2e-3, clicr=0.1),
        halve_from=pick(3, demo=5),
        batch_size=32,
        clip=10.0,
        epochs=pick(30, demo=8, clicr=100),
        patience=3,
        least_epochs=pick(0, clicr=26),  # code: no early stopping before epoch 26
        select="accuracy",
    )
    return config
