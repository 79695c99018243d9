"""Compiles the step of a config for an accelerator that this machine does not have, and counts its
operations.

  python launch/measure/compile_for_device.py --config=infersent:mednli --target=h100
  python launch/measure/compile_for_device.py --config=esim:mednli --target=v5e --mode=predict
  python launch/measure/compile_for_device.py --config=esim:mednli --target=v5e --devices=4 --json
  python launch/measure/compile_for_device.py --config=ga:clicr --target=h100 \\
      --config.seeds=0,1,2,3,4,5

{config}
  --target=h100|v5e            one H100, or v5e chips
  --devices=N                  chips of v5e, 1 to 4 (default 1)
  --mode=train|predict         the training step (default) or the prediction step
  --tokens=N                   tokens of a passage on average (1500), of readers
  --length=N                   word pieces of a pair (64; 0 = as MedNLI's), of encoders
  --json                       one JSON object in a line

No data and no device is needed: the corpus is the synthetic one of the benchmark, with the lengths
of MedNLI or CliCR. The step is that of the layout which most batches of an epoch have. All figures
come from the compiler; none is measured. An operation in a loop counts once for each iteration:
  launches          operations that the device starts in one step
  cycles            the compiler's estimate (v5e); custom calls are not included
  bytes, flops      bytes read and written by all operations; FLOPs of the matrix products
  memory_bytes      memory of one device: arguments, results and work space
  all_reduce_bytes  results of all-reduces on one device (--devices)
  compile_seconds   on this machine; other programs make it longer
pip install 'mednli_jax[aot]' brings the compilers. Exit codes: 0 done, 2 bad input or usage, 3
interrupted.
"""

import json
import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import jax
import numpy as np
from absl import flags
from jax.experimental import topologies
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from ml_collections import ConfigDict

from mednli_jax import cli
from mednli_jax.data.arrays import SIDES, Prepared
from mednli_jax.data.batching import Layout
from mednli_jax.errors import UsageError
from mednli_jax.experiment import Experiment, experiment_of
from mednli_jax.nli.scorer import NLIScorer
from mednli_jax.training import state
from mednli_jax.training.devices import Devices

sys.path.append(str(Path(__file__).with_name("throughput")))

import synthetic_corpora

from mednli_jax.types import PyTree

