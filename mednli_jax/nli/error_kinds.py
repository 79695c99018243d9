"""Categories of errors of finished runs: by rules over the pairs of their corpus, or from an annotation file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mednli_jax.data.arrays import SIDES
from mednli_jax.io import unwatched
from mednli_jax.knowledge.wordlists import BUNDLED, read_abbreviations
from mednli_jax.nli.categories import RULES, categories, category_scores, read_annotations
from mednli_jax.nli.corpus import NLICorpus
from mednli_jax.nli.encoding import find_mentions
from mednli_jax.report.outcomes import finished
from mednli_jax.report.sections import Grid, Section, points

BY_RULES = "by rules over the words of each pair"


def error_kinds(
    folders: Sequence[Path], split: str, annotations: Path | None, corpus_of: Callable[[Path], NLICorpus]
) -> tuple[list[Section], dict[str, dict]]:
    """([section], figures by the name of the run).

    annotations: a file of kinds, None for the rules. corpus_of: gives the corpus of a run's folder with its concepts
    linked; it is called for the first run alone, and only for the rules.
    Raises: UserError, DataError(s) where a run, the file or the corpus is missing or damaged.
    """
    runs = [finished(folder, split) for folder in folders]
    if annotations is not None:
        of_uid, source = read_annotations(annotations), "as annotated"
    else:
        of_uid, source = _by_rules(corpus_of(folders[0]), split), BY_RULES
    found = {run.name: category_scores(run.outcomes, of_uid) for run in runs}
    return [category_section(found, source)], found


def _by_rules(corpus: NLICorpus, split: str) -> Mapping:
    """uid -> kinds of the split's pairs. The corpus is read again; its ontology says what is a concept."""
    splits = corpus.splits()
    linker, examples = corpus.recogniser(splits), splits[split].examples
    mentions = [find_mentions(examples, side, linker, corpus.encoding, {}, unwatched) for side in SIDES]
    return categories(examples, *mentions, (short for short, _ in read_abbreviations(BUNDLED)))


def category_section(found: dict[str, dict], source: str) -> Section:
    """Kinds of error of each run: {name of the run: categories.category_scores(...)}. source: what gave the kinds."""
    grids = []
    for name, scores in found.items():
        rows = []
        for category, score in scores["categories"].items():
            share = f"{score['errors'] / scores['errors']:.0%}" if scores["errors"] else "-"
            most = ", ".join(f"{n} {pair}" for pair, n in list(score["confusions"].items())[:2])
            rows.append(
                (category, str(score["pairs"]), points(score["accuracy"]), str(score["errors"]), share, most or "-")
            )
        header = ("category", "pairs", "accuracy", "errors", "of all errors", "most frequent (gold > predicted)")
        grids.append(
            Grid(f"{name}: {scores['annotated']:,} pairs with a category, {scores['errors']:,} errors", header, rows)
        )
    words = [f"the kinds of Table 8, {source}; a pair may be of several; errors are those of the seeds' majority vote"]
    if source == BY_RULES:
        words += [f"{category}: {rule}" for category, rule in RULES.items()]
    return Section("Categories of error", words, grids)
