"""Cloze queries: passages and queries written by hand, a random corpus, and files in CliCR's
layout."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mednli_jax.cloze.clicr import FILES, parse_marked
from mednli_jax.data.examples import PLACEHOLDER, Answer, ClozeExample, Entity, Passage, Split
from support.pair_files import SECRET

Json = dict[str, Any]

WORDS = [f"w{n}" for n in range(30)]
PHRASES = ("fever", "dry cough", "skin rash", "gout", "chest pain")


# ---- a random corpus ----


def corpus(own: Sequence[str] = ("xylo",)) -> dict[str, Split]:
    """Three random splits. own: words of dev alone."""
    return {
        "train": split("train", 1),
        "dev": split("dev", 2, own=own),
        "test": split("test", 3, passages=3),
    }


def split(name: str, seed: int, passages: int = 7, own: Sequence[str] = ()) -> Split:
    """Random passages. Some have no marks, and some answers are not candidates. own: words of this
    split alone."""
    rng = random.Random(seed)
    vocabulary = [*WORDS, *own]

    def words(count: int) -> str:
        return " ".join(rng.choices(vocabulary, k=count))

    examples = []
    for number in range(passages):
        phrases = [words(rng.randint(1, 3)) for _ in range(5)] if number % 5 != 4 else []
        tokens = []
        for _ in range(40):
            is_marked = phrases and rng.random() < 0.3
            tokens.append(mark(rng.choice(phrases)) if is_marked else rng.choice(vocabulary))
        title = f"On {mark(rng.choice(vocabulary))}"
        passage = clicr_passage(f"{name}{number}", title, " ".join(tokens))
        for n in range(3):
            query = parse_marked(f"{words(rng.randint(0, 9))} @placeholder {words(4)}")
            answers = (
                Answer(rng.choice([*phrases, "not there"]), "C1", "test"),
                Answer(rng.choice([*phrases, "nor this"]), "C1", "", "UMLS"),
            )
            uid = f"{passage.uid}.{n}"
            blank = query.blanks[0]
            examples.append(ClozeExample(uid, passage, query.tokens, (), blank, answers))
    return Split(name, tuple(examples), {"file": f"{name}1.0.json"})


def mark(phrase: str) -> str:
    """The phrase as CliCR's files mark an entity."""
    return f"BEG__{phrase}__END"


def clicr_passage(uid: str, title: str, context: str) -> Passage:
    """A passage whose entities are marked as in CliCR's files."""
    head = parse_marked(title)
    text = parse_marked(context)
    return Passage(
        uid,
        head.tokens,
        text.tokens,
        text.entities,
        text.sentences,
        "",
        head.entities,
    )


def own_slice(
    arrays: dict[str, np.ndarray], name: str, number: int, start: str | None = None
) -> list[Any]:
    """The slice of a flat array that belongs to a passage."""
    first, end = arrays[f"{start or name}_start"][number : number + 2]
    return arrays[name][first:end].tolist()


# ---- written by hand ----


def marked(text: str) -> tuple[tuple[str, ...], tuple[Entity, ...]]:
    """The tokens of a text such as "the [chest pain] went", and the entities in brackets."""
    tokens: list[str] = []
    entities = []
    start = 0
    for token in text.split():
        if token.startswith("["):
            start = len(tokens)
        tokens.append(token.strip("[]"))
        if token.endswith("]"):
            entities.append(Entity(start, len(tokens)))
    return tuple(tokens), tuple(entities)


def passage(text: str, uid: str = "p") -> Passage:
    """A passage; | separates its sentences."""
    tokens, entities = marked(text.replace("|", " "))
    lengths = [len(sentence.split()) for sentence in text.split("|")]
    return Passage(uid, (), tokens, entities, tuple(np.cumsum(lengths).tolist()))


def cloze(
    uid: str,
    text: str | Passage,
    query: str,
    *answers: str,
    kind: str = "problem",
    tags: tuple[str, ...] = (),
) -> ClozeExample:
    """A query about a passage (its text, or a Passage). `_` is the blank, and the first answer is
    the dataset's."""
    tokens, entities = marked(query.replace("_", PLACEHOLDER))
    about = passage(text) if isinstance(text, str) else text
    accepted: list[Answer] = []
    for answer in answers:
        accepted.append(Answer(answer, "C1", kind, "UMLS" if accepted else "dataset"))
    blank = tokens.index(PLACEHOLDER)
    return ClozeExample(
        uid,
        about,
        tokens,
        entities,
        blank,
        tuple(accepted),
        tags,
    )


# ---- files ----


def clicr_query(uid: str, text: str, answer: str, kind: str = "problem") -> Json:
    """A query with the dataset's answer."""
    answers = [
        {
            "text": answer,
            "cui": "C1",
            "sem_type": kind,
            "origin": "dataset",
        }
    ]
    return {"id": uid, "query": text, "answers": answers}


def write_split(folder: Path, split: str, documents: Iterable[Json]) -> None:
    """Writes the file of a split in CliCR's layout."""
    articles = [{"source": f"{split}{n}", "document": text} for n, text in enumerate(documents)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILES[split]).write_text(json.dumps({"version": "1.0", "data": articles}))


def write_articles(folder: Path) -> Path:
    """Writes articles with three phrases and three queries each; the last test article has no
    phrase."""
    rng = random.Random(3)
    for split, count in (
        ("train", 4),
        ("dev", 2),
        ("test", 3),
    ):
        documents = []
        for number in range(count):
            phrases = [] if (split, number) == ("test", 2) else rng.sample(PHRASES, 3)
            queries = []
            for n, kind in enumerate(("problem", "test", "problem")):
                answer = phrases[n] if phrases else "fever"
                text = f"case {n} had @placeholder ."
                queries.append(clicr_query(f"{split}{number}.{n}", text, answer, kind))
            marked = " and ".join(map(mark, phrases))
            context = f"{SECRET} shows {marked} .\nNo more ."
            documents.append({"title": "A case", "context": context, "qas": queries})
        write_split(folder, split, documents)
    return folder


def write_clicr(folder: Path) -> Path:
    """Writes a data folder's clicr/, with signs, accents and numbers."""
    synonym = {"text": "podagra", "cui": "", "sem_type": None, "origin": "UMLS"}
    for split in FILES:
        documents = []
        for number in range(4):
            queries = []
            for n in range(number % 3):
                text = f"a BEG__b c__END {n} @placeholder , 1.50"
                query = clicr_query(f"{split}{number}.{n}", text, f"gout № {number}")
                query["answers"].append(synonym)
                queries.append(query)
            title = "BEG__T__END x" * (number % 2)
            marked = f"naïve BEG__Gout № {number}__END\n'' BEG__x {number}__END"
            context = f"{marked} , x . {'more words ' * number}"
            documents.append(
                {
                    "title": title,
                    "context": context,
                    "qas": queries,
                    "specialty": "s",
                }
            )
        write_split(folder / "clicr", split, documents)
    return folder
