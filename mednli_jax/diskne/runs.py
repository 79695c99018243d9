"""The runs of Alghanmi et al. 2021 (DisKnE).

Their folders are main/, table7/ and table8/. The paper has BERT with four pretrained weights; the
other systems are ours.
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from mednli_jax.report.paper import PaperRun, Settings
from mednli_jax.report.tables import published

MODELS: Sequence[str] = published("diskne")["models"]
STRONGEST = "ClinicalBERT"  # of Table 7
BERT_BASE: Settings = MappingProxyType(published("diskne")["sizes"])
MAIN, WORDINGS, RANDOM = "main", "table7", "table8"
FOLDERS = {number: {"7": WORDINGS, "8": RANDOM}.get(number, MAIN) for number in "12345678"}
BERT = PaperRun("BERT", "diskne_bert")
ESIM = PaperRun("ESIM", "diskne_esim")
OWN_SYSTEMS = (
    PaperRun("BOW", "diskne_bow"),
    ESIM,
    PaperRun("ESIM-KD", "diskne_esim_kd"),
    PaperRun("ESIM-hypothesis", "diskne_esim", {"data.hypothesis_only": True}),
)
RANDOM_NEGATIVES: Settings = MappingProxyType({"diskne.negatives": "random"})


def wordings() -> Iterator[tuple[str, Settings]]:
    """(name of a run, its settings) of Table 7: wordings of the hypothesis, with and without the
    premise."""
    for wording in ("full", "name"):
        settings: Settings = {"diskne.wording": wording}
        yield wording, settings
        yield f"hypothesis-{wording}", {**settings, "data.hypothesis_only": True}


def settings_of(folder: str, name: str) -> Settings:
    """The settings of the paper's run in a folder, beside those of its weights."""
    if folder == RANDOM:
        return RANDOM_NEGATIVES
    if folder == WORDINGS:
        return dict(wordings()).get(name, {})
    own = {run.name: run.settings for run in OWN_SYSTEMS}
    return own.get(name, {})
