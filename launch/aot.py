"""Compiles the step of a config for an accelerator that this machine does not have, and counts its
operations."""

import json
import math
import os
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

from absl import flags

from mednli_jax import cli
from mednli_jax.errors import UsageError
from mednli_jax.run import experiment_of

USAGE = """Compile the step of a config for an H100 or for v5e chips on any machine, and count its operations.

  python launch/aot.py --config=configs/infersent.py:mednli --config.train.batch_size=64 --target=h100
  python launch/aot.py --config=configs/esim.py:mednli --target=v5e --mode=predict
  python launch/aot.py --config=configs/esim.py:mednli --target=v5e --devices=4 --json
  python launch/aot.py --config=configs/ga_ent.py:clicr --config.seeds=0,1,2,3,4,5 --target=h100

  --config=FILE[:VARIANT]      a file of configs/; --config.FIELD=VALUE sets any field of it
  --target=h100|v5e            one H100, or v5e chips
  --devices=N                  chips of v5e, 1 to 4 (default 1)
  --mode=train|predict         the training step (default) or the prediction step
  --tokens=N                   tokens of a passage on average (1500), of readers
  --length=N                   word pieces of a pair (64; 0 = as MedNLI's), of bert
  --json                       one JSON object in a line

No data and no device is needed: the corpus is the synthetic one of the benchmark, with the lengths of MedNLI or CliCR.
The step is that of the layout which most batches of an epoch have.
All figures come from the compiler; none is measured. An operation in a loop counts once for each iteration:
  launches          operations that the device starts in one step
  cycles            the compiler's estimate (v5e); custom calls are not included
  bytes, flops      bytes read and written by all operations; FLOPs of the matrix products
  memory_bytes      memory of one device: arguments, results and work space
  all_reduce_bytes  results of all-reduces on one device (--devices)
  compile_seconds   on this machine; other programs make it longer
pip install 'mednli_jax[aot]' brings the compilers. Exit codes: 0 done, 2 bad input or usage, 3 interrupted."""

TARGETS, MODES = ("h100", "v5e"), ("train", "predict")
PACKAGES = {"h100": "jax-cuda12-plugin", "v5e": "libtpu"}  # package that compiles for the target
# Settings that libtpu reads from the host of a chip. This machine is no such host.
TPU_HOST = {
    "TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost", "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_MIN_LOG_LEVEL": "3", "TF_CPP_MIN_LOG_LEVEL": "3",
}  # fmt: skip
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


# -- the compiled program as text (HLO) --------------------------------------------------------------------------------

# Instructions for which the device launches nothing.
NO_LAUNCH = {
    "parameter", "tuple", "get-tuple-element", "bitcast", "constant", "partition-id", "replica-id", "after-all",
    "opt-barrier", "async-done", "copy-done", "all-reduce-done", "all-gather-done",
}  # fmt: skip
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
    """One line of a computation; kind: name of the operation; root: whether the computation returns
    it.

    Text: shape of the result; given, its operands or the value of a constant; rest, its attributes.
    """

    name: str
    shape: str
    kind: str
    given: str
    rest: str
    root: bool

    @cached_property
    def size(self) -> int:
        """Bytes of the result."""
        dims = (
            (kind, map(int, filter(None, text.split(","))))
            for kind, text in SHAPE.findall(self.shape)
        )
        return sum(BYTES.get(kind, 4) * math.prod(sizes) for kind, sizes in dims)

    @cached_property
    def operands(self) -> list[str]:
        return NAME.findall(self.given)

    def called(self, *names: str) -> str | None:
        """The computation that is the value of one of these attributes of the instruction."""
        found = re.search(rf"\b(?:{'|'.join(names)})=%?([\w.\-]+)", self.rest)
        return found and found[1]


