"""Damages for test_damage.py that only a command can meet, in flags, settings and files."""

import json
from dataclasses import dataclass
from pathlib import Path

import made_up_runs
import numpy as np
from made_up_files import HYPOTHESIS, PREMISE, array, cells, pair, pairs, table
from made_up_readers import run_files

from mednli_jax.errors import ConfigError, DataError, RunError, UsageError, UserError
from mednli_jax.knowledge.readers import mesh

ROOT = Path(__file__).parent.parent
UNREADABLE = Path("/proc/self/mem")  # it opens, but not even root can read its first bytes


@dataclass(frozen=True)
class Case:
    """A command with `flags`, in a folder with `files` ({path: content}; None leaves out a file of BASES).

    error: the class of the error; for DataError, `file`, `line` and `field` are its attributes. says: words that the
    message must contain, such as the flag at fault and its intended value. status: the exit code, 0 if the damage is
    only reported.
    """

    name: str
    command: str
    error: type | None
    flags: tuple[str, ...] = ()
    files: dict | None = None
    base: str = ""
    file: str | None = None
    line: int | None = None
    field: str | None = None
    says: tuple[str, ...] = ()
    status: int = 2


def config(name="bow.py", variant=""):
    return f"--config={ROOT / 'configs' / name}{':' * bool(variant)}{variant}"


# ---- corpora ----

SNLI_HEADER = ("gold_label", "sentence1", "sentence2", "pairID", "label1", "label2")
TRUTH = "mediqa_nli/mednli_bionlp19_shared_task_ground_truth.csv"
MEDNLI = {f"mednli/mli_{split}_v1.jsonl": pairs(100 * n) for n, split in enumerate(("train", "dev", "test"))}
BASES = {
    "": {},
    "file": {f"file/{split}.jsonl": pairs(100 * n) for n, split in enumerate(("train", "dev"))},
    "mednli": MEDNLI,
    "snli": {f"snli/snli_1.0_{split}.jsonl": pairs(100 * n) for n, split in enumerate(("train", "dev", "test"))},
    "snli.txt": {
        f"snli/snli_1.0_{split}.txt": table("\t", ("neutral", PREMISE, HYPOTHESIS, f"{split}1"), header=SNLI_HEADER[:4])
        for split in ("train", "dev", "test")
    },
    "multinli": {f"multinli/multinli_1.0_{s}.jsonl": pairs(100 * n) for n, s in enumerate(("train", "dev_matched"))},
    "mediqa": MEDNLI
    | {"mediqa_nli/mednli_bionlp19_shared_task.jsonl": pairs(200), TRUTH: "pair_id,label\np200,neutral\n"},
}
VARIANTS = {"snli.txt": "snli", "mediqa": "mediqa_nli", "multinli": "multinli/slate"}
NO_VECTORS = "--config.vectors.path="
MLI, SNLI = "mednli/mli_train_v1.jsonl", "snli/snli_1.0_dev.jsonl"
TXT, MNLI = "snli/snli_1.0_train.txt", "multinli/multinli_1.0_train.jsonl"


def prepared(name, base, files, file=None, line=None, field=None, *, error=DataError, flags=(), stats=False, **more):
    """A case of `prepare`, or of `analyze stats`, on a base corpus in which these files are replaced."""
    flags = (config(more.pop("config", "bow.py"), VARIANTS.get(base, base)), NO_VECTORS, *flags)
    flags = (*(["stats"] * stats), *flags, *(["--config.data.dir=file"] * (base == "file")))
    return Case(name, "analyze" if stats else "prepare", error, flags, files, base, file, line, field, **more)


def of(base, path, *rows, **how):
    file = path.rpartition("/")[2]
    return (prepared(f"{base}: {name}", base, {path: content}, file, *where, **how) for name, content, *where in rows)


