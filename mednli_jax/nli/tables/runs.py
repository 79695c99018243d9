"""The runs of Romanov & Shivade 2018 (MedNLI), the cells of its tables that they fill, and its plan
for `reproduce`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from mednli_jax.report.options import ENDINGS, PaperRun, Request, Settings, Step
from mednli_jax.report.tables import published_figures

NAME = "mednli"
PAPER = published_figures(NAME)
CORPUS: str = PAPER["corpus"]
MODELS = ("bow", "infersent", "esim")
NAMES = {"features": "Features", "bow": "BOW", "infersent": "InferSent", "esim": "ESIM"}
GENRES = ("fiction", "government", "slate", "telephone", "travel")
SEEDS = (0, 1, 2, 3, 4, 5)  # the paper's figures are means of six runs
# The fastText classifier trains its own vectors.
OWN_VECTORS: Settings = MappingProxyType({"vectors.path": "", "vectors.dim": 1})
# Runs that others are transferred from: the seeds of the MedNLI runs, and batches of 512 without
# groups, as in the published code.
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
CATEGORIES_FILE = "categories.json"
STATISTICS, VECTORS_TABLE, CATEGORIES_TABLE = 2, 5, 8  # numbers of tables
FICTION = "fiction-retrofit-infersent"  # section 5.4.1
# No sentence is cut: positions of links are int16, and this is the greatest.
WHOLE_SENTENCES: Settings = {"data.max_length": (1 << 15) - 1}
# The paths between senses that section 5.4.1 speaks of.
PATHS_OF_SENSES: Settings = {
    **WHOLE_SENTENCES,
    "knowledge.direction": "undirected",
    "knowledge.max_path": 0,
}
RunKey = tuple[str, str]  # (name of a run, split)


# -- runs ------------------------------------------------------------------------------------------


def _systems() -> Iterator[PaperRun]:
    """Yields the runs of Table 3, and the classifier of hypotheses alone of section 7."""
    yield PaperRun("features", "features")
    yield PaperRun("hypothesis", "hypothesis_only", OWN_VECTORS)
    for model in MODELS:
        yield PaperRun(model, model)


def _transfer() -> Iterator[PaperRun]:
    """Yields the runs of Table 4: SNLI and the genres of MultiNLI as sources."""
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
    """Yields the runs of Table 5."""
    for names in VECTORS:
        for model in MODELS:
            yield PaperRun(f"vectors-{names[0]}-{model}", model, vectors=names)


def _retrofitting() -> Iterator[PaperRun]:
    """Yields the runs of Table 6, and the run of section 5.4.1.

    concepts-*: concepts are retrofitted, as in the paper.
    retrofit-*: words are retrofitted.
    unit-*: vectors of length 1, without retrofitting.
    FICTION (section 5.4.1): words are retrofitted, on MultiNLI's fiction.
    """
    for model in MODELS:
        yield PaperRun(f"concepts-{model}", model, {"vectors.retrofit": "concepts"})
        yield PaperRun(f"retrofit-{model}", model, RETROFIT)
        yield PaperRun(f"unit-{model}", model, {"vectors.retrofit": "unit"})
    wordnet = {**SOURCE, **RETROFIT, "knowledge.ontology": "wordnet"}
    yield PaperRun(FICTION, "infersent", wordnet, "multinli/fiction")


def _attention() -> Iterator[PaperRun]:
    """Yields the runs of Table 7: attention by knowledge, with the vectors of the config and with
    those of MIMIC-III."""
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
        for table in (_systems, _transfer, _vectors, _retrofitting, _attention)
        for run in table()
    }
)


# -- cells of Tables 3 to 7 ------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One figure of a table, in points of accuracy.

    Args:
      run: the name of its run's folder.
      paper: the published figure; None for a figure of ours alone, which is left out if its run
        does not exist. A cell with a published figure is then reported as missing.
      baseline: the name of the run whose accuracy is subtracted, if any.
    """

    row: str
    column: str
    run: str
    paper: float | None
    baseline: str = ""
    split: str = "test"

    @property
    def keys(self) -> list[RunKey]:
        """The run, and its baseline if there is one."""
        return [(name, self.split) for name in (self.run, self.baseline) if name]


@dataclass(frozen=True)
class Table:
    """A table of accuracies.

    others: a pattern of further names of runs, which get rows of their own. Its groups are `row`,
      `model` (the name of the baseline's run) and perhaps `mode`; "" for no further runs.
    """

    number: int
    title: str
    cells: tuple[Cell, ...]
    others: str = ""

    @property
    def runs(self) -> list[str]:
        """The names of its runs and of their baselines."""
        return list(dict.fromkeys(name for cell in self.cells for name, _ in cell.keys))


