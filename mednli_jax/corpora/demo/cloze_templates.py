"""The wording of the demo cloze corpus: what a case report tells and how a query tells it again, as plain tables.

A frame is a sentence in tokens between spaces (some are two: "." ends one); slots in braces are filled by name. No verb
form depends on whether a name is singular or plural, and articles come with the names, so any name fits any slot. Words
outside the slots name no concept and none of the circumstances, which stand in a passage once.
"""

from dataclasses import dataclass

BLANK = "blank"  # the slot of a query where the answer was
CIRCUMSTANCES = {  # slot -> what it may say; a passage says each value at most once
    "kin": (
        *("mother", "father", "brother", "sister", "grandmother", "grandfather", "nephew", "niece", "cousin"),
        *("daughter", "son", "stepbrother", "stepsister", "godmother", "godfather", "great-grandmother"),
    ),
    "place": (
        *("Kenya", "Brazil", "Portugal", "Norway", "Japan", "Chile", "Canada", "Egypt", "Greece", "India", "Peru"),
        *("Ghana", "Nepal", "Cuba", "Spain", "Poland", "Ireland", "Morocco", "Iceland", "Mexico", "Vietnam", "Finland"),
    ),
    "act": (
        *("gardening", "driving", "cooking", "shopping", "dancing", "sewing", "painting", "fishing", "reading"),
        *("ironing", "skiing", "rowing", "hiking", "sailing", "knitting", "cycling", "mowing", "praying", "typing"),
    ),
    "who": (
        *("cardiologist", "neurologist", "surgeon", "pharmacist", "dietitian", "physiotherapist", "radiologist"),
        *("dermatologist", "geriatrician", "psychiatrist", "nephrologist", "rheumatologist", "gastroenterologist"),
        *("midwife", "dentist", "paramedic", "registrar", "microbiologist", "pathologist", "haematologist"),
    ),
}


@dataclass(frozen=True)
class Relation:
    """A kind of fact: sentences that state it, and per slot the query frames that ask for what fills that slot.

    p, s: problems; t, u: treatments; e: a test; the other slots are circumstances.
    """

    name: str
    passage: tuple[str, ...]
    queries: dict[str, tuple[str, ...]]


# ---- Told with a circumstance: one word of the passage shows the sentence ------------------------------------------

RELATIVE = Relation(
    "relative",
    (
        "{his} {kin} had {p} .",
        "{p} had been found in {his} {kin} .",
        "{his} {kin} had been under care for {p} .",
        "of the relatives , only {his} {kin} had ever spoken of {p} .",
        "{his} {kin} had moved in with {him} years ago ; {p} had made that necessary .",
    ),
    {
        "p": (
            "a {kin} with {blank} belongs in the family tree .",
            "{blank} in a {kin} should be asked about .",
            "patients may not know that a {kin} had {blank} .",
            "write down {blank} when a {kin} has it .",
        )
    },
)
BEGAN = Relation(
    "began",
    (
        "{s} had come on while {act} .",
        "while {act} , {he} had noticed {s} for the first time .",
        "it all began while {act} , with {s} .",
        "{he} had put up with {s} for weeks . it had been worst while {act} .",
    ),
    {
        "s": (
            "{blank} while {act} may be an early sign .",
            "patients who report {blank} while {act} should be seen soon .",
            "when {act} brings on {blank} , look further .",
            "do not put {blank} down to age when it comes on while {act} .",
        )
    },
)
TRAVEL = Relation(
    "travel",
    (
        "{p} had first been noted on a trip to {place} .",
        "{p} dated back to a year in {place} .",
        "in {place} , long before , {he} had been told of {p} .",
        "{he} had once lived in {place} . {p} had been known since then .",
    ),
    {
        "p": (
            "{blank} first noted in {place} may come back years later .",
            "records from {place} may hold the first word of {blank} .",
            "travellers to {place} should know of {blank} .",
            "a stay in {place} can precede {blank} .",
        )
    },
)
ADVICE = Relation(
    "advice",
    (
        "the {who} advised {t} .",
        "{t} came on the advice of the {who} .",
        "it fell to the {who} to suggest {t} .",
        "the {who} had been asked for an opinion . it came down in favour of {t} .",
    ),
    {
        "t": (
            "the opinion of the {who} can tip the balance towards {blank} .",
            "{blank} should be talked over with the {who} .",
            "a {who} may suggest {blank} .",
            "ask the {who} before {blank} is left out .",
        )
    },
)
REQUEST = Relation(
    "request",
    (
        "the {who} asked for {e} .",
        "{e} followed at the request of the {who} .",
        "the {who} would not go on without {e} .",
        "the {who} came to see {him} . {e} followed on the same day .",
    ),
    {
        "e": (
            "a {who} may ask for {blank} first .",
            "{blank} should not wait when the {who} wants it .",
            "the {who} should decide on {blank} early .",
            "leave the choice of {blank} to the {who} .",
        )
    },
)

