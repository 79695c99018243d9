"""Pairs, and the mentions in them as other programs write them: a table of spans, and MetaMap."""

from mednli_jax.data.examples import NLIExample

# ---- mentions of another program ----

_PREMISE = 'He said "Quokka fever"; wombat-like (axolotl) narwhals.'
_TOKENS = (
    "he",
    "said",
    "``",
    "quokka",
    "fever",
    "''",
    ";",
    "wombat-like",
    "(",
    "axolotl",
    ")",
    "narwhals",
    ".",
)
SPAN_PAIRS = (
    NLIExample("p1", _PREMISE, "Zebrafish fever.", "neutral", _TOKENS, ("Zebrafish", "fever", ".")),
    NLIExample("p2", _PREMISE, "No fever", "neutral", _TOKENS, ("No", "fever")),
)
SPANS_HEADER = "uid\tside\tstart\tend\tconcept"

_NOTE = "No chest pain, but heart and renal failure since heart attack."
MMI_PAIRS = (
    NLIExample("p1", _NOTE, "Has pain", "neutral",
               tuple(_NOTE.replace(",", " ,").replace(".", " .").split()), ("Has", "pain")),
    NLIExample("a.jpg#1r", "Heart attack", "Pain", "neutral", ("Heart", "attack"), ("Pain",)),
)  # fmt: skip


def place(words, text=_NOTE, first=0):
    """The position of the words in a text as MetaMap writes it."""
    return f"{text.index(words) + first}/{len(words)}"


def mmi_line(
    ident="p1-p",
    score="5.18",
    cui="C1",
    triggers=None,
    positions=None,
    location="TX",
    trees="C01;C02.5",
):
    """A line of MetaMap's output on MMI_PAIRS, which finds chest pain, negated."""
    triggers = '["Chest Pain"-tx-1-"chest pain"-noun-1]' if triggers is None else triggers
    positions = place("chest pain") if positions is None else positions
    return "|".join(
        [ident, "MMI", score, "Some Name", cui, "[sosy,fndg]", triggers, location, positions, trees]
    )
