"""Training pairs chosen by premise, and of two corpora together; for transfer (Romanov & Shivade 2018, section 4.1)."""

import hashlib
from dataclasses import replace

from mednli_jax.data.examples import Split

MIXED_TAG = "domain:1"  # of the pairs that are mixed in; the corpus's own are domain 0


def sampled(split: Split, size: int) -> Split:
    """About `size` pairs of a split (at least as many, where it has them): whole premises, in the split's order.

    Premises are taken in the order of a hash of their first uid: the choice depends on nothing else, and that of a
    smaller size is part of that of a larger one.
    """
    groups = {}
    for example in split.examples:
        groups.setdefault(example.group or example.premise, []).append(example)
    order = sorted(groups.values(), key=lambda pairs: hashlib.sha256(pairs[0].uid.encode()).digest())
    chosen, count = set(), 0
    for pairs in order:
        if count >= size:
            break
        count += len(pairs)
        chosen.update(map(id, pairs))
    examples = tuple(example for example in split.examples if id(example) in chosen)
    return replace(split, examples=examples, facts={**split.facts, "sampled": size, "sampled_from": len(split)})


def mixed(target: dict[str, Split], source: Split, name: str) -> dict[str, Split]:
    """The target's splits, with as many of the source's training pairs among its own as it has itself.

    The pairs mixed in have MIXED_TAG. Dev and test stay the target's.
    """
    train = target["train"]
    added = sampled(source, len(train))
    pairs = tuple(replace(example, tags=(*example.tags, MIXED_TAG)) for example in added.examples)
    facts = {**train.facts, "mixed": {"corpus": name, "pairs": len(pairs), **added.facts}}
    return {**target, "train": replace(train, examples=train.examples + pairs, facts=facts)}
