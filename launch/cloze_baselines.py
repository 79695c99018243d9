"""The baselines of Šuster & Daelemans 2018 (section 5.1, Table 4) on a cloze corpus, beside the
paper's figures.

  python launch/cloze_baselines.py --corpus=demo_cloze
  python launch/cloze_baselines.py --corpus=clicr --vectors=vectors.bin --out=runs/clicr_baselines

Prints Table 4 in Markdown. --corpus is demo_cloze, clicr (in $MEDNLI_JAX_DATA/clicr) or a folder in
CliCR's layout.
--vectors is a file of word vectors; sim-entity, sim-word and the embedding score need it. The window of the
similarities is chosen on dev. --out=FOLDER also writes all scores with their slices, and the answers of each baseline
to FOLDER/private; `evaluate --predictions=FILE` scores such a file.
"""

import argparse
import sys
import time

from mednli_jax import cli
from mednli_jax.cloze import baselines as entity
from mednli_jax.cloze import ngram_lm
from mednli_jax.cloze import scores as answers
from mednli_jax.cloze.encoding import DEMO, corpus_named, split_of
from mednli_jax.cloze.tables import all_systems
from mednli_jax.files import private_folder, write_json
from mednli_jax.report.sections import markdown
from mednli_jax.terminal import say


def untrained(examples, seed: int) -> dict[str, dict[str, str]]:
    """Answers of the baselines that need neither vectors nor training, by name."""
    return {
        "rand-word": entity.random_entity(examples, seed=seed, words=True),
        "rand-entity": entity.random_entity(examples, seed=seed),
        "maxfreq-word": entity.most_frequent_word(examples),
        "maxfreq-entity": entity.most_frequent_entity(examples),
        "maxfreq-entity, not in the query": entity.most_frequent_entity(
            examples, outside_query=True
        ),
        "upper bound": entity.upper_bound(examples),
    }


def language_model(splits, examples, order: int) -> tuple[dict[str, dict[str, str]], dict]:
    """Answers of the language model, and facts about it."""
    started = time.monotonic()
    model = ngram_lm.estimate(ngram_lm.training_text(splits["train"].examples), order=order)
    facts = {
        "order": order,
        "seconds": round(time.monotonic() - started, 1),
        "words": len(model.words) - 1,
        "ngrams": [len(level.keys) for level in model.levels],
    }
    say(f"language model: {facts['ngrams'][-1]:,} {order}-grams in {facts['seconds']} s")
    said = {
        "lang-model": ngram_lm.continuations(model, examples),
        "lang-model, entities only": ngram_lm.continuations(model, examples, entities_only=True),
    }
    return said, facts


def similar(splits, examples, vocab, vectors) -> tuple[dict[str, dict[str, str]], dict]:
    """Answers by similarity of contexts, with the window that is best on dev, and the search."""
    window, found = entity.best_window(splits["dev"].examples, vocab, vectors)
    say(f"sim-entity: dev F1 {100 * found[window]['f1']:.1f} with a window of {window}")
    said = {
        "sim-word": entity.most_similar_entity(examples, vocab, vectors, window=window, words=True),
        "sim-entity": entity.most_similar_entity(examples, vocab, vectors, window=window),
    }
    return said, {"window": window, "dev": found}


def measure(given) -> None:
    splits = corpus_named(given.corpus)
    split = split_of(splits, given.split)
    examples = split.examples
    said, facts = untrained(examples, given.seed), {}
    model, facts["lang-model"] = language_model(splits, examples, given.order)
    said |= model
    vocab = vectors = None
    if given.vectors:
        more = [text for texts in said.values() for text in texts.values()]
        vocab, vectors = entity.known_vectors(
            given.vectors, [*splits["dev"].examples, *examples], more
        )
        near, facts["sim-entity"] = similar(splits, examples, vocab, vectors)
        said |= near
    each = {
        name: answers.query_scores(examples, texts, vocab, vectors) for name, texts in said.items()
    }
    scores = {name: answers.figures(examples, found) for name, found in each.items()}
    expected = entity.random_expectation(examples, vocab, vectors, seed=given.seed)
    rows = [("rand-entity, mean of all draws", expected), *scores.items()]
    if outside := entity.out_of_passage(examples, said["upper bound"]):
        bound = answers.query_scores(outside, said["upper bound"], vocab, vectors)
        name = f"upper bound of the {len(outside):,} without their answer in the passage"
        rows.append((name, answers.summary(bound)))
    print(f"{given.corpus}, {given.split}: {len(examples):,} queries", end="\n\n")
    print("\n".join(markdown(all_systems(dict(rows), paper=given.paper))))
    for note in sorted({part.facts["note"] for part in splits.values() if "note" in part.facts}):
        print(f"\n{note}")
    if given.out:
        write(
            given,
            said,
            {"corpus": given.corpus, "split": given.split, "rows": dict(rows), "facts": facts},
        )


def write(given, said, result) -> None:
    private = private_folder(private_folder(given.out) / "private")
    for name, texts in said.items():
        file = name.replace(", ", "-").replace(" ", "_")
        answers.write_answers(private / f"{file}.{given.split}.jsonl", texts)
    write_json(given.out / f"baselines.{given.split}.json", result)
    say(f"written: {given.out / f'baselines.{given.split}.json'}, answers in {private}")


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--corpus", default=DEMO, help="demo_cloze (default), clicr or a folder")
    parser.add_argument("--split", default="test", help="queries to answer (default test)")
    parser.add_argument("--vectors", default="", help="word vectors")
    parser.add_argument(
        "--order", type=int, default=ngram_lm.ORDER, help="of the language model (default 4)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random answers")
    parser.add_argument(
        "--out", type=cli.path, help="folder for scores and answers; existing files are replaced"
    )
    paper = argparse.BooleanOptionalAction
    parser.add_argument(
        "--paper",
        action=paper,
        default=True,
        help="also the paper's other systems, below the table",
    )
    options = parser.parse_args()
    return cli.script(lambda: measure(options))


if __name__ == "__main__":
    sys.exit(main())
