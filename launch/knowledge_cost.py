"""Seconds of a training step of ESIM with each kind of knowledge. The kinds run in turn, in one process.

    python launch/knowledge_cost.py snli limit=2000 hidden=100 vectors=glove.6B.100d.txt dim=100 rounds=7

All kinds read the same typed links, so that only their computation differs.
"""

import sys
import time

import jax
import numpy as np

from mednli_jax import defaults
from mednli_jax.run import experiment_of


def main() -> int:
    variant, given = sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])
    rounds, kinds = int(given.get("rounds", 7)), given.get("kinds", "bias,typed,none,replace").split(",")
    experiments = {}
    for kind in kinds:
        config = defaults.nli("esim", variant, knowledge="typed")
        config.data.limit = int(given["limit"]) if "limit" in given else None
        config.vectors.update(path=given.get("vectors", ""), dim=int(given.get("dim", 300)))
        config.model.hidden_size = int(given.get("hidden", 300))
        config.train.max_buckets = 1
        if kind == kinds[0]:  # its links serve all kinds
            prepared, _ = experiment_of(config).prepare()
        config.model.knowledge = kind
        experiments[kind] = experiment_of(config)
    programs, learners, plans, seconds = {}, {}, {}, {kind: [] for kind in kinds}
    for turn in range(rounds + 1):
        for kind, asked in experiments.items():
            if turn == 0:
                programs[kind], batches = asked.program_over(prepared, splits=["train"])
                layout = batches["train"].layouts[0]
                plan = [index for other, index in batches["train"].epoch(1, np.array([0])) if other == layout]
                plans[kind] = layout, plan[:20]
                learners[kind] = programs[kind].draw(layout, [0])
            layout, plan = plans[kind]
            begun = time.monotonic()
            for index in plan:
                learners[kind], sums = programs[kind].train(layout, learners[kind], index)
            jax.block_until_ready(sums)
            if turn:  # the first step compiles
                seconds[kind].append((time.monotonic() - begun) / len(plan))
    for kind, found in seconds.items():
        ratios = [each / bias for each, bias in zip(found, seconds[kinds[0]], strict=True)]
        times = f"{1e3 * np.median(found):.1f} ms ({1e3 * min(found):.1f}-{1e3 * max(found):.1f})"
        print(f"{kind:8} {times}, {np.median(ratios):.3f} times {kinds[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