PACKAGES = {"h100": "jax-cuda12-plugin", "v5e": "libtpu"}  # package that compiles for the target
# Settings that libtpu reads from the host of a chip. This machine is no such host.
TPU_HOST = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_MIN_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
COUNTS = ("launches", "cycles", "bytes", "flops", "memory_bytes", "all_reduce_bytes")
PAIRS, QUERIES = 11_232, 1_024  # rows of the synthetic corpus
LINKS, LONGEST_PATH = 16, 20  # of a synthetic pair; the longest path between its concepts, in edges
# The device, as its driver describes it (XLA's GpuTargetConfigProto).
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84929347584
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 }
runtime_version { major: 12 minor: 8 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


# -- the compiled program as text (HLO) ------------------------------------------------------------

# Instructions for which the device launches nothing.
NO_LAUNCH = {
    "parameter",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "constant",
    "partition-id",
    "replica-id",
    "after-all",
    "opt-barrier",
    "async-done",
    "copy-done",
    "all-reduce-done",
    "all-gather-done",
}
BYTES = {
    "f64": 8,
    "s64": 8,
    "u64": 8,
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "bf16": 2,
    "f16": 2,
    "s16": 2,
    "u16": 2,
    "pred": 1,
}
SLICES, UPDATES = ("dynamic-slice", "slice", "gather"), ("dynamic-update-slice",)
HEAD = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{")
INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*)")
SHAPE = re.compile(r"\b([a-z]+[0-9]*)\[([0-9,]*)\]")
NAME = re.compile(r"%([\w.\-]+)")


@dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Args:
      shape: of the result, as text.
      operation: its name.
      arguments: the operands, or the value of a constant, as text.
      attributes: the text after the arguments.
      root: whether the computation returns it.
    """

    name: str
    shape: str
    operation: str
    arguments: str
    attributes: str
    root: bool

    @cached_property
    def size(self) -> int:
        """The bytes of the result."""
        size = 0
        for number, dimensions in SHAPE.findall(self.shape):
            size += BYTES.get(number, 4) * math.prod(map(int, re.findall(r"\d+", dimensions)))
        return size

    @cached_property
    def operands(self) -> list[str]:
        return NAME.findall(self.arguments)

    def called(self, *attributes: str) -> str:
        """The computation that is the value of the first of these attributes; "" without it."""
        match = re.search(rf"\b(?:{'|'.join(attributes)})=\{{?%?([\w.\-]+)", self.attributes)
        return match[1] if match else ""


Body = dict[str, Instruction]


class Launch(NamedTuple):
    """An operation that the device starts, the instructions of its computation, and the number of
    its runs."""

    instruction: Instruction
    body: Body
    times: int


@dataclass
class Counts:
    """The figures of a step, see the module's docstring."""

    launches: int = 0
    cycles: int = 0
    bytes: int = 0
    all_reduce_bytes: int = 0


def _closing(text: str, start: int = 0) -> int:
    """The index of the bracket that closes the bracket at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)


def _instruction(match: re.Match[str]) -> Instruction:
    root, name, text = match.groups()
    shape_end = _closing(text) + 1 if text.startswith("(") else text.index(" ")
    shape, text = text[:shape_end], text[shape_end:].lstrip()
    start = text.index("(")
    end = _closing(text, start)
    arguments = text[start + 1 : end]
    return Instruction(name, shape, text[:start], arguments, text[end + 1 :], bool(root))


class Hlo:
    """A compiled program: its computations by name, and the name of the entry computation."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, Body] = {}
        self.entry = ""
        body: Body = {}
        for line in text.splitlines():
            if head := HEAD.fullmatch(line):
                is_entry, name = head.groups()
                body = self.computations.setdefault(name, {})
                if is_entry:
                    self.entry = name
            elif match := INSTRUCTION.match(line):
                instruction = _instruction(match)
                body[instruction.name] = instruction

    def trips(self, loop: Instruction) -> int:
        """The number of iterations of a loop, as the compiler states it.

        Without such a statement it is the number with which the condition compares the counter:
        scans count from 0.
        """
        if stated := re.search(r'known_trip_count":\{"n":"(\d+)"', loop.attributes):
            return int(stated[1])
        return max(self._constants(loop.called("condition")), default=1)

    def _constants(self, computation: str) -> Iterator[int]:
        for instruction in self.computations[computation].values():
            if instruction.operation == "constant" and instruction.arguments.isdigit():
                yield int(instruction.arguments)
            elif called := instruction.called("calls", "to_apply"):
                yield from self._constants(called)

    def launched(self, computation: str = "", times: int = 1) -> Iterator[Launch]:
        """Yields the launched operations. Only the first branch of a condition counts."""
        body = self.computations[computation or self.entry]
        for instruction in body.values():
            operation = instruction.operation
            if operation == "while":
                trips = self.trips(instruction)
                yield from self.launched(instruction.called("body"), times * trips)
            elif operation == "conditional":
                branch = instruction.called("branch_computations", "true_computation")
                yield from self.launched(branch, times)
            elif operation == "call" or (
                operation == "async-start" and instruction.called("calls")
            ):
                yield from self.launched(instruction.called("to_apply", "calls"), times)
            elif operation not in NO_LAUNCH:
                yield Launch(instruction, body, times)

    def moved(self, instruction: Instruction, body: Body) -> int:
        """The bytes that an operation reads and writes. Slices, gathers and updates in place count
        used rows only."""
        if instruction.operation == "fusion":
            return self._moved_by_fusion(self.computations[instruction.called("calls")])
        sizes = [body[name].size for name in instruction.operands if name in body]
        if instruction.operation in SLICES:
            return 2 * instruction.size
        if instruction.operation in UPDATES:
            return 2 * sizes[1]
        return instruction.size + sum(sizes)

    def _moved_by_fusion(self, body: Body) -> int:
        moved = 0
        for instruction in body.values():
            if instruction.operation == "parameter":
                moved += self._read(instruction, body)
            elif instruction.root:
                moved += self._written(instruction, body)
        return moved

    def _read(self, parameter: Instruction, body: Body) -> int:
        read = 0
        for user in body.values():
            if parameter.name not in user.operands:
                continue
            if user.operation not in SLICES + UPDATES or user.operands[0] != parameter.name:
                return parameter.size
            if user.operation in SLICES:
                read += user.size
        return read

    def _written(self, instruction: Instruction, body: Body) -> int:
        if instruction.operation in ("tuple", "bitcast"):
            return sum(self._written(body[name], body) for name in instruction.operands)
        if instruction.operation in UPDATES:
            return body[instruction.operands[1]].size
        return instruction.size

    def counts(self) -> Counts:
        counts = Counts()
        for instruction, body, times in self.launched():
            counts.launches += times
            counts.bytes += times * self.moved(instruction, body)
            estimate = re.search(r'"estimated_cycles":"?(\d+)', instruction.attributes)
            if estimate:
                counts.cycles += times * int(estimate[1])
            if instruction.operation.startswith("all-reduce"):
                counts.all_reduce_bytes += times * instruction.size
        return counts


# -- the step --------------------------------------------------------------------------------------


def described(target: str, count: int) -> list[jax.Device]:
    """Describes the target's devices for the compiler."""
    if target == "v5e":
        topology = topologies.get_topology_desc("v5e:2x2x1", "tpu")
    else:
        topology = topologies.get_topology_desc(
            "h100", "cuda", target_config=H100, topology="1x1x1"
        )
    return list(topology.devices[:count])


def made_up(asked: Experiment, config: ConfigDict, tokens: int, length: int) -> Prepared:
    """Makes a synthetic prepared corpus with the lengths of the config's corpus, and links if the
    model has knowledge."""
    if asked.model.entry.module is None:
        problem = f"the model '{asked.model.name}' is not a network and has no step"
        raise UsageError(problem, fix="give another config")
    if asked.scorer.name == "cloze":
        work = synthetic_corpora.made_up_passages(QUERIES, tokens=tokens, dim=config.vectors.dim)
        return asked.scorer.with_rows(work.prepared, asked.corpus)
    if asked.scorer.pieces:
        work = synthetic_corpora.made_up_pieces(PAIRS, length=length)
    else:
        work = synthetic_corpora.made_up_pairs(PAIRS, dim=config.vectors.dim)
    prepared = work.prepared
    rng, rows = np.random.default_rng(0), len(work.premise_of)
    if config.model.get("knowledge", "none") != "none":
        for side in SIDES:
            sizes = prepared.arrays[f"{side}_length"][:, None]
            prepared.arrays[f"link_{side}"] = (rng.random((rows, LINKS)) * sizes).astype(np.int16)
        distances = rng.integers(0, LONGEST_PATH + 1, (rows, LINKS))
        prepared.arrays["link_distance"] = distances.astype(np.int16)
        prepared.manifest["knowledge"]["longest_path"] = LONGEST_PATH
    if "pieces" in prepared.manifest:
        prepared.manifest["pieces"]["mask"] = synthetic_corpora.FIRST_PIECE
    return prepared


class DescribedDevices(Devices):
    """Devices whose arrays are only shapes. A mapped function can be lowered; `flops` are those of
    the last one."""

    def replicate(self, tree: PyTree) -> PyTree:
        def shape(x: jax.Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._shared)

        return jax.tree.map(shape, tree)

    def split(self, index: np.ndarray) -> PyTree:
        return jax.eval_shape(lambda x: x, super().split(index))

    def map(self, body: Callable[..., PyTree], **options: PyTree) -> SimpleNamespace:
        mapped = super().map(body, **options)

        def lower(*arguments: PyTree) -> jax.stages.Lowered:
            self.flops = product_flops(jax.make_jaxpr(mapped)(*arguments).jaxpr)
            return mapped.lower(*arguments)

        return SimpleNamespace(lower=lower)


class CompiledStep(NamedTuple):
    """The step of the layout that most batches of an epoch have. batches: their number."""

    layout: Layout
    batches: int
    program: jax.stages.Compiled
    flops: int


def step_of(
    config: ConfigDict,
    target: str,
    count: int,
    mode: str,
    tokens: int,
    length: int,
) -> CompiledStep:
    """Compiles the step of a config."""
    asked = experiment_of(config)
    if config.task == "diskne":  # the step of a slot is the step of sentence pairs
        asked = replace(asked, scorer=NLIScorer(asked.scorer.pieces, asked.scorer.padded_length))
    devices = DescribedDevices(described(target, count))
    program, batches = asked.program(made_up(asked, config, tokens, length), devices=devices)
    plan = batches["train"].epoch(1, asked.seeds) if mode == "train" else batches["dev"].once()
    ((layout, times),) = Counter(layout for layout, _ in plan).most_common(1)
    index = next(rows for of_batch, rows in plan if of_batch == layout)

    def learner_of(data: PyTree, frozen: PyTree, rows: jax.Array) -> state.Learner:
        batch = program.scorer.to_batch(data, rows, layout)
        return state.init_learner(program.model, program.optimizer, asked.seeds, batch, frozen)

    rows = jax.ShapeDtypeStruct((layout.group_count, layout.group_size), "int32")
    learner = devices.replicate(jax.eval_shape(learner_of, program.data, program.frozen, rows))
    if mode == "train":
        compiled = program.train_body(layout, learner, index)
    else:
        compiled = program.predict_body(layout, learner.variables, index)
    return CompiledStep(layout, times, compiled, devices.flops)


def product_flops(program: Jaxpr) -> int:
    """The FLOPs of all matrix products of a traced program on one device; products in a scan count
    once for each iteration."""
    total = 0
    for equation in program.eqns:
        primitive = equation.primitive.name
        if primitive == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left, result = _shape(equation.invars[0]), _shape(equation.outvars[0])
            total += 2 * math.prod(result) * math.prod(left[axis] for axis in contracted)
        inner = [product_flops(called) for called in _called_programs(equation)]
        if primitive == "cond":
            total += max(inner)
        else:
            times = equation.params["length"] if primitive == "scan" else 1
            total += times * sum(inner)
    return total


def _shape(variable: PyTree) -> tuple[int, ...]:
    return tuple(variable.aval.shape)


def _called_programs(equation: JaxprEqn) -> Iterator[Jaxpr]:
    for value in equation.params.values():
        for leaf in value if isinstance(value, tuple) else (value,):
            if isinstance(leaf, ClosedJaxpr):
                yield leaf.jaxpr
            elif isinstance(leaf, Jaxpr):
                yield leaf


def counted(
    config: ConfigDict,
    target: str,
    count: int,
    mode: str,
    tokens: int,
    length: int,
) -> dict[str, str | int | float]:
    """The figures of a config's step, by name."""
    before = time.monotonic()
    step = step_of(
        config,
        target,
        count,
        mode,
        tokens,
        length,
    )
    seconds = round(time.monotonic() - before, 1)
    text, memory = step.program.as_text(), step.program.memory_analysis()
    # The compilers of both targets give them.
    assert text is not None
    assert memory is not None
    arrays = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return {
        "model": config.model.name,
        "target": target,
        "devices": count,
        "mode": mode,
        "seeds": len(config.seeds),
        "rows": step.layout.row_count * count,
        "batches": step.batches,
        "segments": len(step.layout.sentences),
        "steps": sum(steps for steps, _ in step.layout.sentences),
        **vars(Hlo(text).counts()),
        "flops": step.flops,
        "memory_bytes": arrays - memory.alias_size_in_bytes + memory.temp_size_in_bytes,
        "compile_seconds": seconds,
    }


def define(values: cli.Flags) -> None:
    cli.define(values, config=None, mode=("train", "predict"), json=False)
    cli.define_numbers(values, least=8, tokens=1500)
    flags.DEFINE_enum("target", None, list(PACKAGES), "target", flag_values=values)
    flags.DEFINE_integer("devices", 1, "devices", 1, 4, flag_values=values)
    flags.DEFINE_integer("length", 64, "length", 0, 512, flag_values=values)


def main(values: cli.Flags) -> None:
    config = cli.config(values)
    target = str(cli.required_path(values, "target", "--target=h100 or --target=v5e"))
    try:
        version(PACKAGES[target])
    except PackageNotFoundError:
        problem = f"--target={target}: the package {PACKAGES[target]} is not installed"
        raise UsageError(problem, fix="pip install 'mednli_jax[aot]'") from None
    os.environ.update(TPU_HOST | os.environ)
    jax.config.update("jax_platforms", "cpu")
    figures = counted(
        config,
        target,
        values.devices,
        values.mode,
        values.tokens,
        values.length,
    )
    if values.json:
        print(json.dumps(figures))
    else:
        print(", ".join(f"{name} {_text(name, value)}" for name, value in figures.items()))


def _text(name: str, value: str | int | float) -> str:
    return f"{value:,}" if name in COUNTS else str(value)


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
