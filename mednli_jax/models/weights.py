"""Reads and writes weights of encoders in the format of the Transformers library: config.json and
safetensors.

Other formats are not read, because they hold programs (pickle) that reading would run. Every weight
is checked: one error lists all weights that are missing, have another shape or are unknown to the
family (models.families).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from flax import traverse_util
from safetensors import SafetensorError, safe_open

from mednli_jax.errors import DataError, UserError
from mednli_jax.models import families
from mednli_jax.models.batch import PairBatch
from mednli_jax.models.encoder import Encoder
from mednli_jax.models.families import Config, Fields
from mednli_jax.types import PyTree

CONFIGS = (families.CONFIG, "bert_config.json")
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # names the files of weights that are in several
ADAPTER = "adapter_config.json"  # of peft, beside weights that are added to those of another folder
POOLER = ("pooler", "head_norm")  # the modules between the encoder and the classifier
NAMED = 8  # most weights that an error lists
FLOATS = ("F64", "F32", "F16", "BF16")  # the types of numbers that are read
# numbers in old files; and positions that files of DeBERTa may have and its models do not read
_IGNORED = re.compile(
    r"embeddings\.((position|token_type)_ids|position_embeddings\.)|.*rotary_emb\.inv_freq"
)
# the last layers of language models, which are the embeddings of pieces
_TIED = (
    "cls.predictions.decoder.weight",
    "lm_head.decoder.weight",
    "generator_lm_head.weight",
    "decoder.weight",
)
_COPY = "copy the file again from where the weights came from"

Place = tuple[str, ...]  # the path of a parameter
Leaves = dict[Place, np.ndarray]  # parameters by their paths
Params = dict[str, "np.ndarray | Params"]
Sources = dict[Place, tuple[str, ...]]  # the tensors that a parameter consists of


class Loaded(NamedTuple):
    """The parameters of an encoder, with pretrained weights.

    Args:
      unused: names of weights in the file that belong to other heads.
      drawn: layers that keep their random values, because the file lacks them.
      warning: names the head that is not used, or "".
    """

    params: Params
    unused: list[str]
    drawn: list[str]
    warning: str


class Tensors(NamedTuple):
    """The tensors of weights, by their names without prefixes.

    Attributes:
      arrays: float32.
      other_types: name -> type, of tensors that are not read.
      prefixes: of the encoder's names in the files.
    """

    arrays: dict[str, np.ndarray]
    other_types: dict[str, str]
    prefixes: set[str]


def read_architecture(path: str | Path) -> Fields:
    """Reads the fields of Encoder that pretrained weights set, see `read_config`."""
    return families.fields_of(read_config(path))


def read_config(path: str | Path) -> Config:
    """Reads the config.json of weights, from a folder or from beside a safetensors file."""
    for name in CONFIGS:
        config = _folder(path) / name
        if config.is_file():
            content = _json(config)
            families.named_family(content)  # first, as other families' weights have other files
            weight_files(path)
            labels = content.get("id2label") or {}
            if isinstance(labels, dict) and all(map(str.isdigit, labels)):
                return content
            problem = "'id2label' does not give the numbers of classes their labels"
            raise DataError(problem, file=name, fix='write {"0": LABEL, "1": LABEL, ...}')
    fix = f"put it beside {weight_files(path)[0].name}"
    raise DataError("no such file", file=families.CONFIG, fix=fix)


def load_weights(
    path: str | Path, params: Params, *, labels: Sequence[str] = (), stacked: bool = False
) -> Loaded:
    """Loads pretrained weights into the parameters of an Encoder.

    The links keep their initial values, and so does the classifier, unless the weights have one for
    the labels.

    Args:
      params: nested parameters of Encoder.
      labels: of the logits.
      stacked: whether leaves have a leading axis [S, ...] of seeds, which all start from the same
        weights.
    """
    config = read_config(path)
    family = families.named_family(config)
    files = weight_files(path)
    leaves: Leaves = traverse_util.flatten_dict(params)
    if leaves["logits", "bias"].shape[-1] != len(labels):
        labels = ()
    encoder = sources_of(leaves, family.encoder)
    tensors = _read_tensors(files, encoder, family.prefix)
    sources = encoder | sources_of(leaves, family.outside)
    head, theirs = sources_of(leaves, family.head), labels_of(config)
    has_head = _names(head) <= tensors.arrays.keys()
    order = _order(theirs, labels) if has_head else []
    if order:
        sources |= head
    drawn = []
    pooler = {place: names for place, names in sources.items() if place[0] in POOLER}
    if _names(pooler).isdisjoint(tensors.arrays):
        drawn.append("pooler")
        sources = {place: names for place, names in sources.items() if place not in pooler}
    merged = leaves | _fit(tensors, sources, leaves, stacked=stacked, file=files[0].name)
    for leaf in ("kernel", "bias") if order else ():
        merged["logits", leaf] = merged["logits", leaf][..., order]
    unused = sorted(tensors.arrays.keys() - _names(sources))
    sizes = ((len(theirs),), (len(labels),))
    heads = []
    for name in unused:
        if tensors.arrays[name].shape[:-1] in sizes and "seq_relationship" not in name:
            heads.append(name)
    warning = ""
    if heads and labels and not order:
        warning = (
            f"the weights have {_list(heads)} for the labels {', '.join(theirs)}, and the model "
            f"{head['logits', 'kernel'][0]} for {', '.join(labels)}: a new classifier is trained"
        )
    return Loaded(traverse_util.unflatten_dict(merged), unused, drawn, warning)


def labels_of(config: Config) -> list[str]:
    """The labels of a config.json, in the order of the logits."""
    labels = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    return [str(labels[number]) for number in sorted(labels, key=int)]


def description(path: str | Path) -> str:
    """Describes the architecture of weights and their number. Raises the errors of
    `load_weights`."""
    config = read_config(path)
    fields = families.fields_of(config)
    params = _shapes(Encoder(**fields))
    load_weights(path, params)
    numbers = sum(map(np.size, jax.tree.leaves(params)))
    return (
        f"{families.named_family(config).model_type}, {fields['layers']} layers of "
        f"{fields['hidden_size']}, {fields['vocab_size']:,} pieces, {numbers / 1e6:.1f} million "
        f"numbers in {len(weight_files(path))} files"
    )


def _shapes(model: Encoder) -> Params:
    """The parameters of a model as shapes and number types."""
    piece_BT, length_B = jnp.ones((1, 1), int), jnp.ones(1, int)
    batch = PairBatch(piece_BT, length_B, piece_BT, length_B, mask=length_B)
    variables = jax.eval_shape(partial(model.init, train=False), jax.random.key(0), batch)
    return cast(Params, variables["params"])


def exported_files(model: Encoder, params: Params, labels: Sequence[str]) -> dict[str, bytes]:
    """The content of config.json and of model.safetensors of an encoder, without its links.

    labels: of the logits.
    """
    fields = vars(model)
    family = families.family_of(fields)
    leaves: Leaves = traverse_util.flatten_dict(params)
    inside = sources_of(leaves, family.encoder)
    outside = sources_of(leaves, {**family.outside, **family.head})
    tensors = {}
    for place, names in (inside | outside).items():
        prefix = family.prefix if place in inside else ""
        for name, weight in zip(
            names, np.split(np.asarray(leaves[place]), len(names), axis=-1), strict=True
        ):
            array = weight.T if place[-1] == "kernel" else weight
            tensors[prefix + name] = np.ascontiguousarray(array, np.float32)
    config = families.config_of(fields, labels)
    return {
        families.CONFIG: json.dumps(config, indent=1).encode() + b"\n",
        WEIGHTS: safetensors.numpy.save(tensors, {"format": "pt"}),
    }


def _order(theirs: Sequence[str], ours: Sequence[str]) -> list[int]:
    """The place of each of our labels among theirs; [] if they are not the same labels."""
    lowered, wanted = list(map(str.casefold, theirs)), list(map(str.casefold, ours))
    return list(map(lowered.index, wanted)) if sorted(lowered) == sorted(wanted) else []


def sources_of(places: Iterable[Place], modules: Mapping[str, str]) -> Sources:
    """The sources of each parameter of these modules (see models.families)."""
    sources: Sources = {}
    for place in places:
        path = "/".join(place)
        layer = re.match(r"layer_(\d+)/", path)
        path = re.sub(r"^layer_\d+/", "layer_#/", path)
        module, _, leaf = path.rpartition("/")
        theirs = modules.get(path) or modules.get(module)
        if theirs is None:
            continue
        theirs = theirs.replace("#", layer[1] if layer else "")
        ending = "bias" if leaf == "bias" else "weight"
        before, _, alternatives = theirs.partition("{")
        names = alternatives.rstrip("}").split(",")
        sources[place] = tuple(f"{before}{name}.{ending}" for name in names)
    return sources


def _folder(path: str | Path) -> Path:
    """The folder of weights. path: the folder or a file in it."""
    path = Path(path)
    return path if path.is_dir() else path.parent


def weight_files(path: str | Path) -> list[Path]:
    """The safetensors files of a path, which is one of these files or their folder."""
    path = Path(path)
    fix = "name the one file of the weights; transformers' save_pretrained converts others"
    if (_folder(path) / ADAPTER).is_file():
        problem = f"{path.name}: an adapter ({ADAPTER}), which changes other weights"
        raise UserError(problem, fix="merge it into them: peft's merge_and_unload, save_pretrained")
    if not path.is_dir():
        if path.suffix == ".safetensors":
            return [path]
        problem = f"{path.name}: only safetensors are read, other formats can run programs"
        raise UserError(problem, fix="convert them by transformers' save_pretrained")
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    if (path / INDEX).is_file():
        shards = _json(path / INDEX).get("weight_map", {})
        files = [path / name for name in sorted(set(shards.values()))]
        missing = [file.name for file in files if not file.is_file()]
        if not files or missing:
            problem = f"names files that are not there: {', '.join(missing) or 'none'}"
            raise DataError(problem, file=INDEX, fix=_COPY)
        return files
    files = sorted(path.glob("*.safetensors"))
    if len(files) == 1:
        return files
    holds = f"{len(files)} files .safetensors and no {INDEX}" if files else f"no {WEIGHTS}"
    if checkpoints := sorted(path.glob("checkpoint-*/")):
        holds += ", and checkpoints of a training"
        fix = f"name one of them, e.g. {path / checkpoints[-1].name}"
    raise UserError(f"{path.name}: the folder holds {holds}", fix=fix)


def _json(path: Path) -> Config:
    """Reads the object of a JSON file."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (TypeError, ValueError):
        raise DataError("not a JSON object", file=path.name, fix=_COPY) from None


