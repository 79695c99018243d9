"""Makes the golden files of test_families by small models of the Transformers library.

    python tests/golden/make_golden_encoders.py [NAME ...]      (needs torch and transformers 5)

golden_FAMILY_small.npz has 64 pairs of pieces, the weights of a model with large random ones, and
in float64 its logits, the gradient of the mean loss by each weight, and the losses of 20 steps of
AdamW without dropout. golden_FAMILY_small.json has its config.json, the pieces of a row, and
settings. golden_buckets.json has the buckets of DeBERTa's relative positions.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers.models.deberta_v2 import modeling_deberta_v2

HERE = Path(__file__).parent
PAIRS, LONGEST, LABELS = 64, 64, 3
STEPS, BATCH, RATE, DECAY = 20, 16, 1e-3, 0.01
FIRST_PIECE = 5
# of random weights; with larger ones float32 cannot hold the logits to 1e-5
DEVIATION, GATED_DEVIATION = 0.5, 0.35
SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "layer_norm_eps": 0.01,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "id2label": {0: "neutral", 1: "contradiction", 2: "entailment"},
    "label2id": {"neutral": 0, "contradiction": 1, "entailment": 2},
}
# name -> (sizes beside SIZES, the pieces before, between and after the texts)
FAMILIES = {
    "bert": ({"max_position_embeddings": LONGEST}, ([2], [3], [3])),
    "roberta": (
        {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1, "pad_token_id": 1},
        ([0], [2, 2], [2]),
    ),
    "electra": (
        {"max_position_embeddings": LONGEST, "embedding_size": 8},
        ([2], [3], [3]),
    ),
    "megatron-bert": ({"max_position_embeddings": LONGEST}, ([2], [3], [3])),
    "modernbert": (
        {
            "max_position_embeddings": LONGEST,
            "num_hidden_layers": 4,
            "local_attention": 8,
            "norm_eps": 0.01,
            "pad_token_id": 0,
            "cls_token_id": 2,
            "sep_token_id": 3,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "global_rope_theta": 100.0,
            "local_rope_theta": 20.0,
        },
        ([2], [3], [3]),
    ),
    "modernbert-mean": (
        {
            "max_position_embeddings": LONGEST,
            "num_hidden_layers": 4,
            "local_attention": 8,
            "layer_types": [f"{kind}_attention" for kind in ("sliding", "full") * 2],
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "classifier_bias": True,
            "classifier_pooling": "mean",
            "norm_eps": 0.01,
            "pad_token_id": 0,
            "cls_token_id": 2,
            "sep_token_id": 3,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
        ([2], [3], [3]),
    ),
    "deberta-v2": (  # as published: the models of version 3 have no convolution
        {
            "max_position_embeddings": LONGEST,
            "relative_attention": True,
            "position_buckets": 4,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": "p2c|c2p",
            "position_biased_input": False,
            "type_vocab_size": 0,
            "conv_kernel_size": 3,
            "conv_act": "gelu",
        },
        ([2], [3], [3]),
    ),
    "deberta-v2-own": (  # what the published models share or lack
        {
            "max_position_embeddings": LONGEST,
            "max_relative_positions": 24,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "type_vocab_size": 2,
        },
        ([2], [3], [3]),
    ),
}
WITHOUT_TYPES = ("roberta", "modernbert", "deberta-v2")


def drawn_pairs(rng, specials):
    """{premise, hypothesis: [N, T], their lengths, label}; rows reach LONGEST pieces."""
    room = LONGEST - specials
    total = rng.integers(8, room + 1, PAIRS)
    total[:4] = room
    premise = rng.integers(1, total)
    premise[4], total[5] = 0, premise[5]  # an empty premise and an empty hypothesis
    lengths = {"premise": premise, "hypothesis": total - premise}
    pairs = {"label": rng.integers(0, LABELS, PAIRS).astype(np.int32)}
    for side, length in lengths.items():
        pieces = rng.integers(FIRST_PIECE, SIZES["vocab_size"], (PAIRS, length.max()))
        real = np.arange(length.max()) < length[:, None]
        pairs[side] = np.where(real, pieces, 0).astype(np.int32)
        pairs[f"{side}_length"] = length.astype(np.int32)
    return pairs


def rows_of(pairs, specials, padding):
    """Arguments of a model of the library: rows of pieces, their types, and masks."""
    before, between, after = specials
    rows, kinds = [], []
    for row in range(PAIRS):
        premise, hypothesis = (
            pairs[side][row, : pairs[f"{side}_length"][row]].tolist()
            for side in ("premise", "hypothesis")
        )
        first, second = [*before, *premise, *between], [*hypothesis, *after]
        rows.append(first + second)
        kinds.append([0] * len(first) + [1] * len(second))
    size = max(map(len, rows))
    filled = [row + [padding] * (size - len(row)) for row in rows]
    return {
        "input_ids": torch.tensor(filled),
        "attention_mask": torch.tensor([[1] * len(r) + [0] * (size - len(r)) for r in rows]),
        "token_type_ids": torch.tensor([kind + [0] * (size - len(kind)) for kind in kinds]),
    }


def drawn_model(family, sizes, rng):
    """A model of the family with large random weights, for which no layer is nearly linear."""
    config = transformers.AutoConfig.for_model(family, **SIZES | sizes)
    model = transformers.AutoModelForSequenceClassification.from_config(
        config, attn_implementation="eager"
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_scale = name.endswith("weight") and weight.ndim == 1
            deviation = GATED_DEVIATION if family == "modernbert" else DEVIATION
            values = rng.normal(float(is_scale), deviation, weight.shape).astype(np.float32)
            weight.copy_(torch.tensor(values))
    return model.double()


def spread_logits(model, inputs):
    """Scales the last layer, so that the logits of each label differ by at least 1.2."""
    with torch.no_grad():
        logits = logits_of(model, inputs).numpy()
        for weight in list(model.parameters())[-2:]:
            scaled = weight * 1.2 / np.ptp(logits, axis=0).min()
            weight.copy_(scaled.float().double())


def logits_of(model, inputs, rows=slice(None)):
    """One row at a time, without padding: the library gives NaN for padding far from all pieces."""
    logits = []
    for row in range(PAIRS)[rows]:
        size = int(inputs["attention_mask"][row].sum())
        pair = {name: array[row : row + 1, :size] for name, array in inputs.items()}
        logits.append(model(**pair).logits)
    return torch.cat(logits)


def loss_of(model, inputs, label, rows):
    return F.cross_entropy(logits_of(model, inputs, rows), label[rows])


def trained(model, inputs, label):
    """The losses of STEPS steps; batches follow the order of the rows."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [
        {"params": matrices, "weight_decay": DECAY},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % PAIRS
        loss = loss_of(model, inputs, label, slice(first, first + BATCH))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def write_buckets():
    """{"BUCKETS,LONGEST": the bucket of each distance from 0 on}"""
    buckets_of = {}
    for buckets, longest in ((4, 64), (10, 64), (256, 512), (256, 1024)):
        row = torch.zeros(1, longest, 1)
        bucket_TT = modeling_deberta_v2.build_relative_position(row, row, buckets, longest)[0]
        buckets_of[f"{buckets},{longest}"] = bucket_TT[:, 0].tolist()
    (HERE / "golden_buckets.json").write_text(json.dumps(buckets_of) + "\n")