TFDS = {"flags": ("--config.data.builder=tfds",)}
TSV = table("\t", cells(1))
LONG = table("\t", ("neutral", PREMISE, HYPOTHESIS, "p1", "x", "y", "z"), header=SNLI_HEADER)
EMPTY = table("\t", ("neutral", "", HYPOTHESIS, "p1", "x", "y"), header=SNLI_HEADER)
CORPORA = (
    *of("file", "file/train.jsonl", ("no premise", pairs(1, pair(2, sentence1=...)), 2, "sentence1")),
    *of("file", "file/train.jsonl", ("missing", None)),
    *of("file", "file/train.jsonl", ("unreadable, to count", UNREADABLE), stats=True),
    *of("file", "file/train.jsonl", ("unreadable", UNREADABLE)),
    *of("file", "file/dev.jsonl", ("a pair of train in dev", pairs(0), None, "pairID")),
    prepared("file: two files of a split", "file", {"file/train.tsv": TSV}, "train.jsonl and train.tsv"),
    Case("file: a missing folder", "prepare", ConfigError, (config(), "--config.data.name=file",
         "--config.data.dir=absent"), says=("config.data.dir",)),
    Case("file: no folder named", "prepare", ConfigError, (config(), "--config.data.name=file"),
         says=("--config.data.dir",)),
    Case("no data folder", "prepare", ConfigError, (config(), "--config.data.name=snli"), says=("MEDNLI_JAX_DATA",)),
    *of("mednli", MLI, ("missing", None)),
    *of("mednli", MLI, ("a label wrong", pairs(1, pair(2, gold_label="wombat")), 2, "gold_label"), stats=True),
    *of("mednli", "mednli/mli_test_v1.jsonl", ("test in train", pairs(0), None, "pairID"), stats=True),
    *of("mednli", MLI, ("TFDS, broken JSON", pairs(1, "{quokka"), 2), ("TFDS, missing", None), **TFDS),
    *of("snli", SNLI, ("TFDS, a blank sentence", pairs(1, pair(2, sentence1=" ")), 2, "sentence1"), stats=True, **TFDS),
    *of("snli", SNLI, ("broken JSON", pairs(1, "{quokka"), 2), ("missing", None)),
    *of("snli.txt", TXT, ("an empty sentence", EMPTY, 2, "sentence1"), ("too many columns", LONG, 2)),
    *of("multinli", MNLI, ("no genre", pairs(1, pair(2, genre=...)), 2, "genre"),
        ("none of a genre", json.dumps(pair(1, genre="travel")))),
    *of("mediqa", TRUTH, ("no ground truth", None), ("an unknown label", "pair_id,label\np200,wombat\n", 2, "label")),
)  # fmt: skip

# ---- knowledge and vectors, which `prepare` reads before the corpus is encoded ----

MESH = "\t".join(mesh.HEADER) + "\nD1\tquokka\tC01\t\nD2\taxolotl\tC01.100\t\n"
CYCLE = MESH.replace("C01\t", "C01|C02.100\t").replace("\tC01.100", "\tC02|C01.100")
KD = {"config": "esim_kd.py"}


def linked(field, content, file="m.tsv", line=1, where=None):
    flags = ("--config.knowledge.ontology=own.tsv", f"--config.knowledge.{field}={file}")
    return prepared(
        f"{field} in {file}", "file", {"own.tsv": MESH, file: content}, file, line, where, flags=flags, **KD
    )


def ontology(name, files, value, *where, **how):
    return prepared(name, "file", files, *where, flags=(f"--config.knowledge.ontology={value}",), **KD, **how)


def vectors(name, files, path, *where, **how):
    flags = (f"--config.vectors.path={path}", "--config.vectors.dim=3")
    return prepared(name, "file", files, *where, flags=flags, **how)


def lexicon(name, content, *where, **how):
    flags = ("--config.vectors.retrofit=lex.txt", "--config.vectors.dim=4")
    return prepared(name, "file", {"lex.txt": content}, *where, flags=flags, **how)


