"""Makes the golden files of test_cloze_readers by running the readers of reference_cloze.py.

    python tests/golden/make_golden_cloze.py    (needs torch and numpy alone; takes a minute)

It writes golden_cloze.json (settings, names and shapes of the reference's weights) and
golden_cloze.npz (inputs, weights, and in float32 and float64 the log probabilities of the
candidates, the summed loss and its gradient by every weight). Flat vectors follow the order of the
names.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
from make_golden import DTYPES, SEED, flat, shapes
from reference import DIM, HIDDEN, WORDS
from reference_cloze import TYPES, build

HERE = Path(__file__).parent
PASSAGE_LENGTH = (9, 4, 7, 3, 6)
QUERY_LENGTH = (5, 3, 6, 2, 4)
BLANK = (2, 0, 5, 1, 3)
# The places of each candidate. One place of the first passage belongs to two candidates; the fourth
# passage has none.
PLACES = (
    ((0, 4), (2, 3, 7, 8), (3,)),
    ((1, 2),),
    ((0,), (6,), (3, 4, 5), (2,)),
    (),
    ((1, 3), (0, 5)),
)
CANDIDATE_WORDS = (
    (1, 2, 1),
    (2,),
    (1, 1, 3, 1),
    (),
    (1, 1),
)
CANDIDATE_TYPES = (
    (0, 3, TYPES),
    (2,),
    (4, 1, TYPES + 1, 6),
    (),
    (5, 3),
)
LABEL = (1, 0, 3, 0, 0)
ANSWERED = (0, 1, 2, 4)  # rows with a candidate
LEAST = -1e9
PLACE_ROOM = 8
CANDIDATE_ROOM = 4


def ga(hops, **fields):
    return {"model": "ga_reader", "fields": {"hops": hops, **fields}}


CASES = {
    "ga-mul-2": ga(2),
    "ga-mul-2-plain": ga(2, query_feature=False),
    "ga-mul-3": ga(3),
    "ga-one": ga(1),
    "ga-share": ga(2, query_feature=False, pointer="share"),
    "ga-mean": ga(2, query_feature=False, pointer="mean"),
    "sa-bilinear": {"model": "sa_reader", "fields": {}},
}


def padded(rows, width, fill):
    result = np.full((len(rows), width), fill, np.int32)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result


def make_inputs(rng):
    """The batch of five queries as arrays. Passages and queries share words, and both have the
    unknown word (1)."""
    inputs = {}
    for side, lengths in (("passage", PASSAGE_LENGTH), ("query", QUERY_LENGTH)):
        rows = [rng.integers(2, 12, length) for length in lengths]
        for row in rows[:3]:
            row[-1] = 1
        inputs[side] = padded(rows, max(lengths), 0)
        inputs[f"{side}_length"] = np.array(lengths, np.int32)
    owners = []
    for row in PLACES:
        owners.append(np.repeat(np.arange(len(row)), [len(places) for places in row]))
    inputs["position"] = padded([sum(row, ()) for row in PLACES], PLACE_ROOM, 0)
    inputs["position_candidate"] = padded(owners, PLACE_ROOM, CANDIDATE_ROOM)
    inputs["candidate_type"] = padded(CANDIDATE_TYPES, CANDIDATE_ROOM, 0)
    inputs["candidate_length"] = padded(CANDIDATE_WORDS, CANDIDATE_ROOM, 0)
    inputs["blank"] = np.array(BLANK, np.int32)
    inputs["label"] = np.array(LABEL, np.int32)
    return inputs


def case_of(inputs, row):
    """One query with its passage, cut to their true lengths."""
    case = {
        side: torch.tensor(inputs[side][row, : inputs[f"{side}_length"][row]])
        for side in ("passage", "query")
    }
    case |= {"places": PLACES[row], "words": CANDIDATE_WORDS[row], "types": CANDIDATE_TYPES[row]}
    return case | {"blank": BLANK[row]}


def draw_weights(name, attempt, model):
    """Sets every weight to a number that float32 holds exactly."""
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), attempt])
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.tensor(rng.normal(0, 0.5, weight.shape).astype(np.float32)))


def run(model, inputs):
    """Log probabilities [rows, C] (0 without a candidate, LEAST where impossible), loss and
    gradient."""
    scores = {row: model(case_of(inputs, row)) for row in ANSWERED}
    loss = -sum(score[LABEL[row]] for row, score in scores.items())
    loss.backward()
    rows = [scores[row].tolist() if row in scores else [] for row in range(len(LABEL))]
    gradient = [torch.zeros_like(w) if w.grad is None else w.grad for w in model.parameters()]
    table = np.zeros((len(rows), CANDIDATE_ROOM), loss.detach().numpy().dtype)
    for into, values in zip(table, rows, strict=True):
        into[: len(values)] = np.maximum(values, LEAST)
    return {"scores": table, "loss": loss.detach().numpy(), "gradient": flat(gradient)}


def make_case(name, case, inputs, out):
    """One case in both precisions; returns its entry of golden_cloze.json. See
    make_golden.make_cases."""
    for attempt in range(100):
        results = {}
        for dtype, kind in DTYPES.items():
            model = build(case["model"], case["fields"])
            draw_weights(name, attempt, model)
            weights = flat(model.parameters())
            results[kind] = run(model.to(dtype), inputs)
        single, double = results.values()
        if max(abs(single[key] - double[key]).max() for key in double) < 2e-6:
            break
    else:
        raise RuntimeError(f"{name}: no draw is well conditioned")
    out[f"{name}/weights"] = weights
    for kind, arrays in results.items():
        for key, array in arrays.items():
            out[f"{name}/{kind}/{key}"] = array
    return {**case, "weights": shapes(model.named_parameters())}


def main():
    torch.set_num_threads(1)
    inputs = make_inputs(np.random.default_rng(SEED))
    out = {f"input/{key}": value for key, value in inputs.items()}
    facts = {
        "torch": torch.__version__,
        "hidden_size": HIDDEN,
        "words": WORDS,
        "dim": DIM,
    }
    facts |= {"num_types": TYPES, "answered": ANSWERED}
    facts["cases"] = {name: make_case(name, case, inputs, out) for name, case in CASES.items()}
    np.savez_compressed(HERE / "golden_cloze.npz", **out)
    (HERE / "golden_cloze.json").write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
