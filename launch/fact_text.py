"""Writes the demo's fact text: sentences from clinical_facts.json and MeSH about 259 diseases.

  python launch/fact_text.py --out=text/both
  python launch/fact_text.py --out=text/withheld --content=facts --withhold=tested

train.txt and dev.txt have one sentence per line. An empty line ends a document. Word vectors are trained on them by
`launch/pretrain_vectors.py --corpora=FOLDER/train.txt`, masked language models by `--config=configs/mlm.py:file`.
"""

import argparse
import sys
from pathlib import Path

from mednli_jax import cli
from mednli_jax.corpora.demo.diskne import diseases
from mednli_jax.corpora.demo.facts import CONTENTS, fact_text
from mednli_jax.files import private_folder, write_atomic


def main(given: argparse.Namespace) -> int:
    withheld = [name for name in given.withhold.split(",") if name and name != "tested"]
    if "tested" in given.withhold.split(","):
        withheld += [row["mesh"] for row in diseases()]
    private_folder(given.out)
    for split, documents in fact_text(given.content, withheld).items():
        path = given.out / f"{split}.txt"
        write_atomic(path, "\n".join("\n".join([*document, ""]) for document in documents))
        print(f"{path}: {len(documents):,} documents, {sum(map(len, documents)):,} sentences")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--content", choices=CONTENTS, default="both")
    parser.add_argument(
        "--withhold", default="", metavar="NAME,...", help="diseases or categories; tested: those of the DisKnE demo"
    )
    given = parser.parse_args()
    sys.exit(cli.script(lambda: main(given)))