# ---- Told of two names: others of the same kind stand beside the one that the query gives --------------------------

SHOWN = Relation(
    "shown",
    (
        "{e} showed {p} .",
        "{p} came to light on {e} .",
        "{e} left no doubt about {p} .",
        "proof of {p} came from {e} .",
    ),
    {
        "p": (
            "{e} can bring {blank} to light .",
            "{e} may prove {blank} .",
            "{blank} can be confirmed by {e} .",
            "doubts about {blank} should not remain after {e} .",
        ),
        "e": (
            "{p} can be confirmed by {blank} .",
            "{blank} may bring {p} to light .",
            "think of {blank} when {p} has to be proved .",
            "{blank} can show {p} .",
        ),
    },
)
EXCLUDED = Relation(
    "excluded",
    (
        "{e} ruled out {p} .",
        "{p} could be excluded by {e} .",
        "{e} spoke against {p} .",
        "there had been a suspicion of {p} . it could be dropped after {e} .",
    ),
    {
        "p": (
            "{e} can rule out {blank} .",
            "{blank} can be dropped from the list after {e} .",
            "{e} may speak against {blank} .",
            "to exclude {blank} , {e} may be enough .",
        ),
        "e": (
            "{blank} can rule out {p} .",
            "{p} can be dropped from the list after {blank} .",
            "{blank} may speak against {p} .",
            "to exclude {p} , {blank} may be enough .",
        ),
    },
)
GIVEN = Relation(
    "given",
    (
        "{t} had been chosen for {p} .",
        "for {p} , the team began {t} .",
        "{p} called for {t} .",
        "{p} came under control with {t} .",
    ),
    {
        "t": (
            "{p} may call for {blank} .",
            "begin {blank} early for {p} .",
            "{blank} can bring {p} under control .",
            "{blank} remains the first choice for {p} .",
        ),
        "p": (
            "{blank} may call for {t} .",
            "begin {t} early for {blank} .",
            "{t} can bring {blank} under control .",
            "{t} remains the first choice for {blank} .",
        ),
    },
)
FAILED = Relation(
    "failed",
    (
        "{t} had no effect on {p} .",
        "{p} did not respond to {t} .",
        "{p} went on in spite of {t} .",
        "at first {he} took {t} . all hope of curing {p} with it soon failed .",
    ),
    {
        "t": (
            "{p} may not respond to {blank} .",
            "{blank} can fail in {p} .",
            "{p} may go on in spite of {blank} .",
            "do not hope for an effect of {blank} on {p} .",
        ),
        "p": (
            "{blank} may not respond to {t} .",
            "{t} can fail in {blank} .",
            "{blank} may go on in spite of {t} .",
            "do not hope for an effect of {t} on {blank} .",
        ),
    },
)
STOPPED = Relation(
    "stopped",
    (
        "{t} had to be stopped because of {s} .",
        "{s} led the team to stop {t} .",
        "{s} put an end to {t} .",
        "{t} went well at first . then {s} set in and it had to be withdrawn .",
    ),
    {
        "t": (
            "{s} can put an end to {blank} .",
            "stop {blank} when {s} sets in .",
            "{blank} may have to be withdrawn because of {s} .",
            "{s} should lead to an end of {blank} .",
        ),
        "s": (
            "{blank} can put an end to {t} .",
            "stop {t} because of {blank} , not later .",
            "{t} may have to be withdrawn because of {blank} .",
            "{blank} should lead to an end of {t} .",
        ),
    },
)
RELIEVED = Relation(
    "relieved",
    (
        "{s} settled with {t} .",
        "{t} relieved {s} .",
        "under {t} , {s} faded within days .",
        "{s} had been a burden for weeks . it eased only under {t} .",
    ),
    {
        "t": (
            "{s} may settle with {blank} .",
            "{blank} can relieve {s} .",
            "patients under {blank} may see {s} fade .",
            "the burden of {s} can be eased by {blank} .",
        ),
        "s": (
            "{blank} may settle with {t} .",
            "{t} can relieve {blank} .",
            "patients under {t} may see {blank} fade .",
            "the burden of {blank} can be eased by {t} .",
        ),
    },
)
CAUSED = Relation(
    "caused",
    (
        "{s} turned out to be due to {p} .",
        "{p} explained {s} .",
        "behind {s} stood {p} .",
        "{s} had been a riddle . in the end {p} had to be blamed .",
    ),
    {
        "p": (
            "{s} may be due to {blank} .",
            "{blank} can explain {s} .",
            "{blank} may stand behind {s} .",
            "when {s} is a riddle , {blank} may be to blame .",
        ),
        "s": (
            "{blank} may be due to {p} .",
            "{p} can explain {blank} .",
            "{p} may stand behind {blank} .",
            "when {blank} is a riddle , {p} may be to blame .",
        ),
    },
)
SWITCHED = Relation(
    "switched",
    (
        "{t} gave way to {u} .",
        "{u} replaced {t} .",
        "the team moved from {t} to {u} .",
        "{he} came off {t} . {u} took its place .",
    ),
    {
        "u": (
            "{blank} may replace {t} .",
            "{t} can give way to {blank} .",
            "a move from {t} to {blank} may help .",
            "when {t} is not an option , {blank} may take its place .",
        ),
        "t": (
            "{u} may replace {blank} .",
            "{blank} can give way to {u} .",
            "a move from {blank} to {u} may help .",
            "when {blank} is not an option , {u} may take its place .",
        ),
    },
)

