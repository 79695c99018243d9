"""Makes the golden files of test_parity by running the models of reference.py.

    python tests/golden/make_golden.py    (needs torch and numpy, not this package; takes minutes)

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

HERE = Path(__file__).parent
SEED = 20
PREMISE_LENGTH = (7, 4, 1, 5, 3, 6)
HYPOTHESIS_LENGTH = (2, 5, 3, 1, 4, 5)
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
ALL = [0, 1, 2, 3, 4, 5]
FIVE = [0, 1, 2, 3, 5]
FOUR = [4, 1, 2, 5]
# Without links every token attends equally to the whole other sentence, so both sentences have the
# same mean over their own and their attended states. |u - v| is then 0 up to rounding, and its
# slope may have either sign. Gradients are therefore compared on pairs with links, or on all pairs
# where the model does not use the difference of u and v.
LINKED = [row for row, links in enumerate(LINKS) if links]
ON_THE_KINK = [{"rows": ALL, "train": False, "gradient": False}, {"rows": LINKED, "train": False}]
DTYPES = {torch.float32: "float32", torch.float64: "float64"}
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-6


PLAIN = {"knowledge": "none", "masking": "masked"}


def infersent(**fields):
    defaults = {"cell": "lstm", "pooling": "max", "matching": "full", **PLAIN}
    return {"model": "infersent", "fields": {**defaults, **fields}}


def esim(**fields):
    return {"model": "esim", "fields": {**PLAIN, **fields}}


def bow(**fields):
    """Two training passes over different rows, then one with the running statistics that they
    leave."""
    passes = [
        {"rows": FIVE, "train": True},
        {"rows": FOUR, "train": True},
        {"rows": ALL, "train": False},
    ]
    return {"model": "bow", "fields": {**PLAIN, **fields}, "passes": passes}


CASES = {
    f"{name}-{knowledge}-{masking}": make(knowledge=knowledge, masking=masking)
    for name, make in (
        ("bow", bow),
        ("infersent", infersent),
        ("esim", esim),
    )
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
    for side, lengths in (("premise", PREMISE_LENGTH), ("hypothesis", HYPOTHESIS_LENGTH)):
        length = np.array(lengths, np.int32)
        width = max(lengths)
        tokens = rng.integers(1, WORDS, (6, width))
        is_word = np.arange(width) < length[:, None]
        inputs[f"{side}_length"] = length
        inputs[side] = np.where(is_word, tokens, 0).astype(np.int32)
    inputs["distance"] = np.full((6, 7, 5), -1, np.int64)
    inputs["link_premise"], inputs["link_hypothesis"] = np.zeros((2, 6, 5), np.int16)
    inputs["link_distance"] = np.full((6, 5), -1, np.int16)
    for row, links in enumerate(LINKS):
        for slot, (premise, hypothesis, distance) in enumerate(links):
            inputs["link_premise"][row, slot] = premise
            inputs["link_hypothesis"][row, slot] = hypothesis
            inputs["link_distance"][row, slot] = distance
            inputs["distance"][row, premise, hypothesis] = distance
    return inputs


def draw_weights(name, attempt, model, vectors):
    """Draws weights that float32 holds exactly, equal for cases whose names differ only in the last
    word."""
    rng = np.random.default_rng([SEED, zlib.crc32(name.rpartition("-")[0].encode()), attempt])
    with torch.no_grad():
        for key, weight in model.named_parameters():
            # Below a batch norm weights are small; float32 can then hold its gradients to 1e-5.
            sd = 0.1 if name.startswith("bow") and key.startswith(("layer", "logits")) else 0.4
            values = rng.normal(0, sd, weight.shape).astype(np.float32)
            if key == "projection.bias" and name.startswith("bow"):
                values = abs(values)  # else padding would add nothing
            if key == "embedding.weight":
                values = vectors
            weight.copy_(torch.tensor(values))


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy()


def statistics(model):
    return {name: buffer for name, buffer in model.named_buffers() if "running" in name}


def run_passes(model, case, data):
    """Logits, loss, gradient and running statistics of each pass, by "<pass>/<name>"."""
    arrays = {}
    for number, settings in enumerate(case["passes"]):
        rows = settings["rows"]
        model.zero_grad()
        logits = model(data, rows, settings["train"])
        loss = F.cross_entropy(logits, data["label"][rows].long(), reduction="sum")
        loss.backward()
        arrays[f"{number}/logits"] = logits.detach().numpy()
        arrays[f"{number}/loss"] = loss.detach().numpy()
        if settings.get("gradient", True):
            arrays[f"{number}/gradient"] = flat([weight.grad for weight in model.parameters()])
        if statistics(model):
            arrays[f"{number}/statistics"] = flat(statistics(model).values())
    return arrays


def make_cases(cases, data, vectors, out):
    """Every pass of cases with equal weights, in both precisions; returns their entries of
    golden.json.

    Weights are drawn again if the reference's float32 differs from its float64 by more than 3e-6.
    Batch norm over five rows can divide by almost 0, and then no float32 is right to 1e-5.
    """
    whole = {"passes": [{"rows": ALL, "train": False}]}
    cases = {name: {**whole, **case} for name, case in cases.items()}
    attempt = 0
    while not all(is_sound(name, cases[name], attempt, data, vectors) for name in cases):
        attempt += 1
    entries = {}
    for name, case in cases.items():
        for dtype, kind in DTYPES.items():
            model = drawn(name, case, attempt, vectors)
            out[f"{name}/weights"] = flat(model.parameters())
            for key, array in run_passes(model.to(dtype), case, data).items():
                out[f"{name}/{kind}/{key}"] = array
        entries[name] = {
            **case,
            "attempt": attempt,
            "weights": shapes(model.named_parameters()),
            "statistics": shapes(statistics(model).items()),
        }
    return entries


def shapes(named):
    return [[name, list(tensor.shape)] for name, tensor in named]


def is_sound(name, case, attempt, data, vectors):
    """Whether the passes in float32 are those in float64, up to rounding."""
    single, double = (
        run_passes(drawn(name, case, attempt, vectors).to(dtype), case, data) for dtype in DTYPES
    )
    return max(abs(single[key] - double[key]).max() for key in double) < 3e-6


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
    learned = [weight for weight in model.parameters() if weight.requires_grad]
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


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    inputs = make_inputs(rng)
    vectors = rng.normal(0, 0.6, (WORDS, DIM)).astype(np.float32)
    data = {name: torch.tensor(array) for name, array in inputs.items()}
    out = {f"input/{name}": array for name, array in inputs.items() if name != "distance"}
    out["input/vectors"] = vectors
    facts = {
        "torch": torch.__version__,
        "longest_path": LONGEST,
        "hidden_size": HIDDEN,
        "training_rows": [FIVE, FOUR, ALL],
        "learning_rate": LEARNING_RATE,
        "weight_decay": WEIGHT_DECAY,
        "cases": {},
        "trained": list(TRAINED),
    }
    sharing = {}  # cases whose weights are equal
    for name, case in CASES.items():
        sharing.setdefault(name.rpartition("-")[0], {})[name] = case
    for cases in sharing.values():
        facts["cases"] |= make_cases(cases, data, vectors, out)
    for name in TRAINED:
        make_training(name, facts["cases"][name], data, vectors, out)
    np.savez_compressed(HERE / "golden.npz", **out)
    (HERE / "golden.json").write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
