"""Makes the golden files of test_parity by running the models of reference.py.

    python tests/golden/make_golden.py        (needs torch and numpy, not this package; takes minutes)

It writes golden.json (settings, names and shapes of the reference's weights, in PyTorch's own
layout) and golden.npz (inputs, weights, and in float32 and float64 the logits, the summed loss, its
gradient by every weight, running statistics, and weights after a few Adam steps). Flat vectors
follow the order of the names.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from reference import DIM, HIDDEN, LONGEST, WORDS, build
from torch import nn

HERE = Path(__file__).parent
SEED = 20
PREMISE_LENGTH, HYPOTHESIS_LENGTH = (7, 4, 1, 5, 3, 6), (2, 5, 3, 1, 4, 5)
# (premise token, hypothesis token, path length) of each row. Some rows have no links, and one link
# lies at (0, 0), to which empty slots also point.
LINKS = (
    ((0, 0, 1), (3, 1, 0), (6, 0, 4)),
    ((0, 4, 2), (2, 2, 0), (2, 3, 3), (3, 0, 1)),
    (),
    ((4, 0, 0),),
    ((1, 3, 2), (1, 1, 2), (0, 0, 0)),
    (),
)
ALL, FIVE, FOUR = [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 5], [4, 1, 2, 5]
# Without links every token attends equally to the whole other sentence, so both sentences have the
# same mean over their own and their attended states. |u - v| is then 0 up to rounding, and its
# slope may have either sign. Gradients are therefore compared on pairs with links, or on all pairs
# where the model does not use the difference of u and v.
LINKED = [row for row, links in enumerate(LINKS) if links]
ON_THE_KINK = [{"rows": ALL, "train": False, "gradient": False}, {"rows": LINKED, "train": False}]
DTYPES = {torch.float32: "float32", torch.float64: "float64"}
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-6


def infersent(**fields):
    defaults = {"cell": "lstm", "pooling": "max", "matching": "full"}
    return {
        "model": "infersent",
        "fields": {**defaults, "knowledge": "none", "masking": "masked", **fields},
    }


def esim(**fields):
    return {"model": "esim", "fields": {"knowledge": "none", "masking": "masked", **fields}}


def bow(**fields):
    """Two training passes over different rows, then one with the running statistics that they
    leave."""
    passes = [
        {"rows": FIVE, "train": True},
        {"rows": FOUR, "train": True},
        {"rows": ALL, "train": False},
    ]
    return {
        "model": "bow",
        "fields": {"knowledge": "none", "masking": "masked", **fields},
        "passes": passes,
    }


CASES = {
    f"{name}-{knowledge}-{masking}": make(knowledge=knowledge, masking=masking)
    for name, make in (("bow", bow), ("infersent", infersent), ("esim", esim))
    for knowledge in ("none", "replace", "bias")
    for masking in ("masked", "paper")
}
CASES |= {
    "infersent-mean": infersent(pooling="mean"),
    "infersent-mean-replace": {
        **infersent(pooling="mean", knowledge="replace"),
        "passes": ON_THE_KINK,
    },
    "infersent-mean-bias": {**infersent(pooling="mean", knowledge="bias"), "passes": ON_THE_KINK},
    "infersent-mean-concat-replace": infersent(
        pooling="mean", matching="concat", knowledge="replace"
    ),
    "infersent-mean-concat-bias": infersent(pooling="mean", matching="concat", knowledge="bias"),
    "infersent-gru": infersent(cell="gru"),
    "infersent-gru-bias-paper": infersent(cell="gru", knowledge="bias", masking="paper"),
    "bilstm": infersent(pooling="last", matching="concat"),
    "infersent-replace-scaled": infersent(knowledge="replace", knowledge_scale=4.0),
    "esim-replace-scaled": esim(knowledge="replace", knowledge_scale=4.0),
}
TRAINED = ("esim-bias-masked", "infersent-gru")
TRAINED += tuple(
    f"{name}-{knowledge}-{masking}"
    for name in ("bow", "infersent", "esim")
    for knowledge in ("none", "replace")
    for masking in ("masked", "paper")
)


def make_inputs(rng):
    """The six pairs as arrays. Padding has token 0, whose vector is as large as any other."""
    inputs = {"label": np.array([0, 1, 2, 2, 1, 0], np.int32)}
    for side, lengths, width in (
        ("premise", PREMISE_LENGTH, 7),
        ("hypothesis", HYPOTHESIS_LENGTH, 5),
    ):
        tokens = rng.integers(1, WORDS, (6, width))
        inputs[f"{side}_length"] = np.array(lengths, np.int32)
        inputs[side] = np.where(
            np.arange(width) < inputs[f"{side}_length"][:, None], tokens, 0
        ).astype(np.int32)
    slots = np.zeros((3, 6, 5), np.int16)
    slots[2] = -1
    inputs["distance"] = np.full((6, 7, 5), -1, np.int64)
    for row, links in enumerate(LINKS):
        for k, (p, h, d) in enumerate(links):
            slots[:, row, k] = p, h, d
            inputs["distance"][row, p, h] = d
    return inputs | dict(
        zip(("link_premise", "link_hypothesis", "link_distance"), slots, strict=True)
    )


def draw_weights(name, attempt, model, vectors):
    """Draws weights that float32 holds exactly, equal for cases whose names differ only in the last
    word."""
    rng = np.random.default_rng([SEED, zlib.crc32(name.rpartition("-")[0].encode()), attempt])
    with torch.no_grad():
        for key, weight in model.named_parameters():
            # Below a batch norm weights are small; float32 can then hold its gradients to 1e-5.
            sd = 0.1 if name.startswith("bow") and key.startswith(("layer", "logits")) else 0.4
            drawn = rng.normal(0, sd, weight.shape)
            if key == "projection.bias" and name.startswith(
                "bow"
            ):  # else padding would add nothing
                drawn = abs(drawn)
            weight.copy_(
                torch.tensor(vectors if key == "embedding.weight" else drawn.astype(np.float32))
            )


def flat(tensors):
    return torch.cat([t.detach().reshape(-1) for t in tensors]).numpy()


def statistics(model):
    return {k: b for k, b in model.named_buffers() if "running" in k}


def run_passes(model, case, data):
    """Logits, loss, gradient and running statistics of each pass, by "<pass>/<what>"."""
    found = {}
    for i, one in enumerate(case["passes"]):
        model.zero_grad()
        logits = model(data, one["rows"], one["train"])
        loss = F.cross_entropy(logits, data["label"][one["rows"]].long(), reduction="sum")
        loss.backward()
        found |= {f"{i}/logits": logits.detach().numpy(), f"{i}/loss": loss.detach().numpy()}
        if one.get("gradient", True):
            found[f"{i}/gradient"] = flat([w.grad for w in model.parameters()])
        if statistics(model):
            found[f"{i}/statistics"] = flat(statistics(model).values())
    return found


def make_cases(cases, data, vectors, out):
    """Every pass of cases with equal weights, in both precisions; returns their entries of
    golden.json.

    Weights are drawn again if the reference's float32 differs from its float64 by more than 3e-6.
    Batch norm over five rows can divide by almost 0, and then no float32 is right to 1e-5.
    """
    cases = {
        name: {"passes": [{"rows": ALL, "train": False}], **case} for name, case in cases.items()
    }
    attempt = next(
        n
        for n in range(100_000)
        if all(is_sound(name, cases[name], n, data, vectors) for name in cases)
    )
    entries = {}
    for name, case in cases.items():
        for dtype, kind in DTYPES.items():
            model = drawn(name, case, attempt, vectors)
            out[f"{name}/weights"] = flat(model.parameters())
            found = run_passes(model.to(dtype), case, data)
            out |= {f"{name}/{kind}/{key}": value for key, value in found.items()}
        names = {"weights": model.named_parameters(), "statistics": statistics(model).items()}
        shapes = {kind: [[k, list(w.shape)] for k, w in pairs] for kind, pairs in names.items()}
        entries[name] = {**case, "attempt": attempt, **shapes}
    return entries


def is_sound(name, case, attempt, data, vectors):
    found = [
        run_passes(drawn(name, case, attempt, vectors).to(dtype), case, data) for dtype in DTYPES
    ]
    return max(abs(a - b).max() for a, b in zip(*map(dict.values, found), strict=True)) < 3e-6


def drawn(name, case, attempt, vectors):
    model = build(case["model"], case["fields"])
    draw_weights(name, attempt, model, vectors)
    return model


def make_training(name, case, data, vectors, out):
    """Losses, weights and running statistics of three steps of Adam with L2 in float64, with frozen
    vectors.

    PyTorch's LSTM has two bias vectors that are only ever added. Adam moves each by the same
    amount, so their sum moves twice as fast as one bias would. One of them is therefore held at 0.
    """
    model = drawn(name, case, case["attempt"], vectors)
    model.embedding.weight.requires_grad_(False)
    for key, weight in model.named_parameters():
        if "bias_hh" in key:
            weight.requires_grad_(False).zero_()
    model.double()
    learned = [w for w in model.parameters() if w.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    losses = []
    for rows in (FIVE, FOUR, ALL):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data, rows, True), data["label"][rows].long())
        loss.backward()
        optimizer.step()
        losses.append(loss)
    out |= {
        f"training/{name}/losses": flat(losses),
        f"training/{name}/after": flat(model.parameters()),
    }
    if statistics(model):
        out[f"training/{name}/statistics"] = flat(statistics(model).values())


def make_norm(rng, out):
    """Batch norm alone: two batches of eight rows, of which 5 and 3 are real, then the running
    statistics."""
    x, cotangent = (
        rng.normal(1.0, 2.0, (2, 8, 4)).astype(np.float32),
        rng.normal(size=(2, 8, 4)).astype(np.float32),
    )
    mask = np.array([[1, 1, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0, 1, 1]], np.float32)
    scale, bias = rng.normal(size=(2, 4)).astype(np.float32)
    out |= {
        "norm/x": x,
        "norm/cotangent": cotangent,
        "norm/mask": mask,
        "norm/scale": scale,
        "norm/bias": bias,
    }
    for dtype, kind in DTYPES.items():
        for affine in (True, False):
            norm = nn.BatchNorm1d(4, affine=affine)
            if affine:
                norm.weight.data, norm.bias.data = torch.tensor(scale), torch.tensor(bias)
            norm.to(dtype)
            place = f"norm/{'affine' if affine else 'plain'}/{kind}"
            for i in range(2):
                real = mask[i] == 1
                rows = torch.tensor(x[i][real], dtype=dtype, requires_grad=True)
                norm.zero_grad()
                y = norm(rows)
                (y * torch.tensor(cotangent[i][real], dtype=dtype)).sum().backward()
                out |= {
                    f"{place}/{i}/y": y.detach().numpy(),
                    f"{place}/{i}/x_gradient": rows.grad.numpy(),
                }
                if affine:
                    gradients = torch.stack([norm.weight.grad, norm.bias.grad])
                    out[f"{place}/{i}/weight_gradient"] = gradients.numpy()
                out[f"{place}/{i}/statistics"] = torch.stack(
                    [norm.running_mean, norm.running_var]
                ).numpy()
            norm.eval()
            out[f"{place}/eval"] = norm(torch.tensor(x[0], dtype=dtype)).detach().numpy()


def make_adam(rng, out):
    """Adam alone over three gradients. Where these are 0 or tiny, only L2 moves a weight."""
    start, gradients = (
        rng.normal(size=12).astype(np.float32),
        rng.normal(size=(3, 12)).astype(np.float32),
    )
    gradients[:, :3], gradients[:, 3:6] = 0, gradients[:, 3:6] * 1e-6
    out |= {"adam/start": start, "adam/gradients": gradients}
    for dtype, kind in DTYPES.items():
        weight = nn.Parameter(torch.tensor(start, dtype=dtype))
        optimizer = torch.optim.Adam([weight], lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        after = []
        for gradient in gradients:
            weight.grad = torch.tensor(gradient, dtype=dtype)
            optimizer.step()
            after.append(weight.detach().clone())
        out[f"adam/{kind}/after"] = torch.stack(after).numpy()


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    inputs, vectors = make_inputs(rng), rng.normal(0, 0.6, (WORDS, DIM)).astype(np.float32)
    data = {k: torch.tensor(v) for k, v in inputs.items()}
    out = {f"input/{k}": v for k, v in inputs.items() if k != "distance"} | {
        "input/vectors": vectors
    }
    facts = {"torch": torch.__version__, "longest_path": LONGEST, "hidden_size": HIDDEN}
    facts |= {
        "training_rows": [FIVE, FOUR, ALL],
        "learning_rate": LEARNING_RATE,
        "weight_decay": WEIGHT_DECAY,
    }
    facts["cases"] = {}
    for draw in dict.fromkeys(name.rpartition("-")[0] for name in CASES):
        sharing = {name: case for name, case in CASES.items() if name.rpartition("-")[0] == draw}
        facts["cases"] |= make_cases(sharing, data, vectors, out)
    facts["trained"] = list(TRAINED)
    for name in TRAINED:
        make_training(name, facts["cases"][name], data, vectors, out)
    make_norm(rng, out)
    make_adam(rng, out)
    np.savez_compressed(HERE / "golden.npz", **out)
    (HERE / "golden.json").write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