ROW, NPY = "quokka 1 2 3\n", array(np.ones((2, 3), np.float32))
KNOWLEDGE = (
    ontology("an ontology with a cycle", {"own.tsv": CYCLE}, "own.tsv", "own.tsv", None, "tree_numbers"),
    ontology("an ontology that is unreadable", {"own.tsv": UNREADABLE}, "own.tsv", error=None),
    ontology("a parent that is not there", {"own.tsv": MESH.replace("C01\t", "C02\t")}, "own.tsv", error=None,
             status=0, says=("prepared in",)),
    ontology("an unknown ontology", {}, "mehs", error=UserError, says=("config.knowledge.ontology", "mean 'mesh'?")),
    ontology("a folder of something else", {"empty/notes.txt": "wombat"}, "empty", error=UserError,
             says=("config.knowledge.ontology",)),
    ontology("an ontology that is not in the data folder", {}, "umls", error=UserError,
             says=("config.knowledge.ontology",)),
    Case("an ontology without a data folder", "prepare", ConfigError, (config("esim_kd.py"),
         "--config.knowledge.ontology=umls"), says=("MEDNLI_JAX_DATA",)),
    linked("mentions", "uid\tside\tstart\tend\tconcept\np0\tpremise\twombat\t2\tD1\n", line=2, where="start"),
    linked("mentions", "wombat\n", "m.mmi", where="MMI"),
    linked("abbreviations", "quokka\n"),
    linked("stop", b"\xe9\n", "stop.txt"),
    lexicon("a lexicon with a blank line", "quokka wombat\n\n", "lex.txt", 2),
    lexicon("a lexicon without a word of the corpus", "lemur gibbon\n", error=UserError, says=("retrofit",)),
    lexicon("a lexicon with a word twice", "quokka axolotl\n" * 2, error=None, status=0, says=("lines repeat a word",)),
    vectors("vectors with NaN", {"v.txt": "quokka 1 nan 3\n"}, "v.txt", "v.txt", 1),
    vectors("vectors with a word twice", {"v.txt": ROW + ROW}, "v.txt", error=None, status=0,
            says=("1 rows repeat a word",)),
    vectors("vectors in word2vec's binary", {"v.bin": b"1 3\nquokka " + bytes(12)}, "v.bin", error=None, status=0,
            says=("prepared in",)),
    vectors("a name left out beside a +", {"v.txt": ROW}, "v.txt+", error=UserError, says=("v.txt+",)),
    vectors("an array without words", {"v.npy": NPY}, "v.npy", error=UserError, says=("v.vocab.txt",)),
    vectors("a folder of vectors", {"v/x.txt": ROW}, "v", error=UserError, says=("vectors.path",)),
)  # fmt: skip

# ---- runs ----

GOLD = made_up_runs.GOLD
RUNS = run_files("a", GOLD) | run_files("b", "e" * 9)
BOTH = ("a", "b", "--compare")
PREDICTIONS = RUNS["a/private/predictions.test.jsonl"]


def reported(name, error, *flags, files=None, **more):
    return Case(f"report: {name}", "report", error, flags, RUNS | (files or {}), **more)


