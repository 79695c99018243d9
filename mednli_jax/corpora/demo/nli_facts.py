"""The demo corpus's fact groups: pairs that words, numbers and facts met in training decide.

The conditions come from clinical_facts.json. Nearly every premise also says something undecided about a second
condition (a relative has it, it is to be ruled out), and neutral hypotheses name that one: whether a hypothesis repeats
a concept of its premise therefore does not tell the label.
"""

import json
from collections import Counter
from pathlib import Path

from mednli_jax.corpora.demo import nli_templates as wording
from mednli_jax.corpora.demo.nli_relations import Draw, Relations, share_word
from mednli_jax.examples import LABELS
from mednli_jax.knowledge.load import ontology_files

FACTS = Path(__file__).with_name("clinical_facts.json")
HABIT_RATE = 0.72  # how often a hypothesis shows an annotator's habit; sets what a hypothesis alone gives away
NUMBERS_WEIGHT = 5  # against the weights of `demo_templates.KINDS`
EVERY = 3  # one condition in three is used: few enough for a small model to meet each of them many times


def conditions() -> list[dict]:
    """The rows of clinical_facts.json."""
    return json.loads(FACTS.read_text(encoding="utf-8"))["conditions"]


def demo_files() -> list[Path]:
    """Every file that the demo corpora are made from."""
    return [FACTS, *ontology_files("mesh")]


class Facts:
    """Draws fact groups.

    conditions: rows of clinical_facts.json; relations: tells which of them are related by is-a.
    """

    def __init__(self, conditions: list[dict], relations: Relations):
        chosen = conditions[::EVERY]
        count = Counter(treatment for condition in chosen for treatment in set(condition["treatments"]))
        self.conditions = [
            condition | {"own": [treatment for treatment in condition["treatments"] if count[treatment] == 1]}
            for condition in chosen
        ]
        self.relations = relations
        self.kinds = [kind for kind in wording.KINDS for _ in range(kind.weight)] + [None] * NUMBERS_WEIGHT

    def group(self, draw: Draw) -> tuple[str, dict[str, str]]:
        """The deciding part of a premise, and a hypothesis for each label."""
        kind = draw.choice(self.kinds)
        slots = self._slots(draw, kind.needs if kind else ())
        if kind is None:
            return _numbers(draw, slots)
        statement = wording.fill(draw, draw.choice(kind.premise), **slots)
        hypotheses = {}
        for label in LABELS:
            habit = kind.habits and draw.chance(HABIT_RATE)
            frames = wording.HABITS[label] if habit else getattr(kind, label)
            hypotheses[label] = wording.fill(draw, draw.choice(frames), **slots)
        return statement, hypotheses

    def _slots(self, draw: Draw, needs: tuple[str, ...]) -> dict[str, str]:
        """Texts of a condition (c, short, s, t, own, p, test), a second and a third one unlike it, and two causes."""
        while True:
            first, second, third = (draw.choice(self.conditions) for _ in range(3))
            apart = self._apart(first, second) and self._apart(first, third) and self._apart(second, third)
            if apart and all(first[field] for field in needs):
                break
        symptoms = [symptom for symptom in second["symptoms"] if symptom not in first["symptoms"]]
        if not symptoms:
            return self._slots(draw, needs)
        risk, risk2 = draw.shuffled(wording.RISKS)[:2]
        slots = {
            "c": first["name"],
            "c2": second["name"],
            "c3": third["name"],
            "s": draw.choice(first["symptoms"]),
            "s2": draw.choice(symptoms),
            "t": draw.choice(first["treatments"]),
            "test": draw.choice(first["tests"]),
            "p": draw.choice(first["procedures"] or [""]),
            "short": draw.choice(first["short"] or [""]),
            "own": draw.choice(first["own"] or [""]),
            "risk": risk,
            "risk2": risk2,
            "recent": draw.choice(wording.RECENT),
        }
        unsure = draw.choice(wording.DISEASE_STATEMENTS["other"])
        return slots | {"u": wording.fill(draw, unsure, x=second["name"])}

    def _apart(self, one: dict, other: dict) -> bool:
        """Whether nothing said of one condition says something of the other."""
        return not (
            self.relations.related(one["mesh"], other["mesh"])
            or share_word(one["name"], other["name"])
            or set(one["treatments"]) & set(other["treatments"])
        )


def _numbers(draw: Draw, slots: dict[str, str]) -> tuple[str, dict[str, str]]:
    """A measured value, high, low or normal, at times among normal ones; neutral speaks of a value not given."""
    measure, absent, *others = draw.shuffled(wording.MEASURES)
    states = [state for state in ("high", "low") if getattr(measure, state)]
    state = "normal" if draw.chance(0.25) else draw.choice(states)
    given = [(measure, state)] + [(other, "normal") for other in others[: draw.below(3)]]
    values = [one.frame.format(v=draw.choice(getattr(one, at))) for one, at in draw.shuffled(given)]
    opposite = draw.choice([other for other in (*states, "normal") if other != state])
    missing = draw.choice([other for other in ("high", "low", "normal") if getattr(absent, other)])
    chosen = {"entailment": (measure, state), "neutral": (absent, missing), "contradiction": (measure, opposite)}
    hypotheses = {}
    for label, (one, at) in chosen.items():
        frames = [f"{one.noun} is {at}", f"patient has {at} {one.noun}"]
        if at != "normal":
            frames += [f"patient {getattr(one, at + '_says')}"] * 2
        if state != "normal" and draw.chance(HABIT_RATE):
            frames = wording.NUMBER_HABITS[label]
        slots |= {"noun": measure.noun, "group": measure.group}
        hypotheses[label] = wording.fill(draw, draw.choice(frames), **slots)
    return ", ".join([*values, slots["u"]] if draw.chance(0.5) else values), hypotheses