def _closing(text: str, start: int = 0) -> int:
    """The index of the bracket that closes the bracket at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)


def _instruction(root, name, text) -> Instruction:
    shape_end = _closing(text) + 1 if text.startswith("(") else text.index(" ")
    shape, text = text[:shape_end], text[shape_end:].lstrip()
    begin = text.index("(")
    end = _closing(text, begin)
    return Instruction(
        name, shape, text[:begin], text[begin + 1 : end], text[end + 1 :], bool(root)
    )


class Hlo:
    """A compiled program: its computations by name, and the name of the entry computation."""

    def __init__(self, text: str):
        self.computations, self.entry, current = {}, "", None
        for line in text.splitlines():
            if head := HEAD.fullmatch(line):
                current = self.computations.setdefault(head[2], {})
                self.entry = head[2] if head[1] else self.entry
            elif line.startswith("}"):
                current = None
            elif current is not None and (match := INSTRUCTION.match(line)):
                each = _instruction(*match.groups())
                current[each.name] = each

    def trips(self, loop: Instruction) -> int:
        """The number of iterations of a loop, as the compiler states it.

        Without such a statement it is the number with which the condition compares the counter:
        scans count from 0.
        """
        if stated := re.search(r'known_trip_count":\{"n":"(\d+)"', loop.rest):
            return int(stated[1])
        return max(self._numbers(loop.called("condition")), default=1)

    def _numbers(self, computation):
        for each in self.computations[computation].values():
            if each.kind == "constant" and re.fullmatch(r"\d+", each.given):
                yield int(each.given)
            elif called := each.called("calls", "to_apply"):
                yield from self._numbers(called)

    def launched(self, computation: str = "", times: int = 1):
        """(instruction, the instructions of its computation, number of runs) for each launched
        operation.

        Only the first branch of a condition counts.
        """
        body = self.computations[computation or self.entry]
        for each in body.values():
            if each.kind == "while":
                yield from self.launched(each.called("body"), times * self.trips(each))
            elif each.kind == "conditional":
                yield from self.launched(
                    re.search(r"_computations?=\{?%?([\w.\-]+)", each.rest)[1], times
                )
            elif each.kind == "call" or (each.kind == "async-start" and each.called("calls")):
                yield from self.launched(each.called("to_apply", "calls"), times)
            elif each.kind not in NO_LAUNCH:
                yield each, body, times

    def moved(self, each: Instruction, body) -> int:
        """Bytes that an operation reads and writes. Slices, gathers and updates in place count used
        rows only."""
        sizes = [body[name].size for name in each.operands if name in body]
        if each.kind != "fusion":
            if each.kind in SLICES:
                return 2 * each.size
            if each.kind in UPDATES:
                return 2 * sizes[1]
            return each.size + sum(sizes)
        inside = self.computations[each.called("calls")]
        return sum(
            self._read(part, inside)
            if part.kind == "parameter"
            else self._written(part, inside) * part.root
            for part in inside.values()
        )

    def _read(self, parameter, inside) -> int:
        users = [part for part in inside.values() if parameter.name in part.operands]
        if any(
            user.kind not in SLICES + UPDATES or user.operands[0] != parameter.name
            for user in users
        ):
            return parameter.size
        return sum(user.size for user in users if user.kind in SLICES)

    def _written(self, part, inside) -> int:
        if part.kind in ("tuple", "bitcast"):
            return sum(self._written(inside[name], inside) for name in part.operands)
        return inside[part.operands[1]].size if part.kind in UPDATES else part.size

    def counts(self) -> dict:
        """launches, cycles, bytes and all_reduce_bytes of a step."""
        found = dict.fromkeys(("launches", "cycles", "bytes", "all_reduce_bytes"), 0)
        for each, body, times in self.launched():
            found["launches"] += times
            found["bytes"] += times * self.moved(each, body)
            if estimate := re.search(r'"estimated_cycles":"?(\d+)', each.rest):
                found["cycles"] += times * int(estimate[1])
            if each.kind.startswith("all-reduce"):
                found["all_reduce_bytes"] += times * each.size
        return found


# -- the step ----------------------------------------------------------------------------------------------------------


def described(target: str, count: int) -> list:
    """Descriptions of the target's devices, for the compiler."""
    from jax.experimental import topologies

    if target == "v5e":
        found = topologies.get_topology_desc("v5e:2x2x1", "tpu").devices
    else:
        found = topologies.get_topology_desc(
            "h100", "cuda", target_config=H100, topology="1x1x1"
        ).devices
    return list(found[:count])


def made_up(asked, config, tokens: int, length: int):
    """A synthetic prepared corpus with the lengths of the config's corpus, and links and features
    if the model has."""
    import numpy as np

    from mednli_jax.benchmarking import ours, workload

    if asked.model.entry.module is None:
        raise UsageError(
            f"the model '{asked.model.name}' is not a network and has no step",
            fix="give another config",
        )
    if asked.task.name == "cloze":
        work = workload.made_up_passages(QUERIES, tokens=tokens, dim=config.vectors.dim)
    elif asked.task.pieces:
        work = workload.made_up_pieces(PAIRS, length=length)
    else:
        work = workload.made_up_pairs(PAIRS, dim=config.vectors.dim)
    prepared = ours.prepared_of(work)
    rng, rows = np.random.default_rng(0), len(work.premise_of)
    if config.model.get("knowledge", "none") != "none":
        most = {side: work.arrays[f"{side}_length"][:, None] for side in ("premise", "hypothesis")}
        for side, size in most.items():
            prepared.arrays[f"link_{side}"] = (rng.random((rows, LINKS)) * size).astype(np.int16)
        prepared.arrays["link_distance"] = rng.integers(0, LONGEST_PATH + 1, (rows, LINKS)).astype(
            np.int16
        )
        prepared.manifest["knowledge"]["longest_path"] = LONGEST_PATH
    if "pieces" in prepared.manifest:
        prepared.manifest["pieces"]["mask"] = workload.FIRST_PIECE
    return prepared


