"""Cloze queries: passages and queries written by hand, a random corpus, and files in CliCR's
layout.
"""

import json
import random

import numpy as np

from mednli_jax.cloze.clicr import FILES, parse_marked
from mednli_jax.data.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage, Split
from support.pair_files import SECRET

WORDS = [f"w{n}" for n in range(30)]


def split(name, seed, passages=7, queries=3, own=()):
    """Random passages. Some have no marks, and some answers are not candidates. own: words of this
    split alone."""
    rng, examples = random.Random(seed), []
    words = [*WORDS, *own]
    for number in range(passages):
        phrases = (
            [" ".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(5)]
            if number % 5 != 4
            else []
        )
        parts = [
            f"BEG__{rng.choice(phrases)}__END"
            if phrases and rng.random() < 0.3
            else rng.choice(words)
            for _ in range(40)
        ]
        title, context = (
            parse_marked(f"On BEG__{rng.choice(words)}__END"),
            parse_marked(" ".join(parts)),
        )
        passage = Passage(
            f"{name}{number}",
            title.tokens,
            context.tokens,
            context.entities,
            context.sentences,
            "",
            title.entities,
        )
        for query in range(queries):
            marked = parse_marked(
                " ".join(
                    [
                        *rng.choices(words, k=rng.randint(0, 9)),
                        "@placeholder",
                        *rng.choices(words, k=4),
                    ]
                )
            )
            texts = [rng.choice([*phrases, "not there"]), rng.choice([*phrases, "nor this"])]
            answers = (Answer(texts[0], "C1", "test"), Answer(texts[1], "C1", "", "UMLS"))
            uid = f"{name}{number}.{query}"
            examples.append(
                ClozeExample(uid, passage, marked.tokens, (), marked.blanks[0], answers)
            )
    return Split(name, tuple(examples), {"file": f"{name}1.0.json"})


def corpus(own=("xylo",)):
    return {
        "train": split("train", 1),
        "dev": split("dev", 2, own=own),
        "test": split("test", 3, passages=3),
    }


def own_part(arrays, name, number, start=None):
    """The part of a flat array that belongs to a passage."""
    first, last = arrays[f"{start or name}_start"][number : number + 2]
    return arrays[name][first:last].tolist()


def marked(text):
    """The tokens of a text such as "the [chest pain] went", and the entities in brackets."""
    tokens, entities, start = [], [], 0
    for token in text.split():
        if token.startswith("["):
            start = len(tokens)
        tokens.append(token.strip("[]"))
        if token.endswith("]"):
            entities.append(Entity(start, len(tokens)))
    return tuple(tokens), tuple(entities)


def passage(text, uid="p"):
    """A passage; | separates its sentences."""
    tokens, entities = marked(text.replace("|", " "))
    ends = np.cumsum([len(sentence.split()) for sentence in text.split("|")])
    return Passage(uid, (), tokens, entities, tuple(map(int, ends)))


def cloze(uid, text, query, *answers, kind="problem", tags=()):
    """A query about a passage (its text, or a Passage). `_` is the blank, and the first answer is
    the dataset's."""
    tokens, entities = marked(query)
    tokens = tuple(PLACEHOLDER if token == "_" else token for token in tokens)
    own = (
        Answer(answers[0], "C1", kind, "dataset"),
        *(Answer(a, "C1", kind, "UMLS") for a in answers[1:]),
    )
    about = passage(text) if isinstance(text, str) else text
    return ClozeExample(uid, about, tokens, entities, tokens.index(PLACEHOLDER), own, tags)


def write_clicr(folder):
    """Writes a data folder's clicr/, with signs, accents and numbers."""
    for split, file in FILES.items():
        data = []
        for n in range(4):
            answers = [
                {"text": f"gout № {n}", "cui": "C1", "sem_type": "problem", "origin": "dataset"},
                {"text": "podagra", "cui": "", "sem_type": None, "origin": "UMLS"},
            ]
            texts = [f"a BEG__b c__END {q} @placeholder , 1.50" for q in range(n % 3)]
            queries = [
                {"id": f"{split}{n}.{q}", "query": text, "answers": answers}
                for q, text in enumerate(texts)
            ]
            context = f"naïve BEG__Gout № {n}__END\n'' BEG__x {n}__END , x . " + "more words " * n
            document = {"title": "BEG__T__END x" * (n % 2), "context": context, "qas": queries}
            data.append({"source": f"{split}{n}", "document": {**document, "specialty": "s"}})
        path = folder / "clicr" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": "1.0", "data": data}))
    return folder


PHRASES = ("fever", "dry cough", "skin rash", "gout", "chest pain")


def write_articles(folder):
    """Writes articles in CliCR's layout with three phrases and three queries each; the last test
    article has none."""
    folder.mkdir(parents=True)
    draw = random.Random(3)
    for split, count in (("train", 4), ("dev", 2), ("test", 3)):
        articles = []
        for number in range(count):
            phrases = [] if (split, number) == ("test", 2) else draw.sample(PHRASES, 3)
            marked = " and ".join(f"BEG__{phrase}__END" for phrase in phrases)
            queries = [
                {
                    "id": f"{split}{number}.{query}",
                    "query": f"case {query} had @placeholder .",
                    "answers": [{
                        "text": phrases[query] if phrases else "fever", "cui": "C1",
                        "sem_type": ("problem", "test")[query % 2], "origin": "dataset",
                    }],
                }
                for query in range(3)
            ]  # fmt: skip
            document = {
                "title": "A case",
                "context": f"{SECRET} shows {marked} .\nNo more .",
                "qas": queries,
            }
            articles.append({"source": f"{split}{number}", "document": document})
        (folder / f"{split}1.0.json").write_text(json.dumps({"version": "1.0", "data": articles}))
    return folder
