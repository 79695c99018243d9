"""Pairs, and the mentions in them: a table, and MetaMap's output."""

from mednli_jax.data.examples import NLIExample, Split
from mednli_jax.data.text import treebank_tokens

_PREMISE = 'He said "Quokka fever"; wombat-like (axolotl) narwhals.'
_TOKENS_OF_PREMISE = "he said `` quokka fever '' ; wombat-like ( axolotl ) narwhals ."
_TOKENS = tuple(_TOKENS_OF_PREMISE.split())
SPAN_PAIRS = (
    NLIExample(
        "p1",
        _PREMISE,
        "Zebrafish fever.",
        "neutral",
        _TOKENS,
        ("Zebrafish", "fever", "."),
    ),
    NLIExample("p2", _PREMISE, "No fever", "neutral", _TOKENS, ("No", "fever")),
)
HEADER = "split\tid\tside\tstart\tend\tconcept"


def split_of(*pairs: NLIExample, name: str = "train") -> dict[str, Split[NLIExample]]:
    """A corpus of one split."""
    return {name: Split(name, pairs)}


def mention_row(split: str, pair: NLIExample, words: str, concept: str, side="premise") -> str:
    """A row of a table for the first place of these words."""
    start = getattr(pair, side).index(words)
    cells = (split, pair.uid, side, start, start + len(words), concept)
    return "\t".join(map(str, cells))


_NOTE = "No chest pain, but heart and renal failure since heart attack."
_NOTE_TOKENS = tuple(treebank_tokens(_NOTE))
MMI_PAIRS = (
    NLIExample("p1", _NOTE, "Has pain", "neutral", _NOTE_TOKENS, ("Has", "pain")),
    NLIExample(
        "a.jpg#1r",
        "Heart attack",
        "Pain",
        "neutral",
        ("Heart", "attack"),
        ("Pain",),
    ),
)


def place(words: str, text: str = _NOTE, first: int = 0) -> str:
    """The position of the words in a text as MetaMap writes it."""
    return f"{text.index(words) + first}/{len(words)}"


def mmi_line(
    ident: str = "p1-p",
    score: str = "5.18",
    cui: str = "C1",
    triggers: str = '["Chest Pain"-tx-1-"chest pain"-noun-1]',
    positions: str = place("chest pain"),
    trees: str = "C01;C02.5",
) -> str:
    """A line of MetaMap's output on MMI_PAIRS, which finds chest pain."""
    concept = f"{score}|Some Name|{cui}|[sosy,fndg]"
    return f"{ident}|MMI|{concept}|{triggers}|TX|{positions}|{trees}"


def triggers(*phrases: str) -> str:
    """MetaMap's triggers."""
    texts = [f'"{phrase}"-tx-1-"{phrase}"-noun-0' for phrase in phrases]
    return f"[{','.join(texts)}]"
