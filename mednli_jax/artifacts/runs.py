"""The runs and files of Herlihy & Rudinger 2021 (artefacts of MedNLI), and its plan for
`reproduce`."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mednli_jax.report.options import PaperRun, Request, Settings, Step

NAME = "artifacts"
SPLITS = ("dev", "test")
# The classifiers train their own vectors.
OWN_VECTORS: Settings = MappingProxyType({"vectors.path": "", "vectors.dim": 1})
HYPOTHESIS = PaperRun("hypothesis", "hypothesis_only", OWN_VECTORS)
PAIR = PaperRun("pair", "premise_hypothesis_fasttext", OWN_VECTORS)
RUNS: Mapping[str, PaperRun] = MappingProxyType({run.name: run for run in (HYPOTHESIS, PAIR)})
INPUTS = {HYPOTHESIS.name: "no premise", PAIR.name: "with premise"}
REPORT = "analysis/report.html"
FILTERED = {HYPOTHESIS.name: "analysis/aflite.json", PAIR.name: "analysis-pair/aflite.json"}


class PartitionScores(NamedTuple):
    """The scores of a run on the partitions of a split."""

    input: str
    split: str


PARTITIONS = {
    PartitionScores(name, split): f"partition-{name}-{split}.json"
    for split in SPLITS
    for name in RUNS
}
CLASSIFIER = (1, 2, 6)  # numbers of tables
ANALYSES = (3, 4, 5, 6)
PARTITION = 6
OF_TEXTS = ("data.", "knowledge.", "vectors.")  # sections of a config that analyses read


class Artifacts:
    """The plan of the paper's reproduction, see report.options.ReproductionPlan."""

    name = NAME
    numbers = (1, 2, 3, 4, 5, 6)
    seeds = ()

    def runs(self, request: Request) -> Sequence[PaperRun]:
        pair = [PAIR] if PARTITION in request.tables else []
        return [HYPOTHESIS, *pair] if set(CLASSIFIER) & set(request.tables) else []

    def steps(self, request: Request) -> Sequence[Step]:
        fields = []
        for field, value in request.fields.items():
            if field.startswith(OF_TEXTS):
                fields.append(f"--config.{field}={value}")
        shared = (f"--corpus={request.place}", f"--entities={request.entities}", *fields)
        analyses = ("analyze", "all", *shared, *_spans(request), _out(request, REPORT))
        pair = FILTERED["pair"]
        filtering = ("analyze", "aflite", "--input=pair", *shared, *_spans(request))
        return [
            Step(REPORT, analyses, ANALYSES),
            Step(pair, (*filtering, _out(request, pair)), (PARTITION,)),
            *_partitions(request),
        ]

    def tables(self, request: Request) -> Sequence[str]:
        return [NAME]

    def notes(self, request: Request) -> Sequence[str]:
        return []


PLAN = Artifacts()


def _spans(request: Request) -> list[str]:
    return [f"--spans={request.mentions}"] if request.mentions else []


def _out(request: Request, file: str) -> str:
    return f"--out={(request.folder / file).parent}"


def _partitions(request: Request) -> Iterator[Step]:
    """Yields the steps that score the classifiers on the easy and the difficult partition, entities
    merged."""
    for name, file in PARTITIONS.items():
        filtered = FILTERED[name.input]
        after = REPORT if name.input == HYPOTHESIS.name else filtered
        lists = (request.folder / filtered).parent
        words = (
            "evaluate",
            f"--run={request.folder / name.input}",
            f"--split={name.split}",
            "--json",
            "--merged",
            *_spans(request),
            f"--partition={lists / 'easy.txt'},{lists / 'difficult.txt'}",
        )
        yield Step(file, words, (PARTITION,), after=(name.input, after), prints=True)
