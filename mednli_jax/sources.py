"""A new run that starts from the weights of a finished one: sequential and multi-target transfer."""

from mednli_jax import trained
from mednli_jax.corpora.nli.prepared import config_path
from mednli_jax.corpora.nli.weights import find_weights
from mednli_jax.errors import UserError
from mednli_jax.models import bert_import
from mednli_jax.training import transfer


def source_run(config, prepared) -> trained.TrainedRun:
    """The run that config.transfer.init_from names, for a new run on this corpus.

    Raises UserError where it is missing or unfinished, or lacks a seed or the words' vectors.
    """
    source = trained.load_run(config.transfer.init_from)
    source.check_words(prepared)
    if trained.trains_words(source.config) and not trained.trains_words(config):
        raise UserError(
            f"E-RUN-019 {source.directory.folder}: trained its word vectors, which this config would leave behind. "
            "Fix: give --config.model.train_vectors=True, too."
        )
    transfer.seed_rows(source.config.seeds, config.seeds)
    return source


def start_from_weights(trainer, config) -> list[str]:
    """Gives a new trainer's BERT its pretrained weights, for all seeds the same; returns the names that were not used.

    Raises: UserError, DataError where they do not fit.
    """
    weights = find_weights(config_path(config, config.model.weights))
    params, unused = bert_import.load_weights(weights, trainer.learner.params, stacked=True)
    trainer.learner = trainer.learner.replace(params=params)
    trainer.begin()
    return unused


def start_from_source(trainer, source: trained.TrainedRun, config) -> dict:
    """Gives a new trainer the weights of its source run; returns what was taken from where.

    Raises UserError where they do not fit (training.transfer.merge).
    """
    wish = config.transfer
    trainer.learner, taken, kept = transfer.start(
        trainer.learner,
        source.variables,
        rows=transfer.seed_rows(source.config.seeds, trainer.seeds),
        skip=transfer.drawn_anew(config.model.name, skip=wish.skip, private=wish.private),
    )
    trainer.begin()
    return {
        "source": source.directory.folder.name,
        "corpus": source.result["corpus"],
        "seeds": list(source.config.seeds),
        "best_epoch": source.result["best_epoch"],
        "weights_taken": len(taken),
        "weights_drawn": kept,
    }
