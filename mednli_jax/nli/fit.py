"""The feature-based system: gradient boosting over features of the pairs instead of a network."""

import numpy as np

from mednli_jax.io import Bar
from mednli_jax.nli import boosting
from mednli_jax.report.runs import TREES, write_kept
from mednli_jax.training.loop import Interrupted
from mednli_jax.training.session import Fitted, Session


def fit(experiment, prepared, session: Session) -> Fitted:
    """Fits trees on the features of a prepared corpus. The trees are saved only at the end."""
    session.write_facts(prepared.manifest)
    session.catch_signals()
    fields, seeds = experiment.model.fields, experiment.seeds
    matrix, _ = boosting.load(experiment.corpus, prepared)
    part = {name: slice(rows.first, rows.first + len(rows)) for name, rows in prepared.splits.items()}
    with Bar("boosting", fields["trees"] * len(seeds), unit="trees") as bar:

        def on_tree():
            bar.advance(1)
            if session.should_stop():
                raise Interrupted

        fitted = boosting.fit_predict(
            matrix,
            np.asarray(prepared.arrays["label"]),
            part["train"],
            seeds,
            trees=fields["trees"],
            on_tree=on_tree,
        )
    experiment.keep_for_prediction(session.directory, prepared)
    write_kept(session.directory, TREES, {"trees": fitted.trees, "terms": boosting.terms(experiment.corpus)})
    importance = boosting.importance_table(fitted.importance)
    logits = np.log(np.maximum(fitted.probabilities, 1e-12))
    return Fitted(
        {"parameters": 0, "importance": importance},
        lambda split: logits[:, part[split]],
        lines=boosting.importance_lines(importance),
    )
