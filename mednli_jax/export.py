"""Copy what prediction needs of a finished run into a folder that can be carried elsewhere.

  python -m mednli_jax.export runs/esim_kd-demo carried
  echo '{"premise": "No heart disease.", "hypothesis": "The patient has heart failure."}' |
    python -m mednli_jax.predict --run=carried
  python -m mednli_jax.export runs/encoder-mednli model --format=transformers

  --format=run|transformers   a run directory, or the files that
                              transformers.AutoModelForSequenceClassification opens (of encoders)
  --vocabulary=all|public     keep all words, or those that the file of vectors has; another one is
                              then an unknown word (runs on pairs with frozen vectors)

The folder is a run directory: best weights, config, vocabulary, vectors and model.json, without the
corpus, its counts and digests, the scores, the predictions and the logs. Its README.md is a model
card. The vocabulary holds the words of the corpus, the most frequent first (public: in the order of
their characters), and the licence of the corpus or of the vectors may forbid to pass them on. A run
with knowledge also needs its ontology where its config names it.

For transformers it holds config.json, model.safetensors, tokenizer.json and
tokenizer_config.json; a run of several seeds has a folder seed-N for each. Links of ontologies
stay behind. --config.model.weights=FOLDER reads such a folder.
"""

import sys
from pathlib import Path

from mednli_jax import cli
from mednli_jax.errors import UsageError
from mednli_jax.files.paths import local_path

WORDS = 2  # number of arguments without --


def define(values: cli.Flags) -> None:
    cli.define(values, format=("run", "transformers"), vocabulary=("all", "public"))


def main(values: cli.Flags, *folders: str) -> None:
    if len(folders) != WORDS:
        raise UsageError(
            "a run and a new folder are needed", fix="export runs/esim_kd-demo carried"
        )
    from mednli_jax import exports

    source, target = (Path(local_path(folder, "an argument")) for folder in folders)
    if values.format == "transformers":
        exports.export_to_transformers(source, target)
    else:
        exports.export(source, target, public=values.vocabulary == "public")
    print(folders[1])


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define, words=WORDS))
