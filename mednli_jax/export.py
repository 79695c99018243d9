"""Copy what prediction needs of a finished run into a folder that can be carried elsewhere.

  python -m mednli_jax.export runs/esim_kd-demo carried
  echo '{"premise": "No history of CHF.", "hypothesis": "Patient has heart disease."}' |
    python -m mednli_jax.predict --run=carried

The folder is a run directory: best weights, config, vocabulary, vectors and result, without the
corpus, the predictions and the logs. Its README.md is a model card. The vocabulary holds words of
the corpus, and the licence of the corpus or of the vectors may forbid to pass them on. A run with
knowledge also needs its ontology where its config names it.
"""

import sys

from mednli_jax import cli
from mednli_jax.errors import UsageError
from mednli_jax.files import local_path

WORDS = 2  # number of arguments without --


def define(values: cli.Flags) -> None:
    """It has no flags."""


def main(values: cli.Flags, *folders: str) -> None:
    if len(folders) != WORDS:
        raise UsageError(
            "a run and a new folder are needed", fix="export runs/esim_kd-demo carried"
        )
    from mednli_jax.run import export

    export(*(local_path(folder, "an argument") for folder in folders))
    print(folders[1])


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define, words=WORDS))
