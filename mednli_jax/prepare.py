"""`python -m mednli_jax.prepare`: a config's corpus as padded arrays on disk."""

import sys
import time

from mednli_jax import cli

USAGE = f"""Prepare a config's corpus: read, link, encode, write arrays. `train` does this by itself when needed.

  python -m mednli_jax.prepare --config=configs/esim_kd.py
  python -m mednli_jax.prepare --config=configs/esim_kd.py:mednli --config.knowledge.ontology=mesh
  python -m mednli_jax.prepare --config=configs/ga_ent.py

{cli.CONFIG_HELP}

Corpora are looked for in $MEDNLI_JAX_DATA/<corpus>/; the arrays go to $MEDNLI_JAX_CACHE (~/.cache/mednli_jax).
A second run finds them again; a change of the files, the settings or the number of a format prepares anew."""


def define(values: cli.Flags) -> None:
    cli.define_config(values)


def main(values: cli.Flags) -> None:
    config = cli.config(values)
    cloze = config.task == "cloze"
    if cloze:
        from mednli_jax.corpora.cloze.prepared import prepare
    elif config.task == "diskne":
        from mednli_jax.corpora.diskne.prepared import prepare
    else:
        from mednli_jax.corpora.nli.prepared import prepare

    started = time.monotonic()
    prepared, hit = prepare(config)
    print(f"{'found' if hit else 'prepared'} in {time.monotonic() - started:.1f} s: {prepared.folder}")
    for line in (_queries if cloze else _pairs)(config, prepared):
        print(line)


def _pairs(config, prepared):
    """Facts of a corpus of sentence pairs."""
    manifest = prepared.manifest
    for name, rows in prepared.splits.items():
        facts = manifest["splits"][name]
        dropped = f", {facts['dropped_unlabelled']} unlabelled dropped" if facts.get("dropped_unlabelled") else ""
        yield (
            f"  {name}: {len(rows)} pairs{dropped}; longest premise {rows.length[0].max()}, "
            f"hypothesis {rows.length[1].max()} tokens"
        )
        if "tokens" in facts:
            kinds = ", ".join(f"{kind} {count}" for kind, count in facts["tokens"].items() if count)
            yield f"    tokens from: {kinds}"
    words = manifest["vocabulary"]
    yield f"  vocabulary: {words['words']} words, {words['with_vector']} with a vector ({words['source']})"
    truncated = manifest["truncated"]
    yield (
        f"  truncated to {config.data.max_length} tokens: {truncated['premise']} premises, "
        f"{truncated['hypothesis']} hypotheses"
    )
    knowledge = manifest["knowledge"]
    if knowledge["ontology"] != "none":
        yield (
            f"  {knowledge['ontology']} {knowledge['version']}: {knowledge['links']} links in "
            f"{knowledge['pairs_with_links']} pairs, longest path {knowledge['longest_path']}, "
            f"{knowledge['dropped_links']} links over max_links dropped"
        )


def _queries(config, prepared):
    """Facts of a corpus of cloze queries."""
    manifest = prepared.manifest
    for name, rows in prepared.splits.items():
        facts = manifest["splits"][name]
        answerable, passages = facts["answerable"], max(facts["passages"], 1)
        asked = sum(answerable.values())
        left_out = f", {asked - len(rows)} without an answer in their passage left out" if asked > len(rows) else ""
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


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