KINDS = ("a", "--categories_file=kinds.tsv")
REPORTS = (
    reported("an unfinished run", RunError, "a", "c", files=run_files("c", GOLD, status="interrupted"), says=("c: ",)),
    reported("no such split", RunError, *BOTH, "--split=train", says=("--split=dev",)),
    reported("a row that is no prediction", DataError, *BOTH, file="predictions.test.jsonl", line=10,
             files={"a/private/predictions.test.jsonl": PREDICTIONS + b"wombat\n"}),
    reported("two corpora", RunError, "a", "c", files=run_files("c", GOLD, corpus="mednli")),
    reported("other pairs", RunError, "a", "c", files=run_files("c", "een", gold="een")),
    reported("data.json without splits", RunError, *BOTH, files={"b/data.json": "{}"}, says=("b/data.json", "splits")),
    reported("a category that is none", DataError, *KINDS, files={"kinds.tsv": "u0\twombat\n"}, file="kinds.tsv",
             line=1),
    reported("categories of other pairs", RunError, *KINDS, files={"kinds.tsv": "x\tnegation\n"}),
    reported("a file of categories that is missing", DataError, *KINDS, file="kinds.tsv"),
    reported("path lengths of something else", DataError, "a", "--paths=a/config.json", says=("a/config.json",)),
    reported("a table that is none", UsageError, "--table=8", "--runs=.", says=("3, 4, 5, 6, 7",)),
    reported("a table of no folder", RunError, "--table=3", "--runs=absent", says=("absent", "--runs=")),
    reported("a table of a run", UsageError, "a", "--table=3", "--runs=.", says=("--runs=",)),
    reported("no run", UsageError),
    reported("one run compared", UsageError, "a", "--compare"),
    reported("a run of another version", RunError, "a", files={"a/data.json": '{"splits": {"train": 3}}'}),
    Case("predict: no run", "predict", UsageError, says=("--run=",)),
    Case("evaluate: an id twice in a partition", "evaluate", DataError, ("--run=run", "--partition=p.txt"),
         {"p.txt": "quokka\nquokka\n"}, file="p.txt", line=2),
    Case("evaluate: a partition that is missing", "evaluate", DataError, ("--run=run", "--partition=p.txt"),
         file="p.txt"),
    Case("evaluate: a file twice", "evaluate", UserError, ("--run=run", "--partition=p.txt,p.txt"),
         {"p.txt": "quokka\n"}, says=("--partition",)),
    Case("evaluate: a place for nothing", "evaluate", UsageError, ("--run=run", "--workdir=x"), says=("--config",)),
)  # fmt: skip

# ---- flags and settings ----


def flag(name, error, *flags, says=(), command="prepare", configured=True, **more):
    first = (config(), NO_VECTORS) if configured else ()
    return Case(f"flags: {name}", command, error, (*first, *flags), says=says, **more)


def setting(field, value, says="", error=ConfigError, name="bow.py", variant="", more=()):
    """A case of `prepare` with a value that this field of the config cannot have."""
    flags = (config(name, variant), NO_VECTORS, f"--config.{field}={value}", *more)
    base = variant.partition("/")[0]
    return Case(f"{field}={value} {variant}", "prepare", error, flags, base=base, says=(field, says))


def config_file(name, content, *says):
    return Case(f"config file: {name}", "prepare", UsageError, ("--config=own.py",), {"own.py": content}, says=says)


def own(name, error, command, *flags, files=None, **more):
    """A case of `analyze` on a user's own files."""
    flags = (command, "--corpus=file", "--config.data.dir=file", *flags)
    return Case(f"analyze {command}: {name}", "analyze", error, flags, files, "file", **more)


