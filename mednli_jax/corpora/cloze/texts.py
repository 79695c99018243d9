"""The strings that belong to the arrays of a prepared corpus of cloze queries (corpora.cloze.encoding)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mednli_jax.corpora.arrays import Prepared, Rows
from mednli_jax.corpora.cloze.views import ENTITY
from mednli_jax.examples import Answer


@dataclass(frozen=True)
class Query:
    """A query as `answers` reads it: accepted answers, the dataset's first, and tags."""

    uid: str
    answers: tuple[Answer, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Texts:
    """The strings that belong to a prepared corpus's arrays: the candidates' phrases and the accepted answers."""

    arrays: Mapping[str, np.ndarray]

    def candidates(self, passage: int) -> tuple[str, ...]:
        """The candidates of a passage in the order of their numbers."""
        text = self._piece("candidate_text", passage)
        return tuple(text.split("\n")) if text else ()

    def answers(self, row: int) -> tuple[Answer, ...]:
        """All answers of a query, the dataset's first."""
        return tuple(Answer(*fields) for fields in json.loads(self._piece("answer_text", row)))

    def queries(self, rows: Rows) -> list[Query]:
        """The queries of a split as `answers` reads them."""
        return [
            Query(uid, self.answers(rows.first + row), tags)
            for row, (uid, tags) in enumerate(zip(rows.uids, rows.tags, strict=True))
        ]

    def _piece(self, name, number):
        start, end = self.arrays[f"{name}_start"][number : number + 2]
        return self.arrays[name][start:end].tobytes().decode()


def types_of_train(prepared: Prepared) -> tuple[str, ...]:
    """The names of the phrases that occur in training, in the order of their numbers: their words, or in the set-up
    anonym their tokens."""
    arrays, manifest = prepared.arrays, prepared.manifest
    count, rows = manifest["candidates"]["types_of_train"], manifest["splits"]["train"]
    if manifest["setup"] == "anonym":
        return tuple(f"{ENTITY}{number}" for number in range(count))
    texts, names = Texts(arrays), [""] * count
    for passage in range(rows["first_passage"], rows["first_passage"] + rows["passages"]):
        start, end = arrays["candidate_type_start"][passage : passage + 2]
        for number, phrase in zip(arrays["candidate_type"][start:end], texts.candidates(passage), strict=True):
            names[number] = phrase
    return tuple(names)
