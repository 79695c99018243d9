"""Herlihy & Rudinger 2021 (artefacts of MedNLI) for `reproduce`."""

from collections.abc import Iterator, Sequence

from mednli_jax.artifacts.runs import FILTERED, HYPOTHESIS, NAME, PAIR, PARTITIONS, REPORT
from mednli_jax.report.paper import PaperRun, Request, Step

CLASSIFIER = (1, 2, 6)  # numbers of tables
ANALYSES = (3, 4, 5, 6)
PARTITION = 6
STATE = "aflite.state.npz"  # of an interrupted filtering


class Artifacts:
    """See report.paper.Plan."""

    name = NAME
    numbers = (1, 2, 3, 4, 5, 6)
    seeds = ()

    def runs(self, request: Request) -> Sequence[PaperRun]:
        pair = [PAIR] if PARTITION in request.tables else []
        return [HYPOTHESIS, *pair] if set(CLASSIFIER) & set(request.tables) else []

    def steps(self, request: Request) -> Sequence[Step]:
        vectors = [
            f"--config.{field}={value}"
            for field, value in request.fields.items()
            if field.startswith("vectors.")
        ]
        shared = (f"--corpus={request.place}", f"--entities={request.entities}", *vectors)
        analyses = ("analyze", "all", *shared, *_spans(request), _out(request, REPORT))
        pair = FILTERED["pair"]
        filtering = ("analyze", "aflite", "--input=pair", *shared, *_spans(request))
        return [
            Step(REPORT, analyses, ANALYSES, state=f"analysis/{STATE}"),
            Step(
                pair,
                (*filtering, _out(request, pair)),
                (PARTITION,),
                state=f"analysis-pair/{STATE}",
            ),
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
    """The scores of the classifiers on the easy and the difficult part, entities merged."""
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
