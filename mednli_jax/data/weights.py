"""Finds pretrained weights: a folder, a file, or an installed package that contains them."""

import re
from importlib import metadata
from pathlib import Path

from mednli_jax.errors import ConfigError

CONFIGS = ("config.json", "bert_config.json")
WEIGHTS = "model.safetensors"


def find_weights(name: str | Path) -> Path:
    """The folder or file of some weights: a path, or the name of an installed package that contains them.

    The package is not imported. Raises: ConfigError.
    """
    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(name)):
            raise metadata.PackageNotFoundError
        distribution = metadata.distribution(str(name))
    except metadata.PackageNotFoundError:
        problem = f"{path.name}: no such folder or file, and no such package is installed."
        fix = f"name the folder of a BERT model ({CONFIGS[0]}, {WEIGHTS}, vocab.txt)"
        raise ConfigError(f"{problem} Fix: {fix}.") from None
    files = (Path(distribution.locate_file(file)) for file in distribution.files or () if file.name.endswith(WEIGHTS))
    folders = sorted({file.parent for file in files if any((file.parent / name).is_file() for name in CONFIGS)})
    if len(folders) != 1:
        problem = f"package {name}: it contains {len(folders) or 'no'} folders with {CONFIGS[0]} and {WEIGHTS}"
        raise ConfigError(f"{problem}. Fix: name the folder of the weights.")
    return folders[0]