# ---- Everything else that a report says ----------------------------------------------------------------------------

OPENINGS = (
    "{a} {age} - year - old {sex} came to our outpatient department with a long story .",
    "we report on {a} {age} - year - old {sex} whom a colleague had referred to us .",
    "this {age} - year - old {sex} was known to the practice for many years .",
    "{a} {age} - year - old {sex} presented on a Monday morning .",
    "the case concerns {a} {age} - year - old {sex} from a small town .",
)
SEXES = {"man": ("he", "his", "him"), "woman": ("she", "her", "her")}
TITLES = (
    "{p} in {a} {age} - year - old {sex} : a case report",
    "A {sex} with {p} and {q}",
    "{p} : lessons from one case",
    "More than {p} : a report from {specialty}",
)
# Sentences that merely name: they bring every name of a report to about the same number of mentions.
LISTS = {
    "problem": (
        "the letter of referral touched on {one} , {two} and {three} .",
        "the team talked about {one} , {two} and {three} .",
        "the notes also mentioned {one} , {two} and {three} .",
        "a student had read up on {one} , {two} and {three} .",
    ),
    "treatment": (
        "the chart had boxes for {one} , {two} and {three} .",
        "the team talked about {one} , {two} and {three} .",
        "the notes also mentioned {one} , {two} and {three} .",
        "leaflets on {one} , {two} and {three} lay on the table .",
    ),
    "test": (
        "the form had boxes for {one} , {two} and {three} .",
        "the team talked about {one} , {two} and {three} .",
        "the notes also mentioned {one} , {two} and {three} .",
        "leaflets on {one} , {two} and {three} lay on the table .",
    ),
}
LEADS = ("later , ", "at that time , ", "as far as we know , ", "according to the notes , ", "in this case , ")
FILLERS = (
    "nothing else of note came up .",
    "{he} lived alone on the second floor .",
    "the old notes had been sent for .",
    "the next days passed quietly .",
    "{his} mood stayed good throughout .",
    "the relatives had been told of every step .",
    "{he} had worked as a teacher for many years .",
    "the team met on most mornings .",
    "a second visit took place three weeks later .",
    "{he} had come alone .",
    "{his} story had been taken down in full .",
    "{he} did not mind the long wait .",
    "the file had grown thick by then .",
    "all this took place within one month .",
    "the ward had been full that week .",
    "{he} asked many questions .",
)
ENDINGS = (
    "at the last visit {he} felt well .",
    "{he} went home on a Friday .",
    "half a year later , {he} had gone back to work .",
    "{he} has stayed well since then .",
    "no further visits had to be planned .",
)
