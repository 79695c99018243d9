"""Natural logic: a hand-worked case of each rule. The word in brackets has the direction."""

import pytest

from mednli_jax.nli.augmentation.polarity import (
    DOWN,
    IDIOMS,
    PSEUDO,
    UNCLEAR,
    UNSURE,
    UP,
    directions,
    operators_in,
)


def direction(sentence):
    tokens = sentence.split()
    places = [place for place, token in enumerate(tokens) if token.startswith("[")]
    (direction,) = {directions([token.strip("[]") for token in tokens])[n] for n in places}
    return direction


CASES = [
    # no operator
    ("A man rides a [horse] .", UP),
    # the scope of a negation reaches to the end of its clause
    ("A man is not riding a [horse] in a park .", DOWN),
    ("A man is not riding a horse in a [park] .", DOWN),
    ("A man is n't riding a [horse] .", DOWN),
    ("A man isn't riding a [horse] .", DOWN),
    ("A man never rides a [horse] .", DOWN),
    ("A [man] is not riding a horse .", UP),
    ("A man is not riding a horse while a [dog] barks .", UNSURE),
    ("A man is not tall , and a [dog] barks .", UNSURE),
    ("A man who is not tall rides a [horse] .", UNSURE),
    # a definite phrase names the same thing in the scope
    ("A man is not riding the [horse] .", UNSURE),
    ("A man is not riding his brown [horse] .", UNSURE),
    # "nobody", "no" and "few" at the head of a clause: both arguments
    ("Nobody is riding a [horse] .", DOWN),
    ("No [man] is riding a horse .", DOWN),
    ("No man in a [hat] is riding a horse .", DOWN),
    ("No man is riding a [horse] .", DOWN),
    ("There is no man on a [horse] .", DOWN),
    ("Few men are riding a [horse] .", DOWN),
    # elsewhere the noun phrase alone
    ("A man with no [hat] rides a horse .", DOWN),
    ("A man with no brown [hat] rides a horse .", DOWN),
    ("A man with no hat in a [park] .", UNSURE),
    ("A [man] with no hat rides a horse .", UP),
    ("A man with few [friends] .", DOWN),
    ("A man without a [hat] rides a horse .", DOWN),
    ("A man without a hat in a [park] .", UNSURE),
    # "every", "each", "all", "any": down in the restrictor, up in the scope
    ("Every [man] is riding a horse .", DOWN),
    ("Every man is riding a [horse] .", UP),
    ("Every man in a [hat] is riding a horse .", UNSURE),
    ("Each [man] is riding a horse .", DOWN),
    ("Each man is riding a [horse] .", UP),
    ("All [men] are riding a horse .", DOWN),
    ("All men are riding a [horse] .", UP),
    ("Any [man] can ride a horse .", DOWN),
    ("Any man can ride a [horse] .", UP),
    ("A dog in every [house] .", DOWN),
    # an idiom that occurs twice
    ("A few men see a few [dogs] .", UP),
    # not monotone
    ("Most men ride a [horse] .", UNSURE),
    ("Only a [man] rides .", UNSURE),
    ("Exactly one [man] rides .", UNSURE),
    ("The tallest [man] rides .", UNSURE),
    ("The best [man] rides .", UNSURE),
    ("A man taller than a [horse] .", UNSURE),
    ("If a [man] rides , it rains .", UNSURE),
    ("Does a man ride a [horse] ?", UNSURE),
    ("Who rides a [horse] .", UNSURE),
    ("A man does not see two [dogs] .", UNSURE),
    ("No two [dogs] bark .", UNSURE),
    # two operators
    ("No man is not riding a [horse] .", UNSURE),
    ("Nobody without a [hat] rides .", UNSURE),
]


@pytest.mark.parametrize(("sentence", "expected"), CASES)
def test_the_direction_of_a_word_is_reversed_in_the_scope_of_an_operator_alone(sentence, expected):
    assert direction(sentence) == expected


@pytest.mark.parametrize("idiom", IDIOMS)
def test_an_idiom_with_an_operator_reverses_no_direction(idiom):
    tokens = f"A man sees {idiom} a dog .".split()
    assert not operators_in(tokens)
    assert directions(tokens)[-2] == UP


@pytest.mark.parametrize("phrase", [*PSEUDO, *sorted(UNCLEAR)])
def test_a_sentence_with_an_unclear_word_is_unsure_in_every_place(phrase):
    assert set(directions(f"A man sees {phrase} a dog .".split())) == {UNSURE}
