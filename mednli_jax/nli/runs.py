"""The runs of Romanov & Shivade 2018 (MedNLI)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from mednli_jax.report.paper import PaperRun, Settings

MODELS = ("bow", "infersent", "esim")
GENRES = ("fiction", "government", "slate", "telephone", "travel")
SEEDS = (0, 1, 2, 3, 4, 5)  # the paper's figures are means of six runs
# The fastText classifier trains its own vectors.
OWN_VECTORS: Settings = MappingProxyType({"vectors.path": "", "vectors.dim": 1})
# Sources of transfer have MedNLI's seeds, and its batches as in the published code.
SOURCE: Settings = MappingProxyType({"seeds": SEEDS, "train.batch_size": 512, "train.group": 1})
RETROFIT: Settings = MappingProxyType({"vectors.retrofit": "ontology"})
# Names of files of vectors: ours, then the authors'.
VECTORS = (
    ("fasttext-wiki", "wiki.en"),
    ("fasttext-cc", "crawl-300d-2M"),
    ("fasttext-bioasq",),
    ("fasttext-mimic",),
    ("glove-bioasq",),
    ("glove-bioasq-mimic",),
    ("wiki-mimic",),
)
MIMIC = ("fasttext-mimic",)
STATS, PATHS, SNLI_PATHS = "corpus/stats.json", "corpus/paths.json", "snli/paths.json"
KINDS = "categories.json"


def _systems() -> Iterator[PaperRun]:
    """Table 3, and the classifier of hypotheses alone of section 7."""
    yield PaperRun("features", "features")
    yield PaperRun("hypothesis", "hypothesis_only", OWN_VECTORS)
    for model in MODELS:
        yield PaperRun(model, model)


def _transfer() -> Iterator[PaperRun]:
    """Table 4: SNLI and the genres of MultiNLI as sources."""
    for model in MODELS:
        for domain in ("snli", *GENRES):
            corpus = domain if domain == "snli" else f"multinli/{domain}"
            source = f"source-{domain}-{model}"
            yield PaperRun(source, model, SOURCE, corpus)
            yield PaperRun(f"{domain}-direct-{model}", model, init_from=source, direct=True)
            yield PaperRun(f"{domain}-sequential-{model}", model, init_from=source)
            private = {"transfer.private": True}
            yield PaperRun(f"{domain}-multi-{model}", model, private, init_from=source)


def _vectors() -> Iterator[PaperRun]:
    """Table 5."""
    for names in VECTORS:
        for model in MODELS:
            yield PaperRun(f"vectors-{names[0]}-{model}", model, vectors=names)


def _retrofitting() -> Iterator[PaperRun]:
    """Table 6: retrofitting of concepts as in the paper, retrofitting of words, and, as `unit`,
    vectors of length 1 without retrofitting. Section 5.4.1: words of MultiNLI's fiction."""
    for model in MODELS:
        yield PaperRun(f"concepts-{model}", model, {"vectors.retrofit": "concepts"})
        yield PaperRun(f"retrofit-{model}", model, RETROFIT)
        yield PaperRun(f"unit-{model}", model, {"vectors.retrofit": "unit"})
    wordnet = {**SOURCE, **RETROFIT, "knowledge.ontology": "wordnet"}
    yield PaperRun("fiction-retrofit-infersent", "infersent", wordnet, "multinli/fiction")


def _attention() -> Iterator[PaperRun]:
    """Table 7: attention by knowledge, with the vectors of the config and with those of
    MIMIC-III."""
    for knowledge in ("replace", "bias"):
        settings = {"model.knowledge": knowledge}
        is_ours = knowledge == "bias"  # the paper has `replace`
        for model in MODELS:
            run = PaperRun(f"{knowledge}-{model}", model, settings, optional=is_ours)
            yield run
            yield replace(run, name=f"mimic-{run.name}", vectors=MIMIC)


RUNS: Mapping[str, PaperRun] = MappingProxyType(
    {
        run.name: run
        for part in (_systems, _transfer, _vectors, _retrofitting, _attention)
        for run in part()
    }
)
