"""Demo DisKnE: a benchmark of disease knowledge made from the bundled clinical facts and MeSH, free of any record.

Twenty-two diseases in two clusters of neighbours; two premises for each disease and category, each paired with the
disease itself and with the ten others of its cluster. A premise states facts (clinical_facts.json, and the other words
for a disease in diskne_words.json) that the table has together for one disease alone. Only this decides the label,
never the words. Every disease is claimed equally often, one time in eleven truly, so that a hypothesis alone tells
nothing.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from mednli_jax.corpora.demo.words import Draw, fill, share_word, styled, table
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, POSITIVE, Benchmark, Positive, assembled, premise_key
from mednli_jax.corpora.diskne.builder import Kinship, disease_names, shuffled, similar
from mednli_jax.corpora.diskne.builder import negatives as others_of
from mednli_jax.errors import ConfigError
from mednli_jax.examples import NLIExample
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.text import treebank_tokens

FORMAT = 1  # of the examples; tests/corpora/test_prepared_content.py says when to raise it
NOTE = "demo benchmark, synthetic: not comparable with DisKnE"
SEED = 20210801
PREMISES = 2  # of a disease in a category: the fewest for which the category reports it
NEGATIVES = ("similar", "random")
# Number of facts of a premise if the table offers more; there are few procedures, and each is specific.
STATED = {"symptoms": (2, 1), "treatments": (2, 1), "tests": (2, 1), "procedures": (1, 2)}


def load_demo_diskne(
    *, negatives: str = "similar", wording: str = "name", seed: int = 0, ontology: Ontology | None = None
) -> Benchmark:
    """Make the demo benchmark; the same examples on every platform and Python version.

    Args:
      negatives: "similar", the other diseases of the cluster, or "random" ones of all, ten for a positive example.
      wording: of the hypotheses, one of WORDINGS.
      seed: of random negatives.
      ontology: `read_mesh()`, if the caller has it already.

    Raises: UserError for unknown words; ValueError where the bundled table does not single a disease out.
    """
    if negatives not in NEGATIVES:
        raise ConfigError(f"negatives are '{negatives}'. Fix: give one of {', '.join(NEGATIVES)}.")
    ontology = read_mesh() if ontology is None else ontology
    rows = diseases()
    positives = list(_positives(rows))
    names = {row["mesh"]: row["name"] for row in rows}
    synonyms = disease_names(ontology, list(names))[1]
    synonyms = {row["mesh"]: (*synonyms[row["mesh"]], *row["short"]) for row in rows}
    clusters = np.eye(len(table("diskne_words")["clusters"]))
    neighbours = {row["mesh"]: clusters[row["cluster"]] for row in rows}
    ranking = similar(neighbours) if negatives == "similar" else shuffled(seed)
    facts = {
        "note": NOTE,
        "seed": SEED,
        "negatives_are": negatives,
        "negatives_seed": seed if negatives == "random" else -1,
        "ontology_sha256": ontology.sha256,
    }
    made_up = others_of(positives, ranking, Kinship(ontology))
    return assembled("demo_diskne", positives, made_up, names, synonyms, wording, facts)


def diseases() -> list[dict]:
    """The benchmark's rows of clinical_facts.json, with their facts by category and the number of their cluster."""
    rows = {row["name"]: row for row in table("clinical_facts")["conditions"]}
    return [
        rows[name] | {"cluster": number, "terminological": rephrased}
        for number, cluster in enumerate(table("diskne_words")["clusters"].values())
        for name, rephrased in cluster.items()
    ]


def entails(facts: tuple[str, ...], row: dict, category: str) -> bool:
    """Whether the table has all these facts for a disease, so that a premise with them shows it."""
    return set(facts) <= set(row[category])


def telling(rows: list[dict], row: dict, category: str) -> list[tuple[str, ...]]:
    """The combinations of a disease's facts that the table has for it alone and that share no word with its names."""
    if category == "terminological":
        return [(phrase,) for phrase in row[category]]
    names = (row["name"], *row["short"])
    own = [fact for fact in row[category] if not any(share_word(fact, name) for name in names)]
    return [
        facts
        for size in STATED[category]
        for facts in combinations(own, size)
        if not any(entails(facts, other, category) for other in rows if other is not row)
    ]


def _positives(rows: list[dict]) -> Iterator[Positive]:
    draw, seen = Draw(SEED), set()
    for row in rows:
        number = 0
        for category in CATEGORIES:
            chosen = draw.shuffled(telling(rows, row, category))[:PREMISES]
            if len(chosen) < PREMISES:
                raise ValueError(f"{row['name']}: too few {category} of its own in clinical_facts.json")
            for facts in chosen:
                premise = _premise(draw, category, facts)
                while premise_key(premise) in seen:
                    premise = _premise(draw, category, facts)
                seen.add(premise_key(premise))
                frame = draw.choice(table("diskne_words")["hypotheses"])
                hypothesis, start = frame.format(x=row["name"]), frame.index("{x}")
                tokens = treebank_tokens(premise), treebank_tokens(hypothesis)
                pair = NLIExample(f"demo-{row['mesh']}-{number}", premise, hypothesis, POSITIVE, *tokens)
                yield Positive(pair, row["mesh"], category, start, start + len(row["name"]))
                number += 1


def _premise(draw: Draw, category: str, facts: tuple[str, ...]) -> str:
    """A statement of the facts behind an opener, at times with a remark that has nothing to do with it."""
    words = table("nli_words")
    stated = draw.choice((" and ", ", ")).join(draw.shuffled(facts))
    openers = [opener for opener in words["openers"] if opener != "pmh"]  # symptoms do not stand under this heading
    frames = table("diskne_words")["frames"][category]
    parts = [fill(draw, draw.choice(openers)), fill(draw, draw.choice(frames), facts=stated)]
    if draw.chance(0.4):
        parts.append(fill(draw, draw.choice(words["fillers"])))
    return styled(draw, ", ".join(filter(None, parts)), 0.6, 0.7)
