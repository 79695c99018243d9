"""Demo DisKnE: a benchmark of disease knowledge made from the bundled clinical facts and MeSH, free of any record.

Twenty-two diseases in two clusters of neighbours; two premises for each disease and category, each with the disease
itself and the ten others of its cluster. A premise states facts (clinical_facts.json, and the rephrased names below)
that the table has together for one disease alone: that decides the label, and nothing in the words does. Every
disease is claimed equally often, one time in eleven truly, so that a hypothesis alone tells nothing.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from mednli_jax.corpora.demo import nli_templates as wording_of
from mednli_jax.corpora.demo.nli_facts import conditions
from mednli_jax.corpora.demo.nli_relations import Draw, share_word
from mednli_jax.corpora.diskne.benchmark import CATEGORIES, POSITIVE, Benchmark, Positive, assembled, premise_key
from mednli_jax.corpora.diskne.builder import disease_names
from mednli_jax.corpora.diskne.negatives import Kinship, Ranking, shuffled, similar
from mednli_jax.corpora.diskne.negatives import negatives as others_of
from mednli_jax.errors import ConfigError
from mednli_jax.examples import NLIExample
from mednli_jax.knowledge.ontology import Ontology
from mednli_jax.knowledge.readers.mesh import read_mesh
from mednli_jax.text import treebank_tokens

FORMAT = 1  # of the examples; tests/corpora/test_prepared_content.py says when to raise it
NOTE = "demo benchmark, synthetic: not comparable with DisKnE"
SEED = 20210801
PREMISES = 2  # of a disease in a category: what a category needs to report the disease
NEGATIVES = ("similar", "random")

# Cluster -> disease as clinical_facts.json calls it -> other words for it, each understood of this disease alone.
CLUSTERS = {
    "chest": {
        "heart failure": ("chf", "a heart too weak to pump enough blood"),
        "stable angina": ("predictable coronary pain on effort", "coronary chest pain that rest relieves"),
        "atrial fibrillation": ("afib", "chaotic quivering of the upper heart chambers"),
        "ventricular tachycardia": ("vtach", "a rapid rhythm from the lower heart chambers"),
        "complete heart block": ("chb", "third degree av dissociation"),
        "cardiogenic shock": ("circulatory collapse from pump failure", "hypoperfusion from a failing left pump"),
        "chronic obstructive pulmonary disease": ("copd", "lasting airflow limitation of a smoker"),
        "pneumonia": ("pna", "infection of the air sacs of the lung"),
        "pleural effusion": ("fluid around the lung", "liquid between lung and chest wall"),
        "cystic fibrosis": ("cf", "an inherited cftr defect w/ thick secretions"),
        "lung cancer": ("bronchogenic carcinoma", "a malignant tumor of the bronchus"),
    },
    "abdomen": {
        "achalasia": ("cardiospasm", "a lower esophageal sphincter that fails to relax"),
        "peptic ulcer disease": ("pud", "sores in the lining of stomach and duodenum"),
        "gastrointestinal bleeding": ("gib", "blood loss from the gut"),
        "crohn's disease": ("regional enteritis", "transmural granulomatous inflammation of the ileum"),
        "glomerulonephritis": ("inflamed filtering tufts of the kidney", "bright's disease"),
        "small bowel obstruction": ("sbo", "a blocked jejunum"),
        "clostridium difficile colitis": ("cdiff", "pseudomembranous enterocolitis"),
        "pancreatic cancer": ("a malignancy of the gland that makes insulin", "adenocarcinoma behind the stomach"),
        "cirrhosis": ("end stage scarring of the liver", "a nodular shrunken liver"),
        "kidney stones": ("nephrolithiasis", "renal calculi"),
        "end-stage renal disease": ("esrd", "permanent loss of all filtration by the nephrons"),
    },
}
FRAMES = {
    "symptoms": (
        "p/w {facts}",
        "c/o {facts}",
        "presents w/ {facts} since [**{date}**]",
        "came to the ED w/ {facts}",
        "exam and history notable for {facts}",
    ),
    "treatments": (
        "home meds: {facts}",
        "started on {facts}",
        "maintained on {facts}",
        "d/c'd on {facts}",
        "given {facts} at OSH",
    ),
    "tests": (
        "workup w/ {facts} diagnostic",
        "{facts} on [**{date}**] abnormal",
        "labs and studies notable for abnormal {facts}",
        "{facts} positive at [**Hospital{k} {n}**]",
    ),
    "procedures": (
        "s/p {facts} in [**{year}**]",
        "underwent {facts} on [**{date}**]",
        "taken for {facts}",
        "s/p recent {facts}",
    ),
    "terminological": ("h/o {facts}", "pmh: {facts}", "known {facts}", "problem list includes {facts}"),
}
HYPOTHESES = (
    "patient has {x}",
    "the patient has {x}",
    "patient was diagnosed with {x}",
    "there is evidence of {x}",
    "patient suffers from {x}",
)
OPENERS = tuple(
    opener for opener in wording_of.OPENERS if opener != "pmh"
)  # a heading that symptoms do not stand under
# How many facts a premise states where the table leaves a choice; procedures are few and telling.
SIZES = {"symptoms": (2, 1), "treatments": (2, 1), "tests": (2, 1), "procedures": (1, 2)}


def load_demo_diskne(
    *, negatives: str = "similar", wording: str = "name", seed: int = 0, ontology: Ontology | None = None
) -> Benchmark:
    """Make the demo benchmark; the same examples on every platform and Python version.

    negatives: "similar", the other diseases of the cluster, or "random" ones of all (`seed`), ten a positive example.
    wording: of the hypotheses, one of WORDINGS. ontology: `read_mesh()` where the caller has it already.
    Raises: UserError for unknown words; ValueError where the bundled table does not single a disease out.
    """
    if negatives not in NEGATIVES:
        raise ConfigError(f"negatives are '{negatives}'. Fix: give one of {', '.join(NEGATIVES)}.")
    ontology = read_mesh() if ontology is None else ontology
    table = relations()
    positives = list(_positives(table))
    names = {row["mesh"]: row["name"] for row in table.values()}
    synonyms = disease_names(ontology, list(names))[1]
    synonyms = {row["mesh"]: (*synonyms[row["mesh"]], *row["short"]) for row in table.values()}
    ranking = _neighbours(table) if negatives == "similar" else shuffled(seed)
    facts = {
        "note": NOTE,
        "seed": SEED,
        "negatives_are": negatives,
        "negatives_seed": seed if negatives == "random" else -1,
        "ontology_sha256": ontology.sha256,
    }
    made_up = others_of(positives, ranking, Kinship(ontology))
    return assembled("demo_diskne", positives, made_up, names, synonyms, wording, facts)


def relations() -> dict[str, dict]:
    """The relation table of the demo's diseases: name -> mesh, short, cluster, and a tuple of facts per category."""
    rows = {row["name"]: row for row in conditions()}
    return {
        name: {
            "name": name,
            "mesh": rows[name]["mesh"],
            "short": rows[name]["short"],
            "cluster": cluster,
            **{category: tuple(rows[name][category]) for category in SIZES},
            "terminological": rephrased,
        }
        for cluster, diseases in CLUSTERS.items()
        for name, rephrased in diseases.items()
    }


