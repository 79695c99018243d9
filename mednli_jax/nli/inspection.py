"""Faults that the counts in the manifest of a prepared corpus show."""

from collections.abc import Iterator

from mednli_jax.data.arrays import Prepared
from mednli_jax.data.examples import LABELS
from mednli_jax.data.vectors import coverage_warnings
from mednli_jax.errors import ConfigError, config_field
from mednli_jax.nli.readers import NO_TEST, NO_TEST_LABELS, quoted_cells
from mednli_jax.terminal import warn


def warnings(prepared: Prepared) -> Iterator[str]:
    """Warnings of words without vectors, a missing split, quoted cells, a class without pairs,
    shared pairs, and mentions of another terminology."""
    manifest = prepared.manifest
    yield from coverage_warnings(manifest["vocabulary"])
    for split, facts in manifest["splits"].items():
        note = facts.get("note")
        if note in (NO_TEST, NO_TEST_LABELS):
            yield note.rstrip(".")
        yield from quoted_cells(facts)
        counts = facts.get("labels", {})
        if counts.keys() <= set(LABELS) and split == "train":
            counts = dict.fromkeys(LABELS, 0) | counts
        absent = [label for label, count in counts.items() if not count]
        if absent:
            yield f"{split}: no pair has the label {' or '.join(absent)}; is the file an excerpt?"
    for split, counts_of in manifest.get("shared", {}).items():
        for earlier, counts in counts_of.items():
            if counts["pairs"]:
                share = f"{counts['pairs']:,} of {manifest['splits'][split]['rows']:,}"
                yield (
                    f"{split}: {share} pairs are in {earlier}, too (same premise and hypothesis), "
                    f"so scores on {split} are not those of new pairs"
                )
    knowledge = manifest["knowledge"]
    if "mentions" in knowledge:
        in_ontology, concepts = knowledge["concepts_in_ontology"], knowledge["concepts_mentioned"]
        if 2 * in_ontology < concepts:
            yield (
                f"{knowledge['mentions']['file']}: only {in_ontology:,} of its {concepts:,} "
                f"concepts are in the ontology '{knowledge['ontology']}'; does it have ids of "
                "another terminology?"
            )


def check_links(prepared: Prepared, *, few: int) -> None:
    """Refuses a corpus without a link in the training pairs.

    few: with fewer training pairs this is a warning, because they may have none by chance.
    """
    name = "train" if "train" in prepared.splits else next(iter(prepared.splits))  # folds have one
    counts, size = prepared.manifest["knowledge"]["splits"][name], len(prepared.splits[name])
    if counts["pairs_with_links"]:
        return
    sides = f"{counts['premises']:,} premises, {counts['hypotheses']:,} hypotheses with a concept"
    problem = f"of {size:,} training pairs none has a link ({sides})"
    if size < few:
        warn(str(ConfigError(problem, field="knowledge.ontology")))
        return
    without = config_field("model.knowledge", "none")
    fix = ("give another ontology or file of mentions, or train without (", without, ")")
    raise ConfigError(problem, field="knowledge.ontology", fix=fix)