def step_of(config, target: str, count: int, mode: str, tokens: int, length: int):
    """The compiled step of a config: (layout, batches of an epoch that have it, Compiled,
    FLOPs)."""
    import jax

    from mednli_jax.nli.task import NLITask
    from mednli_jax.training import state
    from mednli_jax.training.devices import Devices

    class Described(Devices):
        """Devices whose arrays are only shapes."""

        def replicate(self, tree):
            return jax.tree.map(
                lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._shared), tree
            )

        def split(self, index):
            return jax.eval_shape(lambda x: x, super().split(index))

        def map(self, body, **how):
            mapped = super().map(body, **how)

            def lower(*given):
                self.flops = product_flops(jax.make_jaxpr(mapped)(*given).jaxpr)
                return mapped.lower(*given)

            return SimpleNamespace(lower=lower)

    asked = experiment_of(config)
    if config.task == "diskne":  # DisKnE: the step of a slot is the step of sentence pairs
        asked = replace(asked, task=NLITask(asked.task.pieces, asked.task.padded_length))
    devices = Described(described(target, count))
    program, batches = asked.program(made_up(asked, config, tokens, length), devices=devices)
    plan = batches["train"].epoch(1, asked.seeds) if mode == "train" else batches["dev"].once()
    ((layout, times),) = Counter(layout for layout, _ in plan).most_common(1)
    index = dict(reversed(plan))[layout]

    def learner_of(data, frozen, rows):
        batch = program.task.to_batch(data, rows, layout)
        return state.init_learner(program.model, program.optimizer, asked.seeds, batch, frozen)

    rows = jax.ShapeDtypeStruct((layout.units, layout.group), "int32")
    learner = devices.replicate(jax.eval_shape(learner_of, program.data, program.frozen, rows))
    if mode == "train":
        compiled = program.train_body(layout, learner, index)
    else:
        compiled = program.predict_body(layout, learner.variables, index)
    return layout, times, compiled, devices.flops


def product_flops(jaxpr) -> int:
    """FLOPs of all matrix products of a traced program on one device; products in a scan count once
    per iteration."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += (
                2
                * math.prod(equation.outvars[0].aval.shape)
                * math.prod(left[axis] for axis in contracted)
            )
        given = equation.params.values()
        inner = (
            leaf for value in given for leaf in (value if isinstance(value, tuple) else (value,))
        )
        found = [
            product_flops(each)
            for leaf in inner
            if hasattr(each := getattr(leaf, "jaxpr", leaf), "eqns")
        ]
        many = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += many * (max(found, default=0) if equation.primitive.name == "cond" else sum(found))
    return total


def counted(config, target: str, count: int, mode: str, tokens: int, length: int) -> dict:
    """The figures of a config's step."""
    before = time.monotonic()
    layout, times, compiled, flops = step_of(config, target, count, mode, tokens, length)
    seconds, memory = round(time.monotonic() - before, 1), compiled.memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return {
        "model": config.model.name, "target": target, "devices": count, "mode": mode, "seeds": len(config.seeds),
        "rows": layout.rows * count, "batches": times, "segments": len(layout.sentences),
        "steps": sum(steps for steps, _ in layout.sentences),
        **Hlo(compiled.as_text()).counts(), "flops": flops, "memory_bytes": held + memory.temp_size_in_bytes,
        "compile_seconds": seconds,
    }  # fmt: skip


def define(values: cli.Flags) -> None:
    cli.define(values, config=None)
    flags.DEFINE_enum("target", None, TARGETS, "device", flag_values=values)
    flags.DEFINE_enum("mode", "train", MODES, "step", flag_values=values)
    flags.DEFINE_integer("devices", 1, "chips", lower_bound=1, upper_bound=4, flag_values=values)
    flags.DEFINE_integer("tokens", 1500, "of a passage", lower_bound=8, flag_values=values)
    flags.DEFINE_integer(
        "length", 64, "of a pair", lower_bound=0, upper_bound=512, flag_values=values
    )
    flags.DEFINE_bool("json", False, "print JSON", flag_values=values)


def main(values: cli.Flags) -> None:
    config, target = (
        cli.config(values),
        cli.required(values, "target", "--target=h100 or --target=v5e"),
    )
    try:
        version(PACKAGES[target])
    except PackageNotFoundError:
        problem = f"--target={target}: the package {PACKAGES[target]} is not installed"
        raise UsageError(f"{problem}. Fix: pip install 'mednli_jax[aot]'") from None
    os.environ.update({name: value for name, value in TPU_HOST.items() if name not in os.environ})
    import jax

    jax.config.update("jax_platforms", "cpu")
    found = counted(config, target, values.devices, values.mode, values.tokens, values.length)
    if values.json:
        print(json.dumps(found))
    else:
        print(
            ", ".join(
                f"{name} {value:,}" if name in COUNTS else f"{name} {value}"
                for name, value in found.items()
            )
        )


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