def entails(facts: tuple[str, ...], row: dict, category: str) -> bool:
    """Whether the table has all these facts for a disease: then a premise that states them shows it."""
    return set(facts) <= set(row[category])


def telling(table: dict[str, dict], name: str, category: str) -> list[tuple[str, ...]]:
    """The combinations of a disease's facts that the table has for it alone and that share no word with its names."""
    row = table[name]
    if category == "terminological":
        return [(phrase,) for phrase in row[category]]
    own = [fact for fact in row[category] if not any(share_word(fact, called) for called in (name, *row["short"]))]
    others = [other for other in table.values() if other["name"] != name]
    return [
        facts
        for size in SIZES[category]
        for facts in combinations(own, size)
        if not any(entails(facts, other, category) for other in others)
    ]


def _positives(table: dict[str, dict]) -> Iterator[Positive]:
    draw, seen = Draw(SEED), set()
    for name, row in table.items():
        number = 0
        for category in CATEGORIES:
            chosen = draw.shuffled(telling(table, name, category))[:PREMISES]
            if len(chosen) < PREMISES:
                raise ValueError(f"{name}: too few {category} of its own in clinical_facts.json")
            for facts in chosen:
                premise = _premise(draw, category, facts)
                while premise_key(premise) in seen:
                    premise = _premise(draw, category, facts)
                seen.add(premise_key(premise))
                yield _positive(f"demo-{row['mesh']}-{number}", premise, draw.choice(HYPOTHESES), row, category)
                number += 1


def _positive(uid: str, premise: str, frame: str, row: dict, category: str) -> Positive:
    hypothesis = frame.format(x=row["name"])
    start = frame.index("{x}")
    tokens = treebank_tokens(premise), treebank_tokens(hypothesis)
    pair = NLIExample(uid, premise, hypothesis, POSITIVE, *tokens)
    return Positive(pair, row["mesh"], category, start, start + len(row["name"]))


def _premise(draw: Draw, category: str, facts: tuple[str, ...]) -> str:
    """A statement of the facts behind an opener, at times with a remark that has nothing to do with it."""
    stated = draw.choice((" and ", ", ")).join(draw.shuffled(facts))
    parts = [
        wording_of.fill(draw, draw.choice(OPENERS)),
        wording_of.fill(draw, draw.choice(FRAMES[category]), facts=stated),
    ]
    if draw.chance(0.4):
        parts.append(wording_of.fill(draw, draw.choice(wording_of.FILLERS)))
    text = ", ".join(filter(None, parts))
    return (text[0].upper() + text[1:] if draw.chance(0.6) else text) + ("." if draw.chance(0.7) else "")


def _neighbours(table: dict[str, dict]) -> Ranking:
    """Ranks the diseases of the same cluster first."""
    clusters = list(CLUSTERS)
    return similar({row["mesh"]: np.eye(len(clusters))[clusters.index(row["cluster"])] for row in table.values()})
