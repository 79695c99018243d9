"""Romanov & Shivade 2018 (MedNLI) for `reproduce`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mednli_jax.nli import reproduction
from mednli_jax.nli.analyses import concepts_key
from mednli_jax.nli.runs import KINDS, MODELS, PATHS, RUNS, SEEDS, SNLI_PATHS, STATS, VECTORS
from mednli_jax.nli.tables import TABLES, Table, own_corpus
from mednli_jax.report.paper import ENDINGS, PaperRun, Request, Settings, Step

STATISTICS, VECTORS_TABLE, ERRORS = 2, 5, 8  # numbers of tables
FICTION = "fiction-retrofit-infersent"  # section 5.4.1
WHOLE_SENTENCES: Settings = {"data.max_length": (1 << 15) - 1}
# The paths between senses that section 5.4.1 speaks of.
PATHS_OF_SENSES: Settings = {
    **WHOLE_SENTENCES,
    "knowledge.direction": "undirected",
    "knowledge.max_path": 0,
}


class MedNLI:
    """See report.paper.Plan."""

    name = "mednli"
    numbers = (STATISTICS, *TABLES, ERRORS)
    seeds = SEEDS

    def runs(self, request: Request) -> Sequence[PaperRun]:
        names = set(MODELS) if ERRORS in request.tables else set()
        for number in TABLES.keys() & set(request.tables):
            names.update(_names(TABLES[number], request))
        names.update([RUNS[name].init_from for name in names])
        runs = [_adapted(run, request) for run in RUNS.values() if run.name in names]
        return [*runs, *(_further_vectors(request) if VECTORS_TABLE in request.tables else ())]

    def steps(self, request: Request) -> Sequence[Step]:
        steps = [_analysis("stats", STATS, request)]
        paths = _analysis("paths", PATHS, request)
        steps.append(replace(paths, key=concepts_key))
        if _is_mednli(request):
            paths = _analysis("paths", SNLI_PATHS, request)
            steps.append(
                replace(
                    paths,
                    config="esim_kim",
                    corpus="snli",
                    settings=PATHS_OF_SENSES,
                    key=concepts_key,
                )
            )
        errors = ("report", f"--table={ERRORS}", f"--runs={request.folder}")
        return [*steps, Step(KINDS, errors, tables=(ERRORS,), after=MODELS)]

    def tables(self, request: Request) -> Sequence[str]:
        names = [str(number) for number in TABLES if number in request.tables]
        if set(request.tables) == set(self.numbers):
            return [*names, reproduction.NAME]  # it shows Tables 2 and 8, too
        return [*names, str(ERRORS)] if ERRORS in request.tables else names

    def notes(self, request: Request) -> Sequence[str]:
        if request.mentions:
            return [f"concepts are those of {request.mentions}"]
        return [
            "concepts are those of this package's linker, NOT of MetaMap as in the paper: give "
            "--mentions=FILE"
        ]


PLAN = MedNLI()


def _is_mednli(request: Request) -> bool:
    return request.corpus.startswith("mednli")


def _names(table: Table, request: Request) -> Sequence[str]:
    """The runs of a table. Those of section 5.4.1, on another corpus, stand beside MedNLI's."""
    if _is_mednli(request):
        return table.runs
    return [name for name in table.runs if not own_corpus(name)]


def _adapted(run: PaperRun, request: Request) -> PaperRun:
    """The run for a request of another corpus, of the published code's variants, or with a
    lexicon."""
    corpus, settings = run.corpus, dict(run.settings)
    if corpus and request.corpus.endswith("_code"):
        name, slash, genre = corpus.partition("/")
        corpus = f"{name}_code{slash}{genre}"
    if corpus and not _is_mednli(request):  # the settings are MedNLI's seeds and batches
        settings = {}
    if run.name == FICTION and request.lexicon:
        settings["vectors.retrofit"] = str(request.lexicon.resolve())
    return replace(run, corpus=corpus, settings=settings)


def _further_vectors(request: Request) -> Iterator[PaperRun]:
    """Rows of Table 5 for other files in the folder's vectors/."""
    paper_names = {name for names in VECTORS for name in names}
    for path in sorted((request.folder / "vectors").glob("*")):
        ending = next((end for end in ENDINGS[1:] if path.name.endswith(end)), "")
        name = path.name.removesuffix(ending)
        if ending and name not in paper_names:
            for model in MODELS:
                yield PaperRun(f"vectors-{name}-{model}", model, vectors=(name,))


def _analysis(name: str, file: str, request: Request) -> Step:
    """An analysis of whole training sentences, for Table 2 and Figure 3."""
    out = request.folder / file.partition("/")[0]
    words = ("analyze", name, "--lengths=train", f"--out={out}")
    return Step(file, words, (STATISTICS,), config="esim_kd", settings=WHOLE_SENTENCES)
