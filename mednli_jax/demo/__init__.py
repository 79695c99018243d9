"""The bundled demo corpora: rows free of any patient record, with which every command runs without
credentials.

The data files beside this module have the layouts of MedNLI, CliCR and DisKnE; the task folders
read them. docs/data.md describes the rows and how they were made. facts.json has the facts of each
split for the manifest, and the diseases of the benchmark.
"""

import json
from pathlib import Path

from mednli_jax.types import Json

FOLDER = Path(__file__).parent
SIZES = ("demo", "demo_full")  # of the pairs; demo_full has the counts of MedNLI


def facts(name: str) -> dict[str, Json]:
    """The facts of a demo corpus, which is a folder beside this module."""
    corpora: dict[str, dict[str, Json]] = json.loads((FOLDER / "facts.json").read_text("utf-8"))
    return corpora[name]


def demo_files(name: str) -> list[Path]:
    """The files of a demo corpus."""
    return [*sorted((FOLDER / name).iterdir()), FOLDER / "facts.json"]
