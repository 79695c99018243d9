"""How much of the demo corpus is solved by models that see only a part of it.

  python launch/demo_controls.py [--size=demo]

Prints a table of accuracies on the whole test split, on its unseen relations and on the rest. One classifier sees only
the hypothesis, one only the premise, and one only the distances of a pair's concept links. Sizes of the corpus follow.
The corpus is sound if the hypothesis alone reaches 50-60 % over all pairs, the distances alone at most 45 %, and both
about 1/3 on unseen relations. The script takes about half a minute and needs scikit-learn.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from mednli_jax.corpora.demo.nli import SIZES, UNSEEN, load_demo
from mednli_jax.examples import LABELS, NLIExample, Split
from mednli_jax.knowledge.distances import corpus_links
from mednli_jax.knowledge.linking import Linker
from mednli_jax.knowledge.readers.mesh import read_mesh

MAX_LINKS, MAX_TOKENS, LONGEST = 64, 200, 8


@dataclass(frozen=True)
class Control:
    """Test accuracies (0-1) of one blind classifier."""

    name: str
    whole: float
    unseen: float
    rest: float


def labels(split: Split) -> np.ndarray:
    """int [N], the index of each label in LABELS."""
    return np.array([LABELS.index(example.label) for example in split.examples])


def scored(name: str, predicted: np.ndarray, test: Split) -> Control:
    """The accuracy over all of `test`, over its unseen relations, and over the others."""
    right = predicted == labels(test)
    unseen = np.array([UNSEEN in example.tags for example in test.examples])
    return Control(name, right.mean(), right[unseen].mean(), right[~unseen].mean())


def text_control(name: str, splits: dict[str, Split], tokens) -> Control:
    """Logistic regression on the unigrams and bigrams of `tokens(example)`, lower-cased."""
    words = CountVectorizer(analyzer=lambda example: ngrams(tokens(example)), binary=True)
    train = words.fit_transform(splits["train"].examples)
    model = LogisticRegression(max_iter=500).fit(train, labels(splits["train"]))
    return scored(name, model.predict(words.transform(splits["test"].examples)), splits["test"])


def ngrams(tokens: Sequence[str]) -> list[str]:
    """Unigrams and bigrams, lower-cased, with a mark at both ends."""
    words = ["<s>", *(token.lower() for token in tokens), "</s>"]
    return words[1:-1] + [f"{left} {right}" for left, right in pairwise(words)]


def link_features(examples: Sequence[NLIExample], linker: Linker) -> np.ndarray:
    """float [N, 11]: links of each length 0-8 per pair, their number, the shortest length (-1 where there is none)."""
    premises = {example.group: linker.link(example.premise_tokens) for example in examples}
    links = corpus_links(
        linker.ontology,
        [premises[example.group] for example in examples],
        [linker.link(example.hypothesis_tokens) for example in examples],
        max_links=MAX_LINKS,
        max_tokens=MAX_TOKENS,
    )
    counts = np.stack([(links.distance == length).sum(1) for length in range(LONGEST + 1)], axis=1)
    number = (links.distance >= 0).sum(1)
    shortest = np.where(number > 0, np.where(links.distance < 0, LONGEST + 1, links.distance).min(1), -1)
    return np.column_stack([counts, number, shortest]).astype(float)


def distance_controls(splits: dict[str, Split], linker: Linker) -> list[Control]:
    """Gradient boosting and logistic regression on `link_features`."""
    train, test = (link_features(splits[name].examples, linker) for name in ("train", "test"))
    models = {
        "distances alone, boosting": HistGradientBoostingClassifier(max_iter=100, random_state=0),
        "distances alone, logistic": LogisticRegression(max_iter=2000),
    }
    target = labels(splits["train"])
    return [scored(name, model.fit(train, target).predict(test), splits["test"]) for name, model in models.items()]


def shape_lines(split: Split) -> list[str]:
    """Lines of text: sentence lengths, label balance and shares of one split."""
    premise = [len(example.premise_tokens) for example in split.examples]
    hypothesis = [len(example.hypothesis_tokens) for example in split.examples]
    balance = Counter(example.label for example in split.examples)
    relation = sum(bool(example.tags) for example in split.examples) / len(split)
    long = sum(length > 50 for length in premise) / len(split)
    return [
        f"{split.name}: {len(split)} pairs, {', '.join(f'{label} {balance[label]}' for label in LABELS)}",
        f"  premise {np.mean(premise):.1f} tokens (longest {max(premise)}, over 50: {long:.1%}), "
        f"hypothesis {np.mean(hypothesis):.1f} (longest {max(hypothesis)})",
        f"  relation groups {relation:.1%} of the pairs, {split.facts['relation_pairs']} distinct pairs of concepts",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=tuple(SIZES), default="demo", help="which demo corpus")
    size = parser.parse_args().size
    linker = Linker(read_mesh())
    splits = load_demo(size, linker=linker)
    controls = [
        text_control("hypothesis alone", splits, lambda example: example.hypothesis_tokens),
        text_control("premise alone", splits, lambda example: example.premise_tokens),
        *distance_controls(splits, linker),
    ]
    print(f"{'accuracy on test, %':<28}{'whole':>8}{'unseen':>8}{'rest':>8}")
    for control in controls:
        print(f"{control.name:<28}{control.whole:>8.1%}{control.unseen:>8.1%}{control.rest:>8.1%}")
    for split in splits.values():
        print("\n".join(shape_lines(split)))


if __name__ == "__main__":
    main()
