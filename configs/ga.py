"""GA reader (Dhingra et al. 2017), a passage read in three hops: Suster & Daelemans 2018, sections 3.3
and 5.2, Table 4.

  python -m mednli_jax.train --config=configs/ga.py                 # demo, phrases as single tokens (ent)
  python -m mednli_jax.train --config=configs/ga.py:clicr/anonym    # phrases as numbered tokens
  python -m mednli_jax.train --config=configs/ga.py:clicr/noent     # plain text
  python -m mednli_jax.train --config=configs/ga.py:file --config.data.dir=FOLDER

The variant is CORPUS/SETUP; without SETUP it is ent. Values of :clicr are those of appendix A and
the protocol of the published code; :file is for smaller corpora. noent: a candidate's score is the
sum of the attention on its words, as published, which favours long candidates (section 7.1);
--config.model.pointer=share divides it by the sum over all candidates, =mean by its number of
words; =span sums only over the marked places.

Expected test exact match: demo ent 83.7 (dev 90.7), anonym 88.0 (88.7), noent 77.0 (dev 78.0); CliCR in
the paper ent 22.2 (F1 30.2), anonym 24.5 (33.2), noent 14.9 (33.9), not measured here.
"""

from ml_collections import ConfigDict

from mednli_jax import defaults


def get_config(variant: str = "demo") -> ConfigDict:
    config = defaults.cloze(variant)
    pick = defaults.pick_for(variant)  # pick(value, demo=other): `other` for the demo
    config.model.update(
        name="ga_reader",
        hops=3,
        hidden_size=pick(64, demo=48),  # appendix A; 67 in the code
        dropout=pick(0.5, demo=0.2),  # appendix A; 0.4 in the code
        query_feature=True,  # appendix A: whether a word of the passage occurs in the query
        pointer="sum",
    )
    config.data.query_bounds = True  # code: the query stands between @begin and @end
    config.vectors.update(
        path=pick(None, clicr=defaults.PUBMED_MIMIC),  # None: random vectors
        dim=pick(200, demo=64),
        random_sd=pick(0.4, clicr=1.0),  # code: N(0, 1) for words without a vector
    )
    config.train.update(
        optimizer="adam",
        learning_rate=pick(1e-3, demo=2e-3, clicr=5e-4),
        schedule=pick("halving", file="constant"),  # code: the rate is halved at each epoch
        halve_from=pick(4, demo=5),  # from the fourth on; in the PyTorch port from the third
        batch_size=32,
        clip=10.0,
        epochs=pick(30, demo=8, clicr=10),
        patience=pick(3, clicr=1),
        select="accuracy",
    )
    return config
