"""The probe of reversed entailment, on premises whose sentences are worked out by hand."""

import pytest
from support.pairs import pair
from support.tables import table_rows

from mednli_jax.nli.augmentation.changes import RelatedWord
from mednli_jax.nli.augmentation.substitutions import NEGATED_LABELS, negated_pairs

PARTNERS = {
    ("horse", "n"): [RelatedWord("hypernym", "animal"), RelatedWord("co_hyponym", "cow")],
    ("animal", "n"): [RelatedWord("hyponym", "horse")],
    ("hat", "n"): [RelatedWord("hypernym", "garment")],
    ("unicycle", "n"): [RelatedWord("hypernym", "vehicle")],
}


def pairs_of(premise):
    """(operator, premise, hypothesis) -> label."""
    pairs = list(negated_pairs([pair(premise, "x")], PARTNERS))
    return {(pair.operator, pair.premise, pair.hypothesis): pair.label for pair in pairs}


@pytest.mark.parametrize(
    "premise, operator, negated, claim, kind",
    table_rows("""
        A man is riding a horse. | not | \
            A man is not riding a horse. | A man is not riding an animal. | hypernym
        A man is riding an animal in a park. | n't | A man isn't riding an animal in a park. | \
            A man isn't riding a horse in a park. | hyponym
        A man is riding a horse. | no | \
            No man is riding a horse. | No man is riding an animal. | hypernym
        A man is riding a horse. | never | \
            A man is never riding a horse. | A man is never riding an animal. | hypernym
        A man is riding a horse. | nobody | \
            Nobody is riding a horse. | Nobody is riding an animal. | hypernym
        Two men are riding a horse. | few | \
            Few men are riding a horse. | Few men are riding an animal. | hypernym
        A man with a hat in a park. | without | \
            A man without a hat in a park. | A man without a garment in a park. | hypernym
    """),
)
def test_the_probe_negates_both_sides_and_gives_the_label_of_reversed_entailment(
    premise, operator, negated, claim, kind
):
    assert pairs_of(premise)[operator, negated, claim] == NEGATED_LABELS[kind]


@pytest.mark.parametrize(
    "premise",
    [
        "A man is not riding a horse.",
        "A man who waits is riding a horse.",
        "A man is riding the horse.",
        "Nobody is riding a horse.",
        "A man with only a hat in a park.",
        "A man isn't in a park with a hat.",
        "A man with a hat sits.",
    ],
)
def test_another_operator_or_clause_or_a_definite_noun_gives_no_negated_pair(premise):
    assert not pairs_of(premise)


@pytest.mark.parametrize("subject", ["Someone in a cap", "Man in cap"])
def test_the_operator_no_replaces_a_determiner_alone(subject):
    operators = {operator for operator, _, _ in pairs_of(f"{subject} is riding a horse.")}
    assert operators == {"not", "n't", "never", "nobody"}


def test_the_article_before_a_noun_goes_by_its_sound():
    premises = {premise for _, premise, _ in pairs_of("A man is riding a unicycle.")}
    assert "A man is not riding a unicycle." in premises
