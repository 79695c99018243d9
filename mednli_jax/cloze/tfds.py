"""TFDS builder of CliCR; data/tfds.py says how it is used. A record is an article with all its queries."""

import dataclasses
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from mednli_jax.cloze import clicr, encoding
from mednli_jax.data.examples import Answer, ClozeExample, Passage, Split
from mednli_jax.data.tfds import CorpusBuilder, load_built

_PASSAGE = ("uid", "title", "context", "specialty")
_ANSWER = tuple(field.name for field in dataclasses.fields(Answer))


class Clicr(CorpusBuilder, skip_registration=True):
    """CliCR (Šuster & Daelemans 2018): manual_dir/clicr/{train,dev,test}1.0.json.

    title, context and query have their marks; an answer names its query by the place among the article's.
    """

    name = "clicr"
    content = f"Case reports with gap-filling queries. {clicr.SOURCE}"
    reader_format = encoding.FORMAT

    @staticmethod
    def fields():
        number, string = tfds.features.Scalar(np.int64), tfds.features.Text()
        answer = {"query": number, **{name: string for name in _ANSWER}}
        return {
            **{name: string for name in _PASSAGE},
            "queries": tfds.features.Sequence({"row": number, "uid": string, "query": string}),
            "answers": tfds.features.Sequence(answer),
        }

    @staticmethod
    def files(folder):
        return list(clicr.source_files(folder).values())

    @staticmethod
    def load(folder, limit, genre):
        return clicr.load(folder, limit=limit)

    @staticmethod
    def records(examples):
        rows = {example.uid: row for row, example in enumerate(examples)}
        for passage, queries in clicr.by_passage(examples):
            yield {
                "uid": passage.uid,
                "title": clicr.marked_text(passage.title, passage.title_entities),
                "context": clicr.marked_text(passage.tokens, passage.entities, passage.sentences),
                "specialty": passage.specialty,
                "queries": [
                    {"row": rows[e.uid], "uid": e.uid, "query": clicr.marked_text(e.query, e.query_entities)}
                    for e in queries
                ],
                "answers": [
                    {"query": number, **dataclasses.asdict(answer)}
                    for number, example in enumerate(queries)
                    for answer in example.answers
                ],
            }

    @staticmethod
    def examples(source):
        """The articles' queries in their own order again; those of an article share their passage."""
        found = {}
        for record in source:
            uid, title, context, specialty = (record[name].decode() for name in _PASSAGE)
            title, context = clicr.parse_marked(title), clicr.parse_marked(context)
            passage = Passage(
                uid, title.tokens, context.tokens, context.entities, context.sentences, specialty, title.entities
            )
            answers = [[] for _ in record["queries"]["row"]]
            for query, *texts in zip(*(record["answers"][name] for name in ("query", *_ANSWER)), strict=True):
                answers[int(query)].append(Answer(*(part.decode() for part in texts)))
            for number, row in enumerate(record["queries"]["row"]):
                query = clicr.parse_marked(record["queries"]["query"][number].decode())
                uid = record["queries"]["uid"][number].decode()
                found[int(row)] = ClozeExample(
                    uid, passage, query.tokens, query.entities, query.blanks[0], tuple(answers[number])
                )
        return tuple(found[row] for row in range(len(found)))


def load_tfds(folder: Path, manual_dir: Path, *, limit: int | None = None) -> dict[str, Split]:
    """The Splits of clicr.load(manual_dir, ...), query by query and fact by fact; see data.tfds.load_built."""
    return load_built(Clicr, folder, manual_dir, limit=limit)
