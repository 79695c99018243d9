"""`python -m mednli_jax.prepare`: a config's corpus as padded arrays on disk."""

import sys
import time

from mednli_jax import cli

USAGE = f"""Prepare a config's corpus: read, link, encode, write arrays. `train` does this by itself when needed.

  python -m mednli_jax.prepare --config=configs/esim_kd.py
  python -m mednli_jax.prepare --config=configs/esim_kd.py:mednli --config.knowledge.ontology=mesh

{cli.CONFIG_HELP}

Corpora are looked for in $MEDNLI_JAX_DATA/<corpus>/; the arrays go to $MEDNLI_JAX_CACHE (~/.cache/mednli_jax).
A second run finds them again; a change of the files, the settings or the code that reads them prepares anew."""


def define(values: cli.Flags) -> None:
    cli.define_config(values)


def main(values: cli.Flags) -> None:
    config = cli.config(values)
    from mednli_jax.data.prepared import prepare

    started = time.monotonic()
    prepared, hit = prepare(config)
    manifest = prepared.manifest
    print(f"{'found' if hit else 'prepared'} in {time.monotonic() - started:.1f} s: {prepared.folder}")
    for name, rows in prepared.splits.items():
        facts = manifest["splits"][name]
        dropped = f", {facts['dropped_unlabelled']} unlabelled dropped" if facts.get("dropped_unlabelled") else ""
        print(
            f"  {name}: {len(rows)} pairs{dropped}; longest premise {rows.length[0].max()}, "
            f"hypothesis {rows.length[1].max()} tokens"
        )
        if "tokens" in facts:
            print(
                "    tokens from: " + ", ".join(f"{kind} {count}" for kind, count in facts["tokens"].items() if count)
            )
    words = manifest["vocabulary"]
    print(f"  vocabulary: {words['words']} words, {words['with_vector']} with a vector ({words['source']})")
    truncated = manifest["truncated"]
    print(
        f"  truncated to {config.data.max_length} tokens: {truncated['premise']} premises, "
        f"{truncated['hypothesis']} hypotheses"
    )
    knowledge = manifest["knowledge"]
    if knowledge["ontology"] != "none":
        print(
            f"  {knowledge['ontology']} {knowledge['version']}: {knowledge['links']} links in "
            f"{knowledge['pairs_with_links']} pairs, longest path {knowledge['longest_path']}, "
            f"{knowledge['dropped_links']} links over max_links dropped"
        )


if __name__ == "__main__":
    sys.exit(cli.run(main, USAGE, define))