def _read_tensors(files: Sequence[Path], encoder: Sources, prefix: str) -> Tensors:
    """Reads the tensors of files. prefix: of the encoder's names in a model with a head.

    Programs of training add a prefix to all names, such as `base_model.model.` and `_orig_mod.`.
    """
    tensors = Tensors({}, {}, set())
    for file in files:
        try:
            _read_file(file, tensors)
        except (OSError, SafetensorError):  # the library's message may quote bytes of the file
            problem = "the weights are damaged or cut short"
            raise DataError(problem, file=file.name, fix=_COPY) from None
    full_name = re.compile(rf"(.*\.|)(?:{'|'.join(map(re.escape, _names(encoder)))})")
    for match in filter(None, map(full_name.fullmatch, tensors.arrays | tensors.other_types)):
        tensors.prefixes.add(match[1])
    wrappers = {before.removesuffix(prefix) for before in tensors.prefixes}
    wrapper = wrappers.pop() if len(wrappers) == 1 else ""
    both: tuple[PyTree, ...] = (tensors.arrays, tensors.other_types)
    for contents in both:
        for name in list(contents):
            contents[name.removeprefix(wrapper).removeprefix(prefix)] = contents.pop(name)
    (words,) = encoder["embeddings", "words"]
    for name in _TIED:
        if name in tensors.arrays:
            tensors.arrays.setdefault(words, tensors.arrays.pop(name))
    return tensors


