"""DisKnE's annotations, their sentence pairs, a UMLS and weights of BERT, made up in the published
layouts."""

import csv
import json
from pathlib import Path

import numpy as np
from canaries import WORDS
from made_up_knowledge import umls_name, umls_relation, umls_type
from made_up_pairs import write_rows
from safetensors.numpy import save_file

from mednli_jax.data.pieces import PieceVocabulary
from mednli_jax.diskne.data import CATEGORIES, COLUMNS, PUBLISHED_CATEGORIES
from mednli_jax.nli.corpora import CORPORA

# All of the paper's tables but one list the first two diseases; none lists the last.
DISEASES = ("heart failure", "coronary atherosclerosis", "pneumonia", "anemia", "asthma")
EACH = 3  # positive examples of each disease in each category
DIM = 8


def cui(number):
    return f"C{number + 1:07}"


def write_published(data: Path) -> None:
    """Writes mednli/, mediqa_nli/, diskne/, umls/ and vectors/.

    Each disease has positive examples in every category, each with two negatives. The files
    "similar" and "random" of a group have different negatives.
    """
    pairs, rows = (
        [],
        {
            (group, kind): []
            for group in ("medical", "terminological")
            for kind in ("similar", "random")
        },
    )
    for category in CATEGORIES:
        group = category if category == "terminological" else "medical"
        for disease, name in enumerate(DISEASES):
            for _ in range(EACH):
                n = len(pairs)
                hypothesis = f"The patient has {name}."
                pairs.append(
                    {
                        "pairID": f"p-{n}",
                        "gold_label": "entailment",
                        "sentence1": _premise(n),
                        "sentence2": hypothesis,
                    }
                )
                start = hypothesis.index(name)
                kind = next(
                    (named for named, ours in PUBLISHED_CATEGORIES.items() if ours == category), ""
                )
                for (of, negatives), found in rows.items():
                    if of == group:
                        found.append(
                            (
                                f"p-{n}",
                                cui(disease),
                                "entailment",
                                cui(disease),
                                start,
                                start + len(name),
                                kind,
                            )
                        )
                        for step in (1, 2) if negatives == "similar" else (2, 3):
                            other = cui((disease + step) % len(DISEASES))
                            found.append(
                                (f"p-{n},ng", other, "non-entailment", cui(disease), "", "", kind)
                            )
    for pair in pairs:
        pair.update(
            {f"{side}_binary_parse": f"( {pair[side]} )" for side in ("sentence1", "sentence2")}
        )
    tail = pairs[-6:]  # these annotated pairs come from the shared task's test split
    mediqa = CORPORA["mediqa_nli"]
    write_rows(
        data / "mediqa_nli" / mediqa.files["test"], [{**pair, "gold_label": None} for pair in tail]
    )
    truth = "".join(f"{pair['pairID']},entailment\n" for pair in tail)
    (data / "mediqa_nli" / mediqa.ground_truth).write_text("pair_id,label\n" + truth)
    for place, file in enumerate(CORPORA["mednli"].files.values()):
        write_rows(data / "mednli" / file, pairs[:-6][place::3])
    (data / "diskne").mkdir()
    for (group, negatives), found in rows.items():
        columns = (*COLUMNS, *(("category",) if group == "medical" else ()))
        with open(data / "diskne" / f"{group}_{negatives}_negatives.csv", "w", newline="") as file:
            csv.writer(file).writerows([columns, *(row[: len(columns)] for row in found)])
    (data / "umls").mkdir()
    conso = "".join(
        umls_name(cui(n), name, preferred=True, CODE=str(n)) for n, name in enumerate(DISEASES)
    )
    kinds = "".join(umls_type(cui(n), "T047") for n in range(len(DISEASES)))
    isa = umls_relation(cui(4), "PAR", cui(2), "inverse_isa")
    for file, content in {"MRCONSO.RRF": conso, "MRSTY.RRF": kinds, "MRREL.RRF": isa}.items():
        (data / "umls" / file).write_text(content)
    (data / "vectors").mkdir()
    vectors = "".join(
        f"{word} {' '.join([str(n % 7 / 7)] * DIM)}\n" for n, word in enumerate(WORDS)
    )
    (data / "vectors" / "glove.840B.300d.txt").write_text(vectors)


def _premise(number):
    return " ".join(WORDS[(5 * number + k) % len(WORDS)] for k in range(5)) + "."


def write_weights(folder, seed):
    """Writes a random BERT with one layer of eight units, in Hugging Face's layout."""
    pieces = PieceVocabulary.of_texts((_premise(n) for n in range(60)), 300).words
    layer = "encoder.layer.0"
    matrices = {f"embeddings.{name}_embeddings": size for name, size in
                (("word", len(pieces)), ("position", 512), ("token_type", 2))}  # fmt: skip
    square = [f"{layer}.attention.self.{name}" for name in ("query", "key", "value")]
    square += [
        f"{layer}.{name}"
        for name in ("attention.output.dense", "intermediate.dense", "output.dense")
    ]
    norms = [
        "embeddings.LayerNorm",
        f"{layer}.attention.output.LayerNorm",
        f"{layer}.output.LayerNorm",
    ]
    shapes = {f"{name}.weight": (size, 8) for name, size in matrices.items()}
    shapes |= {f"{name}.weight": (8, 8) for name in (*square, "pooler.dense")}
    shapes |= {f"{name}.bias": (8,) for name in (*square, *norms, "pooler.dense")}
    shapes |= {f"{name}.weight": (8,) for name in norms}
    rng = np.random.default_rng(seed)
    folder.mkdir()
    tensors = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(tensors, folder / "model.safetensors")
    sizes = {
        "vocab_size": len(pieces),
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    sizes |= {"intermediate_size": 8, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(sizes))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
