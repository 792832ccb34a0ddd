"""Patterns for topic names mean what everybody's regular expressions mean."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.model.name_pattern import (
    MAX_DEPTH,
    NAME_CHARACTERS,
    SHARED_SYNTAX,
    name_matches,
    read_pattern,
)

NAMES = st.text("abz09._-", max_size=12)


def patterns() -> st.SearchStrategy[str]:
    characters = st.sampled_from(["a", "b", "z", "0", "-", "_", ".", r"\.", r"\-", r"\d", r"\w"])
    classes = st.sampled_from(["[ab]", "[a-z]", "[^a-b]", r"[0-9\.]", "[a-]", "[-.z]", r"[^\d_]"])
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
            st.tuples(inner, counts).map(lambda two: f"(?:{two[0]}){two[1]}"),
            inner.map(lambda one: f"({one}|)"),
        )

    return st.recursive(characters | classes, larger, max_leaves=8)


@settings(max_examples=500, deadline=None)
@given(pattern=patterns(), name=NAMES)
def test_a_pattern_matches_what_it_matches_elsewhere(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern, name) is not None

    assert name_matches(pattern, name) == expected
    assert name_matches(f"^{pattern}$", name) == expected


@settings(max_examples=200, deadline=None)
@given(data=st.data(), pattern=patterns())
def test_a_name_made_for_a_pattern_matches(data: st.DataObject, pattern: str) -> None:
    alphabet = "".join(sorted(NAME_CHARACTERS))
    name = data.draw(st.from_regex(re.compile(pattern), fullmatch=True, alphabet=alphabet))

    assert name_matches(pattern, name)


@settings(max_examples=300, deadline=None)
@given(
    pattern=st.from_regex(
        re.compile(SHARED_SYNTAX), fullmatch=True, alphabet=r"ab0.-_\dw[^]()|*{1,}$?:"
    )
)
def test_what_is_read_is_a_regular_expression_elsewhere(pattern: str) -> None:
    try:
        read_pattern(pattern)
    except ValueError:
        return
    re.compile(pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "it has a ( without a )"),
        ("(a|b", "it has a ( without a )"),
        ("a)", "it has a ) without a ("),
        ("a)|(b", "it has a ) without a ("),
        ("[z-a]", "its range z-a does not go from a character to a later one"),
        (r"[a-\d]", r"its range a-\d does not go from a character to a later one"),
        ("[a-z-9]", "its class [a-z-9] has a - that is neither first nor last"),
        ("a{3,2}", "its count {3,2} has a maximum below its minimum"),
        (
            "(a{100}){100}",
            "it has more than 1000 steps when its counts, like {1,100}, are written out",
        ),
        ("(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1), "its groups are nested deeper"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_said_why(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}"):
        read_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["a**", "a*?", "a*+", "(?i)a", "(?=a)", "(?P<x>a)", r"(a)\1", r"\pL", "[[:alpha:]]", "a b",
     "*a", "|*", "(*a)", "[]", "[]a]", "a{,3}", "a{1000}", "a^b", "a$b", "ä", "", "a\n", r"\b"],
)  # fmt: skip
def test_what_regular_expressions_do_not_share_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="it is not a regular expression of letters"):
        read_pattern(pattern)


def test_a_pattern_cannot_hold_up_the_operator() -> None:
    """With backtracking this takes longer than there is time."""
    assert not name_matches(r"(([a-z])+.)+[A-Z]([a-z])+", "a" * 249)
    assert not name_matches(r"(a|a)*(a|a)*(a|a)*b", "a" * 249)


def test_a_class_holds_single_characters_ranges_and_escapes() -> None:
    assert name_matches(r"[ab_x-z\.\-]+", "ab_y.-")
    assert not name_matches(r"[ab_x-z\.\-]+", "c")
    assert name_matches(r"[^a\d]+", "bc-_")
    assert not name_matches(r"[^a\d]+", "b7")
