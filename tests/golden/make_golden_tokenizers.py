"""Records in tokenizer_variants.json the rows that the installed Transformers library makes.

python tests/golden/make_golden_tokenizers.py        (needs transformers, version 4 or 5)
"""

import json
import sys
import tempfile
from pathlib import Path

import transformers

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.tokenizer_variants import (
    TABLE,
    VARIANTS,
    digest,
    rows_of_library,
    write_variant,
)


def main():
    version = transformers.__version__.partition(".")[0]
    lines = []
    for name, variant in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            write_variant(name, Path(folder))
            try:
                variant["rows"][version] = digest(rows_of_library(folder))
            except Exception:  # of many types
                variant["rows"][version] = None
        lines.append(f" {json.dumps(name)}: {json.dumps(variant, ensure_ascii=False)}")
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
