"""Fact text: the bundled clinical facts and MeSH's names as plain sentences, for models that learn from text alone.

The facts that the DisKnE demo tests are stated here in other words. Its `terminological` premises describe diseases in
phrases that neither MeSH nor the table has, so that a model of this text cannot know them.
"""

from collections.abc import Iterator, Mapping, Sequence

from mednli_jax.corpora.demo.words import Draw, table
from mednli_jax.corpora.diskne.builder import disease_names
from mednli_jax.errors import ConfigError
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import natural_order, read_mesh

FORMAT = 1  # of the sentences; tests/corpora/test_prepared_content.py says when to raise it
NOTE = "demo fact text, synthetic: sentences of a bundled table and MeSH"
CONTENTS = ("facts", "names", "both")
SEED = 20211107
DOCUMENTS = 8  # of each disease for training, each with all its facts in other words and another order
TOGETHER = 3  # facts that a sentence states at most
CATEGORIES = ("symptoms", "treatments", "tests", "procedures")


def fact_text(content: str = "both", withhold: Sequence[str] = ()) -> dict[str, list[list[str]]]:
    """{"train" and "dev": documents, lists of sentences}; a document is about one disease. The same on every platform.

    Args:
      content: "facts" of the table, "names" of MeSH (synonyms, broader terms), or "both".
      withhold: diseases by their names or MeSH ids, and categories of facts, of which nothing is said.

    Raises: ConfigError for an unknown content, disease or category.
    """
    if content not in CONTENTS:
        raise ConfigError(f"config.data.content: unknown value '{content}'. Fix: give one of {', '.join(CONTENTS)}.")
    rows, ontology = table("clinical_facts")["conditions"], read_mesh()
    known = {name for row in rows for name in (row["name"], row["mesh"])} | set(CATEGORIES)
    if unknown := sorted(set(withhold) - known):
        problem = f"config.data.withhold: no disease or category '{unknown[0]}'"
        raise ConfigError(f"{problem}. Fix: give names or MeSH ids of clinical_facts.json, or {', '.join(CATEGORIES)}.")
    kept = [row for row in rows if row["name"] not in withhold and row["mesh"] not in withhold]
    categories = [category for category in CATEGORIES if category not in withhold]
    names = disease_names(ontology, [row["mesh"] for row in rows])[1]
    draw, found = Draw(SEED), {"train": [], "dev": []}
    for number in range(DOCUMENTS + 1):
        for row in draw.shuffled(kept):
            sentences = list(_about_names(draw, row, names, ontology)) if content != "facts" else []
            if content != "names":
                sentences += _about_facts(draw, row, categories)
            if sentences:
                found["dev" if number == DOCUMENTS else "train"].append(draw.shuffled(sentences))
    return found


def _about_facts(draw: Draw, row: dict, categories) -> Iterator[str]:
    """Each fact of the disease once, up to three in a sentence."""
    for category in categories:
        facts = draw.shuffled(row[category])
        while facts:
            size = 1 + draw.below(min(TOGETHER, len(facts)))
            stated, facts = facts[:size], facts[size:]
            name = draw.choice((row["name"], row["name"], *row["short"]))
            yield draw.choice(table("fact_words")["frames"][category]).format(x=name, f=_listed(stated))


def _about_names(draw: Draw, row: dict, names: Mapping[str, Sequence[str]], ontology: Ontology) -> Iterator[str]:
    """The other names of the disease, and one of its broader terms."""
    words, own = table("fact_words"), row["name"]
    # "syndrome, sjogren's" is a heading of an index, no name that texts have.
    others = {name.lower() for name in (*row["short"], *names.get(row["mesh"], ())) if ", " not in name} - {own}
    for name in sorted(others):
        yield draw.choice(words["names"]).format(x=own, s=name)
    if broader := [term for term, steps in ontology.ancestors(row["mesh"]).items() if steps == 1]:
        label = ontology.labels[ontology.index(draw.choice(sorted(broader)))]
        kind = (natural_order(label) or label).lower()
        yield draw.choice(words["kinds"]).format(x=own, k=kind)


def _listed(facts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(facts[:-1]), facts[-1])))
