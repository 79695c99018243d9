"""Writes the entities that scispaCy finds in MedNLI to spans.tsv.

Run it in the folder that has `mednli`, in an environment of its own with scispaCy and its model
`en_core_sci_lg` (the authors' is 0.4.0).
"""

import json

import spacy

tagger = spacy.load("en_core_sci_lg")
with open("spans.tsv", "w", encoding="utf-8") as out:
    print("uid", "side", "start_char", "end_char", "concept", sep="\t", file=out)
    for split in ("train", "dev", "test"):
        for line in open(f"mednli/mli_{split}_v1.jsonl", encoding="utf-8"):
            pair = json.loads(line)
            for side, field in (("premise", "sentence1"), ("hypothesis", "sentence2")):
                for span in tagger(pair[field].lower()).ents:
                    cells = (pair["pairID"], side, span.start_char, span.end_char, span.label_)
                    print(*cells, sep="\t", file=out)
