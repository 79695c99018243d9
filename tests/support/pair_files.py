"""Files of sentence pairs: in the layout of MedNLI and SNLI, and a user's own; single rows with
faults for tests of readers.
"""

import json

from support.files import as_bytes

LABELS = ("entailment", "neutral", "contradiction")
VERBS = {"entailment": "has", "neutral": "may have", "contradiction": "lacks"}
CONDITIONS = ("asthma", "gout", "pneumonia", "anemia", "stroke", "sepsis")
SECRET = "zyzzyva"  # occurs in every premise and passage, and must occur in no output
COMMON = "gout"  # occurs in every premise that `write_shared_premises` writes


def write_pairs(folder, sizes=(("train", 48), ("dev", 18), ("test", 17))):
    """Writes sentence pairs in MedNLI's official layout; the verb decides the label."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes:
        pairs = [own_pair(split, number, CONDITIONS) for number in range(size)]
        rows = [
            official(f"{split}-{n}", pair[0], f"{SECRET} {pair[1]}", pair[2])
            for n, pair in enumerate(pairs)
        ]
        write_rows(folder / f"mli_{split}_v1.jsonl", rows)


def write_shared_premises(path, premises=12):
    """Writes one pair of each label for each premise; hypotheses of eight premises have SECRET,
    those of all COMMON."""
    rows = []
    for n in range(premises):
        denied = SECRET if n < 8 else "joint pain"
        for label, text in zip(
            LABELS, ("has brain injury", f"may have {COMMON}", f"no {denied}"), strict=True
        ):
            row = {"pairID": f"{path.stem}-{n}-{label}", "gold_label": label}
            row |= {"sentence1": f"{COMMON} of patient {n} .", "sentence2": f"patient {text}"}
            rows.append(row)
    write_rows(path, rows)


def write_own_pairs(folder, conditions=CONDITIONS, sizes=(("train", 36), ("dev", 12), ("test", 9))):
    """Writes a user's own pairs as train.jsonl and so on; the verb decides the label. Returns their
    words.

    `own_pair` makes each pair.
    """
    folder.mkdir(parents=True)
    words = set()
    for split, size in sizes:
        rows = [own_pair(split, number, conditions) for number in range(size)]
        words |= {word for row in rows for text in row[1:] for word in text.split()}
        names = ("label", "premise", "hypothesis")
        write_rows(folder / f"{split}.jsonl", (dict(zip(names, row, strict=True)) for row in rows))
    return words


def own_pair(split, number, conditions):
    """(label, premise, hypothesis)."""
    label, condition = LABELS[number % 3], conditions[number % len(conditions)]
    return label, f"{condition} in {split} {number // 3} .", f"patient {VERBS[label]} {condition}"


# ---- pairs of sentences ----

# occur in made-up sentences, and must occur in no message
WORDS = ("zebrafish", "quokka", "axolotl", "narwhal", "wombat")
PREMISE, HYPOTHESIS = "zebrafish met quokka .", "an axolotl ."
HEADER = ("pairID", "gold_label", "sentence1", "sentence2")


def assert_no_words(text):
    assert not [word for word in WORDS if word in text.casefold()]


def pair(n, **more):
    """A row with the official fields; a field given as ... is left out."""
    values = {
        "pairID": f"p{n}",
        "gold_label": "neutral",
        "sentence1": f"{PREMISE[:-1]}{n} .",
        "sentence2": HYPOTHESIS,
    }
    values |= {
        "sentence1_binary_parse": f"( {values['sentence1']} )",
        "sentence2_binary_parse": f"( {HYPOTHESIS} )",
    }
    return {
        name: value
        for name, value in {**values, "genre": "slate", **more}.items()
        if value is not ...
    }


def pairs(first, *rows):
    """JSON lines of a good pair with the number `first`, then of the rows; text and bytes are
    written as they are."""
    return b"".join(
        as_bytes(row if isinstance(row, bytes | str) else json.dumps(row)) + b"\n"
        for row in (pair(first), *rows)
    )


def cells(n, label="neutral", premise=PREMISE, hypothesis=HYPOTHESIS):
    return (f"p{n}", label, premise, hypothesis)


def table(separator, *rows, header=HEADER):
    return "".join(separator.join(row) + "\n" for row in (header, *rows))


# ---- files ----

SNLI_CONDITIONS = ("asthma", "gout", "anemia", "stroke")


def write_rows(path, rows):
    """Writes JSON lines and makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_own(folder, **splits):
    """Writes a user's own corpus: train=((premise, hypothesis, label), ...). The uids are train0,
    train1, ..."""
    names = ("premise", "hypothesis", "label")
    for split, rows in splits.items():
        named = (
            dict(zip(names, (*row, "neutral")[:3], strict=True), uid=f"{split}{n}")
            for n, row in enumerate(rows)
        )
        write_rows(folder / f"{split}.jsonl", named)


def official(uid, label, premise, hypothesis, parsed=True):
    """A row with the fields of MedNLI's and SNLI's files."""
    row = {"pairID": uid, "gold_label": label, "sentence1": premise, "sentence2": hypothesis}
    parses = {f"{name}_binary_parse": f"( {row[name]} )" for name in ("sentence1", "sentence2")}
    return row | parses if parsed else row


def snli_rows(corpus, split, size):
    """Rows with SNLI's fields; each premise has three hypotheses."""
    for n in range(size):
        premise, hypothesis = (
            f"{corpus} {split} {n // 3} {SNLI_CONDITIONS[n // 3 % 4]} .",
            f"has {SNLI_CONDITIONS[n % 4]} now",
        )
        yield official(f"{corpus}-{split}-{n}", LABELS[n % 3], premise, hypothesis)
