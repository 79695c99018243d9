"""A contender in a child process: commands as JSON lines on stdin, answers as JSON lines on stdout.

  {"do": "build", "side": "ours", "spec": {...}}  -> {"batches", "facts"}
  {"do": "warm"}                                   -> {"seconds_per_batch", "facts"}
  {"do": "run", "positions": [...], "number": 0}   -> {"seconds", "examples"}
  {"do": "gemm"}                                   -> {"flops_per_second"}
  {"do": "peak"}                                   -> {"mb", "compile_seconds"}
  {"do": "stop"}

Thread pools, allocator settings and peak memory of two contenders do not mix this way. What a library prints goes to
stderr. A failure is answered by {"error", "user"}, the process lives on.
"""

import json
import os
import resource
import sys
import threading
import time

import numpy as np

from mednli_jax.benchmarking import families
from mednli_jax.errors import UserError

MOST_EPOCHS = 10  # of "until"


def build_contender(side: str, spec: dict):
    """The contender of a side: "ours", "torch" or "idiomatic". Only the libraries of that side are imported."""
    if side == "ours":
        from mednli_jax.benchmarking.ours import Ours

        return Ours(spec, families.workload_of(spec))
    return families.of(spec["model"]).torch_sides()[side](spec, families.workload_of(spec))


class Worker:
    """Answers commands; `contender` is what `build` made."""

    def __init__(self, make=build_contender):
        self.make, self.contender, self.mode, self.plan = make, None, "", []

    def answer(self, message: dict) -> dict:
        """The answer to one command."""
        commands = {"build": self.build, "warm": self.warm, "run": self.run, "gemm": self.gemm, "peak": self.peak}
        arguments = {name: value for name, value in message.items() if name != "do"}
        return commands[message["do"]](**arguments)

    def build(self, side, spec):
        self.contender, self.spec, self.mode = self.make(side, spec), spec, spec["mode"]
        if self.mode in ("train", "predict"):
            self.plan = self.contender.plan(self.mode)
        return {"batches": len(self.plan), "facts": self.contender.facts}

    def warm(self):
        """Compiles, warms up, and times a few batches; the modes that run whole epochs run once, untimed."""
        if not self.plan:
            if self.mode == "epoch":
                self.contender.epoch(0)
            else:
                self.contender.until(0.0, 0, 1)  # reached at the first look at the dev split
            return {"seconds_per_batch": 0.0, "facts": self.contender.facts}
        self.contender.warm(self.mode, self.plan)
        few = sample(self.plan, [(i + 0.5) / 4 for i in range(4)])
        started = time.perf_counter()
        self.contender.run(self.mode, few)
        each = (time.perf_counter() - started) / len(few)
        return {"seconds_per_batch": each, "facts": self.contender.facts}

    def run(self, positions, number, accuracy=0.0):
        """A round; what is compiled on the way is not counted."""
        compiled, started = self.contender.compiled(), time.perf_counter()
        result = {}
        if self.mode == "epoch":
            examples = self.contender.epoch(number)
        elif self.mode == "until":
            examples, reached = self.contender.until(accuracy, number, MOST_EPOCHS)
            result = {"accuracy": reached, "reached": reached >= accuracy}
        else:
            examples = self.contender.run(self.mode, sample(self.plan, positions))
        seconds = time.perf_counter() - started - (self.contender.compiled() - compiled)
        return {"seconds": seconds, "examples": examples, **result}

    def gemm(self):
        from mednli_jax.benchmarking import ours

        return {"flops_per_second": ours.gemm_flops()}

    def peak(self):
        scale = 1 if sys.platform == "darwin" else 1024
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6
        return {"mb": megabytes, "compile_seconds": self.contender.compiled()}


def sample(plan: list, positions) -> list:
    """The batches of a plan sorted by cost that stand at these quantiles, each in [0, 1)."""
    return [plan[min(int(position * len(plan)), len(plan) - 1)] for position in positions]


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
        message = json.loads(line)
        if message["do"] == "stop":
            break
        try:
            answer = worker.answer(message)
        except UserError as error:
            answer = {"error": str(error), "user": True}
        except Exception as error:  # sent to the parent, which goes on without a style that does not work here
            first = (str(error).strip().splitlines() or [""])[0][:200]
            answer = {"error": f"{type(error).__name__}: {first}", "user": False}
        answers.write(json.dumps(answer, default=_plain) + "\n")
        answers.flush()


def _plain(value):
    return value.item() if isinstance(value, np.generic) else str(value)


if __name__ == "__main__":
    main()
