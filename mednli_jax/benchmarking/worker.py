"""A side of the benchmark in a child process: commands as JSON lines on stdin, answers as JSON lines on stdout.

  {"do": "estimate", "spec": {...}, "seconds": 5}  -> {"tokens_per_second"}, of PyTorch in the spec's setting
  {"do": "start", "name": "ours", "spec": {...}}   -> {"seconds_per_batch", "device"}
  {"do": "run", "positions": [...], "number": 0}   -> {"seconds", "examples"}
  {"do": "peak"}                                   -> {"mb", "compile_seconds"}
  {"do": "gemm"}                                   -> {"flops_per_second"}

Separate processes keep thread pools, allocator settings and peak memory of the two sides apart. Output of libraries
goes to stderr. The answer to a failed command is {"error", "user"}; the process goes on.
"""

import json
import os
import resource
import sys
import threading
import time

from mednli_jax.benchmarking import families
from mednli_jax.errors import UserError

ESTIMATED = (0.5, 0.2, 0.8, 0.05, 0.95, 0.35, 0.65)  # quantiles by cost of the batches that an estimate runs in turn


def build_side(name: str, spec: dict):
    """The side "ours" or "pytorch" over its corpus. Only the libraries of that side are imported."""
    work = families.workload_of(spec)
    if name == "pytorch":
        return families.MODELS[spec["model"]].pytorch(spec, work)
    from mednli_jax.benchmarking.ours import Ours

    return Ours(spec, work)


def sample(plan: list, positions) -> list:
    """The batches of a plan sorted by cost that stand at these quantiles, each in [0, 1)."""
    return [plan[min(int(position * len(plan)), len(plan) - 1)] for position in positions]


class Worker:
    """Answers commands. make: (name, spec) -> a side."""

    def __init__(self, make=build_side):
        self.make, self.side, self.mode, self.plan = make, None, "", []

    def answer(self, message: dict) -> dict:
        """The answer to one command."""
        commands = {name: getattr(self, name) for name in ("estimate", "start", "run", "peak", "gemm")}
        return commands[message.pop("do")](**message)

    def estimate(self, spec, seconds):
        """Speed on a few batches of all sizes, after a cheap one; begins no batch once the seconds are over.

        With torch.compile all of them run once before. The speed is in tokens, which hardly depends on the batches.
        """
        mode = spec["mode"]
        side = self.make("pytorch", spec)
        plan = side.plan(mode)
        side.run(mode, sample(plan, ESTIMATED if spec["compiled"] else (0.1,)))
        tokens, started = 0, time.perf_counter()
        for rows in sample(plan, ESTIMATED):
            side.run(mode, [rows])
            tokens += side.tokens(rows)
            taken = time.perf_counter() - started
            if taken > seconds:
                break
        return {"tokens_per_second": tokens / taken}

    def start(self, name, spec):
        """Builds a side, compiles and warms up. The mode "epoch" runs one: 0 seconds per batch."""
        self.side, self.mode, seconds = self.make(name, spec), spec["mode"], 0.0
        if self.mode == "epoch":
            self.side.epoch(0)
        else:
            self.plan = self.side.plan(self.mode)
            seconds = self.side.warm(self.mode, self.plan)
        return {"seconds_per_batch": seconds, "device": self.side.device}

    def run(self, positions, number):
        """A round; what is compiled on the way is not counted."""
        compiled, started = self.side.compile_seconds(), time.perf_counter()
        if self.mode == "epoch":
            examples = self.side.epoch(number)
        else:
            examples = self.side.run(self.mode, sample(self.plan, positions))
        seconds = time.perf_counter() - started - (self.side.compile_seconds() - compiled)
        return {"seconds": seconds, "examples": examples}

    def peak(self):
        """Peak memory of the accelerator if there is one, else of the process."""
        scale = 1 if sys.platform == "darwin" else 1024
        most = self.side.peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
        return {"mb": most / 1e6, "compile_seconds": self.side.compile_seconds()}

    def gemm(self):
        from mednli_jax.benchmarking import ours

        return {"flops_per_second": ours.gemm_flops()}


def end_with(parent: int) -> None:
    """Ends this process once its parent has gone, in the middle of a command too."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except UserError as error:
            answer = {"error": str(error), "user": True}
        except Exception as error:  # sent to the parent, which goes on without a style that does not work here
            first = (str(error).strip().splitlines() or [""])[0][:200]
            answer = {"error": f"{type(error).__name__}: {first}", "user": False}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
