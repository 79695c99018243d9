"""The text of `--fields`: type, value and meaning of each config field. Meanings are the comments in defaults.py."""

import ast
import inspect
from collections.abc import Iterator

from ml_collections import config_dict

from mednli_jax import defaults

OF_HELPERS = {"_train": "train", "transformer": "model"}  # function of defaults.py -> the section that it returns
ALSO = {"diskne": ("nli",)}  # task -> tasks whose configs it derives from


def lines(config: config_dict.ConfigDict) -> Iterator[str]:
    """One line per field: its flag, type, value and meaning."""
    meanings = _meanings((*ALSO.get(config.task, ()), config.task))
    rows = []
    for name, owner, last in fields(config):
        kind = getattr(owner.get_type(last), "__name__", "")
        value = owner[last]
        rows.append((f"--config.{name}", kind, "" if value is None else repr(value), meanings.get(name, "")))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for *first, meaning in rows:
        yield "  ".join([*map(str.ljust, first, widths), meaning]).rstrip()


def fields(config: config_dict.ConfigDict, prefix: str = "") -> Iterator[tuple[str, config_dict.ConfigDict, str]]:
    """(name with its sections, the section, name within the section) of each field."""
    for name, value in config.items(preserve_field_references=True):
        if isinstance(value, config_dict.ConfigDict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", config, name


def _meanings(tasks) -> dict[str, str]:
    """{section.field: its comment}, from the functions of defaults.py that build the configs of these tasks."""
    source = inspect.getsource(defaults)
    text, found = source.splitlines(), {}
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    for name in (*OF_HELPERS, *tasks):
        for statement in ast.walk(functions[name]):
            call = getattr(statement, "value", None)
            if isinstance(statement, ast.Assign) and isinstance(call, ast.Constant | ast.Tuple):
                field = statement.targets[0]  # config.FIELD = VALUE
                comment = _comment(text, statement)
                if comment and isinstance(field, ast.Attribute) and getattr(field.value, "id", "") == "config":
                    found.setdefault(field.attr, comment)
            if not isinstance(call, ast.Call):
                continue
            if getattr(call.func, "id", "") == "_section":  # config.SECTION = _section(...), or return _section(...)
                target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            elif getattr(call.func, "attr", "") == "update":  # config.SECTION.update(...)
                target = call.func.value
            else:
                continue
            section = target.attr if isinstance(target, ast.Attribute) else OF_HELPERS.get(name, "")
            for given in call.keywords:
                if given.arg and (comment := _comment(text, given)):
                    found.setdefault(f"{section}.{given.arg}", comment)
    return found


def _comment(text, given) -> str:
    """The comment on the line of a field, else the comment lines above it, else ""."""
    line = text[given.value.end_lineno - 1]
    behind = line[given.value.end_col_offset :].partition("# ")[2]
    above = []
    for before in reversed(text[: given.lineno - 1]):
        if not before.strip().startswith("# "):
            break
        above.insert(0, before.strip()[2:])
    return behind.strip() or " ".join(above)
