"""Texts of pairs with what tokenizers treat in different ways: accents, brackets, digits, emoji,
blanks, capitals, Chinese characters, long words.
"""

import random

_TEXT = (
    "the|patient|has|no|known|history|of|diabetes|and|asthma|Ménière's|naïve|façade|"
    "SEPSIS\n[**2101-5-6**]|[DEID]|(12.5|mg/dl)|<5%|😀|👩\u200d⚕️|120/80|q.i.d.|COVID-19|日本|"
    "über-acute|x-ray|ECG/EKG\nnon-smoker,|\"quoted\"|'single'|it's|don't|they're|3,000|"
    "1e-4|µg|½|…|—|boatman|boatmans|ﬁnding\npneumonoultramicroscopicsilicovolcanoconiosis|"
    "Z|a|I\xa0II|tab\tbed|line\u2028end|A&P|#7|@home\na+b=c|~10|50°|CO₂|β-blocker|fever;|"
    "chills:|yes!|no?|http://x.org/y_z"
)
WORDS = _TEXT.split("|")
GAPS = (" ", " ", " ", " ", "  ", "\n", "")


def pairs(count: int = 1000, seed: int = 0) -> list[tuple[str, str]]:
    """[(premise, hypothesis)]; every seventh is long, some premises are empty."""
    rng = random.Random(seed)

    def text(least: int, most: int) -> str:
        words = rng.choices(WORDS, k=rng.randint(least, most))
        return "".join(word + rng.choice(GAPS) for word in words)

    longest = ((60, 60) if number % 7 == 0 else (20, 10) for number in range(count))
    return [(text(0, premise), text(1, hypothesis)) for premise, hypothesis in longest]