def _read_file(file: Path, tensors: Tensors) -> None:
    """Adds the tensors of a file under their full names."""
    with safe_open(file, framework="numpy") as content:
        for full_name in content.keys():  # noqa: SIM118 - not a mapping
            name = full_name.replace("LayerNorm.gamma", "LayerNorm.weight")
            name = name.replace("LayerNorm.beta", "LayerNorm.bias")
            number_type = content.get_slice(full_name).get_dtype()
            if number_type not in FLOATS:
                tensors.other_types[name] = number_type
                continue
            tensors.arrays[name] = content.get_tensor(full_name).astype(np.float32)


def _fit(
    tensors: Tensors,
    sources: Sources,
    leaves: Leaves,
    *,
    stacked: bool,
    file: str,
) -> Leaves:
    """Fits the tensors to the parameters. Raises one UserError that names all tensors which do not
    fit."""
    fitted, missing, misshaped = {}, [], []
    unreadable = [name for name in sorted(_names(sources)) if name in tensors.other_types]
    if unreadable:
        number_type = tensors.other_types[unreadable[0]]
        problem = f"{len(unreadable)} weights are of type {number_type}: {_list(unreadable)}"
        fix = "give weights of float32, float16 or bfloat16 (save_pretrained of a loaded model)"
        raise DataError(problem, file=file, fix=fix)
    for place, names in sources.items():
        shape = leaves[place].shape[1 if stacked else 0 :]
        weight_shape = (*shape[:-1], shape[-1] // len(names))
        is_kernel = place[-1] == "kernel"
        their_shape = weight_shape[::-1] if is_kernel else weight_shape
        weights = []
        for name in names:
            array = tensors.arrays.get(name)
            if array is None:
                missing.append(name)
            elif array.shape != their_shape:
                sizes = ("x".join(map(str, size)) for size in (array.shape, their_shape))
                misshaped.append("{} ({} in the file, {} in the model)".format(name, *sizes))
            else:
                weights.append(array.T if is_kernel else array)
        if len(weights) == len(names):
            array = np.broadcast_to(np.concatenate(weights, axis=-1), leaves[place].shape)
            fitted[place] = np.ascontiguousarray(array).astype(leaves[place].dtype)
    modules = {f"{name.partition('.')[0]}." for name in _names(sources)}
    unknown = [
        name
        for name in sorted(tensors.arrays.keys() - _names(sources))
        if name.startswith(tuple(modules)) and not _IGNORED.match(name)
    ]
    faults = (("missing", missing), ("of another shape", misshaped), ("unknown", unknown))
    problems = [f"{len(names)} {kind}: {_list(names)}" for kind, names in faults if names]
    if problems:
        prefixes = " ".join(sorted(filter(None, tensors.prefixes))) or "none"
        problem = "its weights do not fit the model; " + ". ".join(problems)
        fix = "give the model the sizes of the config.json beside the weights, or other weights"
        raise UserError(f"{file}: {problem} (prefixes in the file: {prefixes})", fix=fix)
    return fitted


def _names(sources: Sources) -> set[str]:
    """The names of all tensors of the sources."""
    return {name for names in sources.values() for name in names}


def _list(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
