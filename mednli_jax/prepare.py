"""Prepare the corpus of a config: read it, link concepts, encode, write arrays. `train` does this
when needed.

  python -m mednli_jax.prepare --config=configs/esim_kd.py
  python -m mednli_jax.prepare --config=configs/esim_kd.py:mednli --config.knowledge.ontology=mesh
  python -m mednli_jax.prepare --config=configs/ga_ent.py
  python -m mednli_jax.prepare --config=configs/esim_kd.py:mednli --metamap=private/metamap

{config}

Corpora are read from $MEDNLI_JAX_DATA/<corpus>/. The arrays are written to $MEDNLI_JAX_CACHE
(~/.cache/mednli_jax). A second run reuses them, unless files or settings have changed.

Flags:
  --metamap=FOLDER   only write the sentences of the corpus to FOLDER, as input for MetaMap. Give
                     its output to --config.knowledge.mentions. The folder holds corpus text:
                     keep it private.
"""

import sys
import time

from mednli_jax import cli, tasks
from mednli_jax.errors import UsageError
from mednli_jax.terminal import warn

# training pairs: a corpus of fewer is taken for an excerpt, in which no pair may have a link by
# chance
FEW_PAIRS = 20


def define(values: cli.Flags) -> None:
    cli.define(values, config=None)
    cli.define_paths(values, "metamap")


def main(values: cli.Flags) -> None:
    config = tasks.with_labels(cli.config(values))
    from mednli_jax import run
    from mednli_jax.knowledge.mentions import write_metamap_input
    from mednli_jax.report.prepared import fact_lines

    started = time.monotonic()
    if values.metamap:
        task = tasks.task_of(config)
        if not isinstance(task, tasks.PairTask):
            raise UsageError(
                "--config: its corpus does not hold sentence pairs", fix="give a config for pairs"
            )
        splits = task.pairs(config).splits()
        examples = (example for split in splits.values() for example in split.examples)
        written = write_metamap_input(examples, values.metamap)
        counts = f"{written.sentences} sentences, {written.changed_characters} characters changed"
        print(f"{counts}: {values.metamap}")
        return
    experiment = run.experiment_of(config)
    prepared, was_cached = experiment.corpus.prepare()
    state, seconds = "found" if was_cached else "prepared", time.monotonic() - started
    print(f"{state} in {seconds:.1f} s: {prepared.folder}")
    for line in fact_lines(
        prepared, experiment.task.name, experiment.scorer.sides, experiment.task.units
    ):
        print(line)
    for line in tasks.warnings(experiment.task, prepared):
        warn(line)
    tasks.check_prepared(experiment.task, experiment, prepared, excerpt=FEW_PAIRS)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
