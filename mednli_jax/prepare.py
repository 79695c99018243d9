"""Prepare the corpus of a config: read it, link concepts, encode, write arrays. `train` does this
when needed.

  python -m mednli_jax.prepare --config=configs/esim_kd.py
  python -m mednli_jax.prepare --config=configs/esim_kd.py:mednli --config.knowledge.ontology=mesh
  python -m mednli_jax.prepare --config=configs/ga.py
  python -m mednli_jax.prepare --config=configs/esim_kd.py:mednli --metamap=private/metamap

{config}

Corpora are read from $MEDNLI_JAX_DATA/<corpus>/. The arrays are written to $MEDNLI_JAX_CACHE
(~/.cache/mednli_jax). A second run reuses them, unless files or settings have changed.

Flags:
  --metamap=FOLDER   only write the sentences of the corpus to FOLDER, as input for MetaMap. Give
                     its output to --config.knowledge.mentions; launch/data/mentions.py converts
                     that of other programs. The folder holds corpus text: keep it private.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mednli_jax import cli, tasks
from mednli_jax.data.arrays import Prepared, Rows
from mednli_jax.data.corpus import left_out
from mednli_jax.terminal import warn
from mednli_jax.types import JsonObject

# training pairs: a corpus of fewer is taken for an excerpt, in which no pair may have a link by
# chance
FEW_PAIRS = 20


def define(values: cli.Flags) -> None:
    cli.define(values, config=None)
    cli.define_paths(values, "metamap")


def main(values: cli.Flags) -> None:
    config = tasks.with_labels(cli.config(values))
    from mednli_jax.experiment import experiment_of
    from mednli_jax.knowledge.mentions import write_metamap_input

    started = time.monotonic()
    if values.metamap:
        splits = tasks.task_of(config).pairs(config).splits()
        examples = (example for split in splits.values() for example in split.examples)
        written = write_metamap_input(examples, values.metamap)
        counts = f"{written.sentences} sentences, {written.changed_characters} characters changed"
        print(f"{counts}: {values.metamap}")
        return
    experiment = experiment_of(config)
    prepared, was_cached = experiment.corpus.prepare()
    state, seconds = "found" if was_cached else "prepared", time.monotonic() - started
    print(f"{state} in {seconds:.1f} s: {prepared.folder}")
    for line in fact_lines(
        prepared, experiment.task.name, experiment.scorer.sides, experiment.task.row_noun
    ):
        print(line)
    for line in experiment.task.warnings(prepared):
        warn(line)
    experiment.task.check_prepared(experiment, prepared, warn_below=FEW_PAIRS)


# -- the facts of a prepared corpus; a line is shown where the manifest has its facts --------------


def fact_lines(
    prepared: Prepared, task_name: str, sides: Sequence[str], row_noun: str
) -> Iterator[str]:
    """Yields all facts of a prepared corpus, a line each.

    Args:
      task_name: of the task, whose own facts stand under its name in the manifest.
      sides: names of the two texts of a row.
      row_noun: the name of the rows.
    """
    manifest = prepared.manifest
    titles = {name: name for name in prepared.splits}
    own_facts = manifest.get(task_name, {})
    if "folds" in own_facts:
        titles = dict.fromkeys(prepared.splits, "benchmark")  # its one split becomes many folds
        yield from _fold_lines(own_facts)
    for name, rows in prepared.splits.items():
        facts = manifest["splits"][name]
        yield _size(titles[name], rows, facts, sides, row_noun)
        yield from _split_lines(facts, manifest.get("shared", {}).get(name, {}))
    if "setup" in manifest:
        phrases = "{types} phrases, {types_of_train} of them in training"
        yield f"  set-up {manifest['setup']}: {phrases.format_map(manifest['candidates'])}"
    if "vocabulary" in manifest:
        yield from _vocabulary_lines(manifest["vocabulary"])
    if "max_length" in manifest["key"]:
        yield _truncation_text(manifest)
    if "pieces" in manifest:
        unknown = sum(manifest["unknown_tokens"].values())
        pieces = sum(
            int(length.sum()) for rows in prepared.splits.values() for length in rows.length
        )
        yield f"  unknown pieces: {unknown:,} of {pieces:,} ({unknown / max(pieces, 1):.2%})"
    if manifest.get("knowledge", {}).get("ontology", "none") != "none":
        yield from _knowledge_lines(manifest["knowledge"], titles)


def _named_counts(counts: Mapping[str, int]) -> str:
    """Joins counts that are not 0: `treebank 30, binary parse 2`."""
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)


def _fold_lines(benchmark: JsonObject) -> Iterator[str]:
    groups = Counter(fold["group"] for fold in benchmark["folds"])
    diseases = len(benchmark["diseases"])
    yield f"  {benchmark['name']}: {diseases} diseases; folds: {_named_counts(groups)}"
    if reasons := left_out(benchmark["facts"]):
        yield f"    left out: {reasons}"


def _size(title: str, rows: Rows, facts: JsonObject, sides: Sequence[str], row_noun: str) -> str:
    """A line with the number of rows of a split, and its longest texts."""
    size = f"{len(rows)} {row_noun}"
    if "passages" in facts:
        size += f" of {facts['passages']} passages"
    if facts.get("dropped_unlabelled"):
        size += f", {facts['dropped_unlabelled']} unlabelled dropped"
    unanswered = sum(facts["answerable"].values()) - len(rows) if "answerable" in facts else 0
    if unanswered:
        size += f", {unanswered} without an answer in their passage left out"
    longest = []
    for side, length_N in zip(sides, rows.length, strict=True):
        longest.append(f"{side} {max(length_N.tolist(), default=0)}")
    return f"  {title}: {size}; longest {', '.join(longest)} tokens"


def _split_lines(facts: JsonObject, shared: Mapping[str, JsonObject]) -> Iterator[str]:
    """Yields further facts of a split. shared: earlier split -> counts of the texts that both
    have."""
    if "tokens" in facts:
        yield f"    tokens from: {_named_counts(facts['tokens'])}"
    if "labels" in facts:
        yield f"    labels: {_named_counts(facts['labels'])}"
    if "augmentation" in facts:
        yield f"    {facts['note']}"
    for earlier, counts in shared.items():
        if counts["premises"]:
            yield f"    premises that {earlier} has, too: in {counts['premises']} pairs"
    if "candidates" in facts:
        mean = facts["candidates"] / max(facts["passages"], 1)
        answers = "{exact} as they stand, {synonym} by a synonym, {none} not"
        answers = answers.format_map(facts["answerable"])
        yield (
            f"    {facts['candidates']} candidates, {mean:.1f} a passage; "
            f"answers among them: {answers}"
        )
        unseen = facts["answers_of_unseen_type"]
        yield f"    right candidates that training never shows: {unseen}"
        if facts["truncated"]["passages"]:
            cut = "{passages} passages, {tokens} tokens dropped, {answers} answers lost"
            yield f"    truncated: {cut.format_map(facts['truncated'])}"


def _vocabulary_lines(vocabulary: JsonObject) -> Iterator[str]:
    line = f"  vocabulary: {vocabulary['words']} words, "
    if "source" in vocabulary:
        line += "{with_vector} with a vector ({source})".format_map(vocabulary)
    else:
        line += "random vectors"
    if "cut" in vocabulary:
        rare = "; {of_other_splits} of dev and test alone, {cut} rare ones left out"
        line += rare.format_map(vocabulary)
    yield line
    if vocabulary.get("retrofitted"):
        yield f"  retrofitting moved {vocabulary['retrofitted']} vectors"


def _truncation_text(manifest: JsonObject) -> str:
    counts = manifest["truncated"]
    if "pairs" in counts:
        return f"  truncated to {manifest['pieces']['room']} pieces: {counts['pairs']} pairs"
    texts = f"{counts['premise']} premises, {counts['hypothesis']} hypotheses"
    return f"  truncated to {manifest['key']['max_length']} tokens: {texts}"


def _knowledge_lines(knowledge: JsonObject, titles: Mapping[str, str]) -> Iterator[str]:
    """Yields lines on the links between concepts of both texts. titles: split -> its name in
    lines."""
    links = (
        "  {ontology} {version}: {links} links in {pairs_with_links} pairs, "
        "longest path {longest_path}, {dropped_links} links over max_links dropped"
    )
    yield links.format_map(knowledge)
    concepts = (
        "    {sentences_with_mentions} sentences with a concept; "
        "{concepts_mentioned} concepts, {concepts_in_ontology} of them in the ontology; "
        "graph: {graph}"
    )
    yield concepts.format_map(knowledge)
    if knowledge.get("relations"):
        yield f"    links by kind: {_named_counts(knowledge['relations'])}"
    for split, title in titles.items():
        facts = knowledge["splits"][split]
        sentences = (
            "{concepts} concepts, in {premises} premises, {hypotheses} hypotheses, "
            "both sides of {pairs_with_concepts} pairs; {pairs_with_links} pairs linked"
        )
        yield f"    {title}: {sentences.format_map(facts)}"
        links_of = facts["links_per_length"]
        lengths = [f"{length}: {links_of[length]}" for length in sorted(links_of, key=int)]
        yield f"      links by edges between their concepts: {', '.join(lengths) or 'none'}"


if __name__ == "__main__":
    sys.exit(cli.run(main, __doc__, define))
