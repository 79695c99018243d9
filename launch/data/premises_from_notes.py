"""Samples candidate premises from MIMIC-III, as MedNLI's were: sentences of Past Medical History
sections.

  python launch/data/premises_from_notes.py --notes=NOTEEVENTS.csv.gz --out=private/premises.tsv \\
      --number=5000
  python launch/data/premises_from_notes.py --notes=NOTEEVENTS.csv --out=private/premises.tsv \\
      --number=5000 --seed=1 --categories='Discharge summary,Physician'

  --notes=FILE             NOTEEVENTS.csv of MIMIC-III, plain or gzipped
  --out=FILE               the sample; an older one is replaced
  --number=N               distinct sentences
  --seed=N                 of the sample (0)
  --categories=NAME,...    of the notes to read (default: all)

Romanov & Shivade 2018, section 2.1. Reads the notes once and keeps the --number distinct sentences
with the lowest keyed hashes. Every distinct sentence is equally likely, a seed always gives the
same sentences, and the first M rows are the sample of --number=M. The output has a header and one
row per sentence: uid (ROW_ID:place in the note), tab, sentence. Only the owner can read it (0600).
The sentences are licensed text: keep the file out of git and off shared disks. Counts are printed
as JSON; text is never printed.
"""

import hashlib
import heapq
import json
import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

from mimic_notes import past_medical_history

from mednli_jax import cli
from mednli_jax.errors import UserError
from mednli_jax.files.writing import private_folder, write_over
from mednli_jax.terminal import say

HEADER = "uid\tsentence\n"


class Premise(NamedTuple):
    uid: str
    sentence: str


def sample(premises: Iterable[tuple[str, str]], number: int, seed: int) -> list[Premise]:
    """Samples `number` premises in random order, or all if there are fewer. Of equal sentences the
    first counts.

    Only the sample is in memory. A sentence that is dropped once has a higher hash than all later
    samples, so that it never has to come back.
    """
    chosen: dict[int, Premise] = {}
    highest: list[int] = []  # a heap of the negative hashes
    for uid, sentence in premises:
        text = f"{seed} {sentence}".encode()
        digest = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())
        full = len(chosen) == number
        if digest in chosen or (full and digest > -highest[0]):
            continue
        chosen[digest] = Premise(uid, sentence)
        heapq.heappush(highest, -digest)
        if full:
            del chosen[-heapq.heappop(highest)]
    return [chosen[digest] for digest in sorted(chosen)]


def main(values: cli.Flags) -> None:
    """Samples, writes and prints the counts."""
    notes = cli.required_path(values, "notes", "--notes=NOTEEVENTS.csv")
    out = cli.required_path(values, "out", "--out=FILE.tsv")
    number = cli.required_path(values, "number", "--number=5000")
    if any(os.path.lexists(parent / ".git") for parent in out.absolute().parents):
        problem = "lies in a git work tree. Licensed text could be committed"
        say(f"{out}: {problem}: give another folder.")
    facts: dict[str, int] = {}
    premises = past_medical_history(notes, values.categories, facts)
    chosen = sample(premises, number, values.seed)
    if not chosen:
        problem = "holds no sentence of a Past Medical History section"
        if values.categories:
            problem += " in these categories"
        raise UserError(f"{notes}: {problem}", fix="check the file and --categories")
    private_folder(out.parent)
    lines = [f"{premise.uid}\t{premise.sentence}\n" for premise in chosen]
    write_over(out, HEADER + "".join(lines), HEADER)
    print(json.dumps({**facts, "sampled": len(chosen)}, indent=2))


def define(values: cli.Flags) -> None:
    cli.define(values, categories=[])
    cli.define_paths(values, "notes", "out")
    cli.define_numbers(values, number=None)
    cli.define_numbers(values, least=0, seed=0)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