def main():
    torch.set_num_threads(1)
    write_buckets()
    for number, (model_name, (sizes, specials)) in enumerate(FAMILIES.items()):
        if model_name not in (sys.argv[1:] or FAMILIES):
            continue
        family = model_name.removesuffix("-mean").removesuffix("-own")
        rng = np.random.default_rng([20, number])
        pairs = drawn_pairs(rng, sum(map(len, specials)))
        model = drawn_model(family, sizes, rng).eval()
        config = model.config.to_dict()
        inputs = rows_of(pairs, specials, config.get("pad_token_id") or 0)
        if model_name.removesuffix("-mean") in WITHOUT_TYPES:
            del inputs["token_type_ids"]
        label = torch.tensor(pairs["label"]).long()
        spread_logits(model, inputs)
        logits = logits_of(model, inputs).detach().numpy()
        assert np.ptp(logits, axis=0).min() > 1
        loss_of(model, inputs, label, slice(None)).backward()
        arrays = {**pairs, "logits": logits}
        for name, weight in model.named_parameters():
            arrays[f"weight/{name}"] = weight.detach().numpy().astype(np.float32)
            arrays[f"gradient/{name}"] = weight.grad.numpy().astype(np.float32)
        arrays["losses"] = np.array(trained(model, inputs, label))
        np.savez_compressed(HERE / f"golden_{model_name}_small.npz", **arrays)
        facts = {
            "config": {**config, "model_type": family},
            "specials": specials,
            "steps": {"batch": BATCH, "rate": RATE, "decay": DECAY},
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        }
        (HERE / f"golden_{model_name}_small.json").write_text(json.dumps(facts, indent=1) + "\n")
        print(model_name, np.ptp(logits, axis=0), arrays["losses"][[0, -1]])


if __name__ == "__main__":
    main()
