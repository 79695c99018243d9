"""Facts of a prepared corpus, as lines for a terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from mednli_jax.data.arrays import Prepared
from mednli_jax.diskne.corpus import ALL, benchmark_of


def folds(prepared: Prepared) -> Iterator[str]:
    """Facts of DisKnE, whose pairs are one split, and of its folds."""
    benchmark = benchmark_of(prepared)
    groups = Counter(fold["group"] for fold in prepared.manifest["diskne"]["folds"])
    counts = ", ".join(f"{group} {count}" for group, count in groups.items())
    yield f"  {benchmark.name}: {len(benchmark.names)} diseases; folds: {counts}"
    if left_out := benchmark.left_out():
        yield f"    left out: {left_out}"
    yield from pairs(prepared, {ALL: "benchmark"})


def pairs(prepared: Prepared, called: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Facts of a corpus of sentence pairs. called: split -> its name in the lines, where that is another."""
    manifest = prepared.manifest
    for name, rows in prepared.splits.items():
        facts = manifest["splits"][name]
        dropped = f", {facts['dropped_unlabelled']} unlabelled dropped" if facts.get("dropped_unlabelled") else ""
        yield (
            f"  {called.get(name, name)}: {len(rows)} pairs{dropped}; longest premise {rows.length[0].max()}, "
            f"hypothesis {rows.length[1].max()} tokens"
        )
        if "tokens" in facts:
            kinds = ", ".join(f"{kind} {count}" for kind, count in facts["tokens"].items() if count)
            yield f"    tokens from: {kinds}"
        for earlier, counts in manifest.get("shared", {}).get(name, {}).items():
            if counts["premises"]:
                yield f"    premises that {earlier} has, too: in {counts['premises']} pairs"
    words = manifest["vocabulary"]
    yield f"  vocabulary: {words['words']} words, {words['with_vector']} with a vector ({words['source']})"
    truncated = manifest["truncated"]
    if "pairs" in truncated:
        yield f"  truncated to {manifest['pieces']['room']} pieces: {truncated['pairs']} pairs"
    else:
        yield (
            f"  truncated to {manifest['key']['max_length']} tokens: {truncated['premise']} premises, "
            f"{truncated['hypothesis']} hypotheses"
        )
    knowledge = manifest["knowledge"]
    if knowledge["ontology"] != "none":
        yield (
            f"  {knowledge['ontology']} {knowledge['version']}: {knowledge['links']} links in "
            f"{knowledge['pairs_with_links']} pairs, longest path {knowledge['longest_path']}, "
            f"{knowledge['dropped_links']} links over max_links dropped"
        )
        yield (
            f"    {knowledge['sentences_with_mentions']} sentences with a concept; {knowledge['concepts_mentioned']} "
            f"concepts, {knowledge['concepts_in_ontology']} of them in the ontology; graph: {knowledge['graph']}"
        )
        if kinds := knowledge.get("relations"):
            yield f"    links by kind: {', '.join(f'{kind} {kinds[kind]}' for kind in kinds if kinds[kind])}"
        for name in prepared.splits:
            of = knowledge["splits"][name]
            by_length = sorted((int(length), count) for length, count in of["links_per_length"].items())
            yield (
                f"    {called.get(name, name)}: {of['concepts']} concepts, in {of['premises']} premises, "
                f"{of['hypotheses']} hypotheses, both sides of {of['pairs_with_concepts']} pairs; "
                f"{of['pairs_with_links']} pairs linked"
            )
            lengths = ", ".join(f"{length}: {count}" for length, count in by_length) or "none"
            yield f"      links by edges between their concepts: {lengths}"


def copied_pairs(manifest: dict) -> list[str]:
    """A warning for each pair of splits of which one holds pairs of the other."""
    return [
        f"{split}: {counts['pairs']:,} of {manifest['splits'][split]['rows']:,} pairs are in {earlier}, too "
        f"(same premise and hypothesis), so scores on {split} are not those of new pairs"
        for split, of_earlier in manifest.get("shared", {}).items()
        for earlier, counts in of_earlier.items()
        if counts["pairs"]
    ]


def queries(prepared: Prepared) -> Iterator[str]:
    """Facts of a corpus of cloze queries."""
    manifest = prepared.manifest
    for name, rows in prepared.splits.items():
        facts = manifest["splits"][name]
        answerable, passages = facts["answerable"], max(facts["passages"], 1)
        total = sum(answerable.values())
        left_out = f", {total - len(rows)} without an answer in their passage left out" if total > len(rows) else ""
        passage, query = (max(length.tolist(), default=0) for length in rows.length)
        yield (
            f"  {name}: {len(rows)} queries of {facts['passages']} passages{left_out}; longest passage {passage}, "
            f"query {query} tokens"
        )
        each = f"{facts['candidates'] / passages:.1f} a passage"
        yield (
            f"    {facts['candidates']} candidates, {each}; answers among them: "
            f"{answerable['exact']} as they stand, {answerable['synonym']} by a synonym, {answerable['none']} not"
        )
        yield f"    right candidates that training never shows: {facts['answers_of_unseen_type']}"
        cut = facts["truncated"]
        if cut["passages"]:
            lost = f"{cut['tokens']} tokens dropped, {cut['answers']} answers lost"
            yield f"    truncated: {cut['passages']} passages, {lost}"
    types, words = manifest["candidates"], manifest["vocabulary"]
    yield f"  set-up {manifest['setup']}: {types['types']} phrases, {types['types_of_train']} of them in training"
    source = f"{words['with_vector']} with a vector ({words['source']})" if "source" in words else "random vectors"
    more = f"{words['of_other_splits']} of dev and test alone, {words['cut']} rare ones left out"
    yield f"  vocabulary: {words['words']} words, {source}; {more}"


LINES = {"nli": pairs, "diskne": folds, "cloze": queries}  # by the name of a task
