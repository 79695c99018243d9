"""Stands for `train` in tests of sweeps: makes a run directory, a lock and saved steps as it does.

The score of a trial is 1 - rate. A rate `fails`, or its process is `killed` after the first step.
"""

import os
import signal
import sys
import time
from pathlib import Path

from mednli_jax.errors import UserError
from mednli_jax.rundir import RunDirectory

SECRET = "zyzzyva"  # the training prints it, and the sweep must not


def train(workdir: str, wait: str, config: dict[str, str]) -> None:
    run = RunDirectory.create(Path(workdir), config, resume=True, wait=float(wait))
    if run.status() == "complete":
        return
    (run.folder / "devices").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    rate = config.get("train.rate", "0.1")
    if rate == config.get("train.fails"):
        raise UserError("this rate is refused", fix="none")
    done = len(run.metrics())
    for step in range(done, int(config.get("train.steps", 2))):
        time.sleep(float(config.get("train.pace", 0)))
        run.append_metrics({"epoch": step})
        if rate == config.get("train.killed") and not done:
            os.kill(os.getpid(), signal.SIGKILL)
    score = {"mean": 1 - float(rate)}
    half = {"mean": score["mean"] / 2}
    scores = {"dev": {"accuracy": score, "loss": score}, "test": {"accuracy": half, "loss": score}}
    run.write_result("complete", scores)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    print(SECRET, flush=True)
    flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    fields = {name[7:]: flags[name] for name in flags if name.startswith("config.")}
    try:
        train(flags["workdir"], flags["wait"], fields)
    except UserError as error:
        print("error:", error, file=sys.stderr)
        sys.exit(2)