NO_KNOWLEDGE = "--config.model.knowledge=none"
OPTIONS = (
    flag("a typo in --config", UsageError, "--confg=x", configured=False, says=("Did you mean: config",)),
    flag("an extra word", UsageError, "more", says=("'more'",)),
    flag("no config", UsageError, configured=False, says=("--config=",)),
    flag("fields without config", UsageError, "--config.data.limit=3", configured=False, says=("--config=",)),
    flag("no such config", UsageError, "--config=absent.py", configured=False, says=("absent.py",)),
    flag("an empty config", UsageError, "--config=", configured=False, says=("--config",)),
    flag("a typo in a variant", ConfigError, config(variant="medlni"), configured=False, says=("mean 'mednli'?",)),
    flag("a typo in a genre", ConfigError, config(variant="multinli/slat"), configured=False,
         says=("mean 'multinli/slate'?",)),
    flag("a typo in a field", UsageError, "--config.model.hiden=3",
         says=("config.model.hiden", "mean --config.model.hidden_size?")),
    flag("a typo in a section", UsageError, "--config.vector.dim=3",
         says=("config.vector.dim", "mean --config.vectors.dim?")),
    flag("a field without its section", UsageError, "--config.epochs=3", says=("mean --config.train.epochs?",)),
    setting("data.limit", "all", "int", UsageError),
    setting("model.dropout", "x", "float", UsageError),
    setting("data.lowercase", "maybe", "boolean", UsageError),
    setting("train", "3", "no such field", UsageError),
    setting("data.name", "mednly", "mednli"),
    setting("data.builder", "x", "tfds"),
    setting("data.genre", "x", "slate", variant="multinli/slate"),
    setting("data.genre", "x", variant="snli"),
    setting("data.builder", "tfds", variant="file"),
    setting("knowledge.direction", "x", "either"),
    setting("data.limit", "0"),
    setting("data.max_length", "0"),
    setting("knowledge.max_path", "-1"),
    setting("knowledge.mentions", "m.csv", ".mmi", name="esim_kd.py", more=("--config.knowledge.ontology=own.tsv",)),
    setting("knowledge.stop", "s.txt", name="esim_kd.py", more=("--config.knowledge.mentions=m.tsv",)),
    setting("data.mix", "snly", "snli"),
    setting("data.mix", "demo"),
    setting("data.sample", "0"),
    own("no knowledge", UsageError, "paths", NO_KNOWLEDGE),
    Case("analyze: no such analysis", "analyze", UsageError, ("figures",), says=("stats",)),
    own("a smoothing of no number", UsageError, "lexical", NO_KNOWLEDGE, "--smoothing=nan", says=("--smoothing",)),
    Case("analyze lexical: no token of a class", "analyze", UsageError, ("lexical", "--corpus=demo", "--top=0"),
         says=("top",)),
    own("a run's features of words", UsageError, "aflite", NO_KNOWLEDGE, "--features=r", "--input=pair"),
    Case("analyze: a corpus and a config", "analyze", UsageError, ("stats", "--corpus=demo", config()),
         says=("--corpus", "--config")),
    Case("analyze: a corpus that is not there", "analyze", UsageError, ("stats", "--corpus=snly"),
         says=("mean 'snli'?",)),
    Case("analyze: a corpus without a name", "analyze", UsageError, ("stats", "--corpus="), says=("--corpus",)),
    Case("analyze: a corpus of no format", "analyze", DataError, ("stats", "--corpus=own.doc"), {"own.doc": "quokka"},
         file="own.doc"),
    own("moved names of MeSH", ConfigError, "heuristics", "--config.knowledge.permute_seed=1",
        "--config.knowledge.ontology=own.tsv", files={"own.tsv": MESH}, says=("permute_seed",)),
    own("a class alone", UserError, "lexical", NO_KNOWLEDGE, says=("(neutral)",)),
    own("a class alone", UserError, "lengths", NO_KNOWLEDGE),
    own("no frequent token", UserError, "lexical", NO_KNOWLEDGE, says=("--min_count",),
        files={"file/train.jsonl": pairs(1, pair(2, gold_label="entailment"))}),
    own("no vector for any token", UserError, "aflite", NO_KNOWLEDGE, "--config.vectors.path=v.txt",
        "--config.vectors.dim=2", files={"v.txt": "koala 1 2\n"}, says=("--config.vectors.path",)),
    own("more training pairs than pairs", UserError, "aflite", NO_KNOWLEDGE, "--m=2"),
    own("no models", UserError, "aflite", NO_KNOWLEDGE, "--n=0"),
    own("a score above 1", UserError, "aflite", NO_KNOWLEDGE, "--tau=1.5"),
    own("nothing to go on with", UserError, "aflite", NO_KNOWLEDGE, "--resume", "--out=x"),
    own("nowhere to go on", UserError, "aflite", NO_KNOWLEDGE, "--resume", says=("--out",)),
    Case("doctor: a data folder that is none", "doctor", UsageError, ("--data=nowhere",), says=("--data",)),
    config_file("a syntax error", "x = 1\ndef get_config(:\n", "own.py:2"),
    config_file("an import that fails", "import wombats\ndef get_config(x=1): pass\n", "own.py:1"),
    config_file("a division by zero", "def get_config():\n    return 1 / 0\n", "own.py:2"),
    config_file("no ConfigDict", "def get_config(x=1):\n    return 3\n", "get_config"),
    config_file("no get_config", "x = 1\n", "own.py"),
)  # fmt: skip

CASES = (*CORPORA, *KNOWLEDGE, *REPORTS, *OPTIONS)
