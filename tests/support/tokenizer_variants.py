"""Tokenizers as people keep them: variants of the files of golden_pieces.json.

golden/tokenizer_variants.json has the changes of these files (null removes one), and digests of the
rows that versions 4 and 5 of the Transformers library make of 35 pairs, null where it cannot."""

import hashlib
import json
from pathlib import Path
from typing import Any

from support.texts import pairs

GOLDEN = Path(__file__).parents[1] / "golden"
TABLE = GOLDEN / "tokenizer_variants.json"
VARIANTS = json.loads(TABLE.read_text())
TOKENIZER = "tokenizer.json"
Files = dict[str, str]


def changed(value: Any, change: Any) -> Any:
    """JSON with changes of some fields."""
    if not isinstance(value, dict) or not isinstance(change, dict) or "type" in change:
        return change
    return value | {name: changed(value.get(name), change[name]) for name in change}


def next_number(files: Files) -> int:
    """The number after those of a tokenizer's pieces."""
    if "vocab.txt" in files:
        return len(files["vocab.txt"].splitlines())
    if "vocab.json" in files:
        return len(json.loads(files["vocab.json"]))
    content = json.loads(files[TOKENIZER])
    added = [token["id"] for token in content["added_tokens"]]
    return max(len(content["model"]["vocab"]) - 1, *added) + 1


def files_of(name: str) -> Files:
    """The content of a variant's files. Numbers of added pieces follow those of the others."""
    variant = VARIANTS[name]
    tokenizers = json.loads((GOLDEN / "golden_pieces.json").read_text())
    files = dict(tokenizers[variant["files_of"]]["files"])
    size = next_number(files)
    for file, change in variant["changes"].items():
        if change is None:
            files.pop(file, None)
            continue
        if file == "added_tokens.json":
            change = {token: size + number for token, number in change.items()}
        if token_of := change.get("added_tokens_decoder"):
            numbers = {str(size + int(number)): token for number, token in token_of.items()}
            change = {**change, "added_tokens_decoder": numbers}
        files[file] = json.dumps(changed(json.loads(files.get(file, "{}")), change))
    return files


def write_variant(name: str, folder: Path) -> Path:
    """Writes the files of a variant."""
    for file, content in files_of(name).items():
        (folder / file).write_text(content)
    return folder


# ---- rows of pairs ----

Row = tuple[list[int], list[int]]  # numbers of pieces, types of texts


def texts() -> list[tuple[str, str]]:
    """35 pairs."""
    return pairs(35, seed=3)


def rows_of_library(folder: Path | str) -> list[Row]:
    """The rows of `texts` by AutoTokenizer."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    for pair in texts():
        row = tokenizer(*pair)
        numbers = row["input_ids"]
        rows.append((numbers, row.get("token_type_ids") or [0] * len(numbers)))
    return rows


def digest(rows: list[Row]) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]
