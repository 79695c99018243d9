"""A table of models and kinds of knowledge, with and without retrofitting, from the runs of mednli.sh.

python launch/knowledge_table.py runs/mednli
"""

import json
import sys
from pathlib import Path

SLICE = "unseen_relation"


def cell(folder: Path) -> str:
    """Test accuracy and accuracy of the slice, if it has one, in %; the status of an incomplete run."""
    path = folder / "result.json"
    result = json.loads(path.read_text()) if path.is_file() else {"status": "missing"}
    if result["status"] != "complete":
        return result["status"]
    test = result["test"]
    parts = [test, test["slices"][SLICE]] if SLICE in test.get("slices", {}) else [test]
    return " / ".join(f"{100 * part['accuracy']['mean']:.1f}" for part in parts)


def main(folder: str) -> None:
    models = ("bow", "infersent", "esim")
    print("| knowledge | " + " | ".join(models) + " |")
    print("| --- |" + " --- |" * len(models))
    for knowledge in ("none", "replace", "bias"):
        own = "" if knowledge == "none" else f"{knowledge}-"
        for title, prefix in ((knowledge, own), (f"{knowledge}, retrofitted", f"retrofit-{own}")):
            cells = [cell(Path(folder) / f"{prefix}{model}") for model in models]
            if set(cells) != {"missing"}:  # most rows are optional
                print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
