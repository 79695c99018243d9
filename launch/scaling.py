"""Counts the traffic of data-parallel training between devices, and estimates how far it scales.

  python launch/scaling.py [--models=bow,infersent,esim] [--link=400 --latency=2 --fixed=0.1] [--step=esim=20,bow=2]

Counted: the operands of all collective operations in a training step compiled for two devices, at the published sizes.
They depend on the weights only, not on the batch or the number of devices. The estimate for 1 to 256 devices follows
from them: a step takes its time on one device plus the time of its collectives. A collective is a ring (Patarasuk &
Yuan 2009): an operand crosses a link 2 (n - 1) / n times and waits 2 log2 n times for a latency. No overlap is assumed.
"""

import argparse
import math
import re
import sys

import jax

from mednli_jax import cli
from mednli_jax.benchmarking import measure, ours, workload
from mednli_jax.run import experiment_of
from mednli_jax.training.devices import Devices
from mednli_jax.training.loop import Trainer
from mednli_jax.training.step import train_step

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PAIRS, BATCH, HIDDEN = 11_232, 512, 300  # MedNLI's training pairs and the published sizes
STEP_MS = {"bow": 1.0, "infersent": 10.0, "esim": 20.0}  # of a fast accelerator; replace them by measured ones
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
BYTES = {"f64": 8, "s64": 8, "u64": 8, "f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "s16": 2, "u16": 2, "pred": 1}
INSTRUCTION = re.compile(rf"= (.+?) ({'|'.join(COLLECTIVES)})(?:-start)?\(")
SHAPE = re.compile(r"\b([a-z]+[0-9]*)\[([0-9,]*)\]")


def operands(text: str) -> list[tuple[str, int]]:
    """(operation, bytes of its result on one device) of each collective in the text of a compiled program."""
    found = []
    for shapes, operation in INSTRUCTION.findall(text):
        sizes = [
            BYTES[kind] * math.prod(map(int, filter(None, dims.split(",")))) for kind, dims in SHAPE.findall(shapes)
        ]
        found.append((operation, sum(sizes)))
    return found


class Setting:
    """A model over a synthetic corpus of MedNLI's shape, on `count` devices."""

    def __init__(self, model, hidden, count, pairs):
        spec = {"model": model, "hidden": hidden, "batch": BATCH, "seeds": 1, "grouping": "off"}
        config, prepared = measure.config_of(spec), ours.prepared_of(workload.made_up_pairs(pairs, dim=hidden))
        asked, devices = experiment_of(config), Devices(jax.local_devices()[:count])
        self.program, batches = asked.program(prepared, words=(), devices=devices)
        self.trainer = Trainer(self.program, asked.settings, prepared.splits, batches, asked.seeds)
        self.plan = batches["train"].epoch(1, asked.seeds)

    def compiled_text(self) -> str:
        program, (layout, index) = self.program, self.plan[0]
        body = train_step(program.model, program.task, program.optimizer, layout, program.devices.axis_name)
        step = program.devices.map(body, reduced=True)
        index = program.devices.split(index)
        return step.lower(self.trainer.learner, program.frozen, program.data, index).compile().as_text()


def communication(sent: int, operations: int, count: int, link: float, latency: float) -> float:
    """Milliseconds of a step's collectives on `count` devices; link in Gbit/s of a device, latency in microseconds."""
    if count == 1:
        return 0.0
    return 2 * (count - 1) / count * sent * 8 / (link * 1e6) + operations * 2 * math.log2(count) * latency / 1e3


def efficiency(step: float, sent: int, operations: int, count: int, options) -> tuple[float, float]:
    """(with the same batch on every device, with one batch split over all): shares of a perfect speed-up."""
    extra = communication(sent, operations, count, options.link, options.latency)
    split = step * (options.fixed + (1 - options.fixed) / count) + extra
    return step / (step + extra), step / (count * split)


def count(options):
    steps = -(-PAIRS // BATCH)
    print(
        f"per step at hidden size {options.hidden}, batch {BATCH}, one seed, 32-bit gradients; {steps} steps an epoch"
    )
    print(f"{'model':10} {'parameters':>11} {'sent MB':>8} {'operations':>11} {'MB an epoch':>12}  sent by operation")
    found = {}
    for model in options.models.split(","):
        setting = Setting(model, options.hidden, 2, 2 * BATCH)
        each = operands(setting.compiled_text())
        sent = sum(size for _, size in each)
        parameters = sum(leaf[0].size for leaf in jax.tree.leaves(setting.trainer.learner.params))
        by = {name: sum(size for other, size in each if other == name) for name in dict(each)}
        shares = ", ".join(f"{name} {size / 1e6:.2f}" for name, size in by.items())
        print(
            f"{model:10} {parameters:>11,} {sent / 1e6:>8.2f} {len(each):>11} {steps * sent / 1e6:>12.1f}  {shares}",
            flush=True,
        )
        found[model] = (sent, len(each))
    return found


def expect(found, options):
    step_of = {**STEP_MS, **{name: float(ms) for name, ms in (pair.split("=") for pair in options.step)}}
    print(
        f"\nexpected efficiency: link {options.link:g} Gbit/s, latency {options.latency:g} us, {options.fixed:.0%} of "
        "a step does not shrink with the batch\nleft: the same batch on each device; right: one batch split over all"
    )
    print(f"{'devices':24}" + "".join(f"{n:>11}" for n in COUNTS))
    for model, (sent, operations) in found.items():
        cells = (efficiency(step_of[model], sent, operations, n, options) for n in COUNTS)
        print(f"{model + f', step {step_of[model]:g} ms':24}" + "".join(f"{a:>6.0%}{b:>5.0%}" for a, b in cells))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="bow,infersent,esim", help="models whose steps are counted")
    parser.add_argument("--hidden", type=int, default=HIDDEN)
    parser.add_argument("--link", type=float, default=400.0, help="Gbit/s that a device sends")
    parser.add_argument("--latency", type=float, default=2.0, help="microseconds")
    parser.add_argument("--fixed", type=float, default=0.1, help="share of a step that does not shrink with its batch")
    parser.add_argument("--step", type=lambda text: text.split(","), default=[], help="MODEL=MILLISECONDS,...")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 2)
    expect(count(options), options)
    return cli.OK


if __name__ == "__main__":
    sys.exit(cli.script(main))
