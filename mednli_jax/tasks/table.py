"""The tasks by the name that a config gives them."""

from mednli_jax.errors import UserError
from mednli_jax.tasks.cloze import ClozeTask
from mednli_jax.tasks.diskne import DisKnETask
from mednli_jax.tasks.nli import NLITask

TASKS = {"nli": NLITask(), "cloze": ClozeTask(), "diskne": DisKnETask()}


def of(config):
    """The task of a config. Raises UserError for one that is not known."""
    if config.task not in TASKS:
        raise UserError(f"E-CONF-004 config.task is '{config.task}'. Fix: give one of {', '.join(TASKS)}.")
    return TASKS[config.task]
