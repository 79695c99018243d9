"""Makes the golden file of the masked language model by running the Transformers library.

    python tests/golden/make_golden_mlm.py      (needs torch, transformers and numpy, not this package)

golden_mlm.npz, beside this script, holds the weights of a small random model by their names, rows with some pieces
replaced, the places that are predicted, the loss, and the gradient of every weight.
"""

from pathlib import Path

import numpy as np
import torch
from make_golden_bert import CLS, HYPOTHESIS_LENGTH, PREMISE_LENGTH, SEP, SIZES, draw, row, tensors
from transformers import BertConfig, BertForMaskedLM

MASK, WIDTH, MOST = 1, 15, 4


def main():
    rng, found = np.random.default_rng(97), {}
    model = BertForMaskedLM(BertConfig(**SIZES, attn_implementation="eager")).double().eval()
    draw(model, rng)
    for side, lengths, width in (("premise", PREMISE_LENGTH, 7), ("hypothesis", HYPOTHESIS_LENGTH, 5)):
        drawn = rng.integers(4, SIZES["vocab_size"], (len(lengths), width))
        found[side] = np.where(np.arange(width) < np.array(lengths)[:, None], drawn, 0).astype(np.int32)
        found[f"{side}_length"] = np.array(lengths, np.int32)
    rows = [
        row(p[:n].tolist(), h[:m].tolist(), CLS, SEP, WIDTH)
        for p, n, h, m in zip(found["premise"], PREMISE_LENGTH, found["hypothesis"], HYPOTHESIS_LENGTH, strict=True)
    ]
    inputs = tensors(rows)
    gold = inputs["input_ids"].numpy().copy()
    places, predicted = np.zeros((len(rows), MOST), np.int32), np.zeros((len(rows), MOST), bool)
    labels = np.full_like(gold, -100)
    for number, pieces in enumerate(gold):
        own = np.flatnonzero(pieces > SEP)
        chosen = rng.permutation(own)[: min(MOST, len(own) - 1)]
        places[number, : len(chosen)], predicted[number, : len(chosen)] = chosen, True
        labels[number, chosen] = pieces[chosen]
        for place in chosen:
            inputs["input_ids"][number, place] = rng.choice([MASK, MASK, int(rng.integers(4, 23)), int(pieces[place])])
    loss = model(**inputs, labels=torch.tensor(labels)).loss
    loss.backward()
    found |= {"given": inputs["input_ids"].numpy(), "places": places, "predicted": predicted, "loss": loss.item()}
    for name, weight in model.named_parameters():
        found[f"weight/{name}"] = weight.detach().numpy().astype(np.float32)
        found[f"gradient/{name}"] = weight.grad.numpy().astype(np.float32)
    np.savez_compressed(Path(__file__).parent / "golden_mlm.npz", **found)


if __name__ == "__main__":
    main()