def _read_tables() -> Iterator[Table]:
    for number, values in PAPER["tables"].items():
        cells = tuple(Cell(*cell) for cell in values["cells"])
        yield Table(int(number), values["title"], cells, values.get("others", ""))


TABLES = {table.number: table for table in _read_tables()}


def corpus_unlike_table(name: str) -> str:
    """The corpus of a run that is not on the table's corpus, such as a run of section 5.4.1; ""
    for other runs."""
    return RUNS[name].corpus if name in RUNS else ""


# -- for `reproduce` -------------------------------------------------------------------------------


class MedNLI:
    """The plan of the paper's reproduction, see report.options.ReproductionPlan."""

    name = NAME
    numbers = (STATISTICS, *TABLES, CATEGORIES_TABLE)
    seeds = SEEDS

    def runs(self, request: Request) -> Sequence[PaperRun]:
        names = set(MODELS) if CATEGORIES_TABLE in request.tables else set()
        for number in TABLES.keys() & set(request.tables):
            names.update(_names(TABLES[number], request))
        names.update([RUNS[name].init_from for name in names])
        runs = [_adapt(run, request) for run in RUNS.values() if run.name in names]
        return [*runs, *(_further_vectors(request) if VECTORS_TABLE in request.tables else ())]

    def steps(self, request: Request) -> Sequence[Step]:
        paths = replace(_analysis("paths", PATHS, request), ontology=True)
        steps = [_analysis("stats", STATS, request), paths]
        if _is_mednli(request):
            of_senses = _analysis("paths", SNLI_PATHS, request)
            steps.append(
                replace(
                    of_senses,
                    config="esim_kim",
                    corpus="snli",
                    settings=PATHS_OF_SENSES,
                    ontology=True,
                )
            )
        errors = ("report", f"--table={CATEGORIES_TABLE}", f"--runs={request.folder}")
        return [*steps, Step(CATEGORIES_FILE, errors, tables=(CATEGORIES_TABLE,), after=MODELS)]

    def tables(self, request: Request) -> Sequence[str]:
        names = [str(number) for number in TABLES if number in request.tables]
        if set(request.tables) == set(self.numbers):
            return [*names, NAME]  # the reproduction check, NAME, also shows Tables 2 and 8
        return [*names, str(CATEGORIES_TABLE)] if CATEGORIES_TABLE in request.tables else names

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
    """The names of the runs of a table. Runs on another corpus than the table's (section 5.4.1)
    belong only to a request of MedNLI."""
    if _is_mednli(request):
        return table.runs
    return [name for name in table.runs if not corpus_unlike_table(name)]


def _adapt(run: PaperRun, request: Request) -> PaperRun:
    """The run as a request needs it.

    If the request is for a _code variant, runs on other corpora use their _code variants, too.
    If the request is not for MedNLI, runs on other corpora lose their settings, which are MedNLI's
    seeds and batches. The lexicon of a request is for the run of section 5.4.1.
    """
    corpus, settings = run.corpus, dict(run.settings)
    if corpus and request.corpus.endswith("_code"):
        name, slash, genre = corpus.partition("/")
        corpus = f"{name}_code{slash}{genre}"
    if corpus and not _is_mednli(request):
        settings = {}
    if run.name == FICTION and request.lexicon:
        settings["vectors.retrofit"] = str(request.lexicon.resolve())
    return replace(run, corpus=corpus, settings=settings)


def _further_vectors(request: Request) -> Iterator[PaperRun]:
    """Yields the rows of Table 5 for other files in the folder's vectors/."""
    paper_names = {name for names in VECTORS for name in names}
    for path in sorted((request.folder / "vectors").glob("*")):
        ending = next((end for end in ENDINGS[1:] if path.name.endswith(end)), "")
        name = path.name.removesuffix(ending)
        if ending and name not in paper_names:
            for model in MODELS:
                yield PaperRun(f"vectors-{name}-{model}", model, vectors=(name,))


def _analysis(name: str, file: str, request: Request) -> Step:
    """The step that analyses whole training sentences, for Table 2 and Figure 3."""
    out = request.folder / file.partition("/")[0]
    words = ("analyze", name, "--lengths=train", f"--out={out}")
    return Step(file, words, (STATISTICS,), config="esim_kd", settings=WHOLE_SENTENCES)
