"""Table 8 of Romanov & Shivade 2018: kinds of error, and private examples of each kind."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mednli_jax.data.examples import LABELS, NLIExample
from mednli_jax.errors import RunError
from mednli_jax.nli.categories import RULES, Categories, error_kinds, kinds_by_rules
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.reproduction import kinds_of, kinds_section
from mednli_jax.nli.runs import KINDS, MODELS
from mednli_jax.report.options import TableOptions
from mednli_jax.report.outcomes import Finished, finished
from mednli_jax.report.sections import Report
from mednli_jax.report.tables import state

EXAMPLES = "table8.jsonl"
EXAMPLES_OF_KIND = 5
Json = Any
CorpusOf = Callable[[Any], NLICorpus]  # a run's config -> its corpus, linked to concepts


def report(folder: Path, options: TableOptions, linked: CorpusOf) -> Report:
    """The kinds of error of the folder's BOW, InferSent and ESIM on test.

    Without options.config_of: the table of the file that an earlier call left.
    """
    if options.config_of is None:
        return Report({}, [kinds_section(kinds_of(folder))])
    folders = [folder / name for name in MODELS if state(folder / name) == "complete"]
    if not folders:
        fix = "train them: reproduce mednli FOLDER CORPUS --tables=8"
        raise RunError(f"{folder}: holds no finished run of {', '.join(MODELS)}", fix=fix)
    corpus = linked(options.config_of(folders[0]))
    categories_of = kinds_by_rules(corpus, options.split)
    runs = [finished(path, options.split) for path in folders]
    errors = error_kinds(runs, categories_of)
    rows = _examples(corpus.splits()[options.split].examples, categories_of, runs)
    return Report(
        errors.figures,
        errors.sections,
        files={KINDS: {"categories": errors.figures}},
        private={EXAMPLES: "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)},
        runs=folders,
    )


def _examples(
    examples: Sequence[NLIExample],
    categories_of: Categories,
    runs: Sequence[Finished],
) -> Iterator[dict[str, Json]]:
    """Pairs of each kind that most systems get wrong, those that all get wrong first."""
    voted: dict[str, dict[str, str]] = defaultdict(dict)
    for run in runs:
        for uid, label in zip(run.outcomes.uids, run.outcomes.voted, strict=True):
            voted[uid][run.name] = LABELS[label]

    def errors(example: NLIExample) -> int:
        return sum(label != example.label for label in voted[example.uid].values())

    wrong = sorted(filter(errors, examples), key=errors, reverse=True)
    for kind in RULES:
        of_kind = [example for example in wrong if kind in categories_of[example.uid]]
        for example in of_kind[:EXAMPLES_OF_KIND]:
            yield {
                "kind": kind,
                "uid": example.uid,
                "premise": example.premise,
                "hypothesis": example.hypothesis,
                "label": example.label,
                "predicted": voted[example.uid],
            }
