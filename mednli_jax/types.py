"""Types of values whose content no class describes: JSON and trees of arrays."""

from typing import Any

Json = Any  # a JSON value
JsonObject = dict[str, Json]
PyTree = Any  # nested containers of arrays, as jax.tree takes them
FieldValue = bool | int | float | str | tuple | None  # of a field of a config
