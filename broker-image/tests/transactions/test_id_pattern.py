"""Patterns of transactional ids: as Python's `re` says, in linear time."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_broker.transactions.id_pattern import IdPattern

PARTS = st.builds(
    "".join,
    st.lists(
        st.builds(
            lambda one, repeat: one + repeat,
            st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\w", "[]a]"]),
            st.sampled_from(["", "*", "+", "?"]),
        ),
        max_size=6,
    ),
)


@settings(max_examples=300)
@given(st.lists(PARTS, min_size=1, max_size=2).map("|".join), st.text("ab.]\n", max_size=6))
def test_it_matches_as_python_does(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern, text, re.DOTALL) is not None
    assert IdPattern(pattern).matches(text) is expected


@pytest.mark.parametrize("pattern", ["(a)", "a{2}", "*", "a**", "[", "^a", "a$", "\\", "a" * 256])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        IdPattern(pattern)


def test_a_pattern_that_backtracks_takes_no_time() -> None:
    began_s = time.monotonic()
    assert not IdPattern("a*" * 20 + "b").matches("a" * 2_000)
    assert time.monotonic() - began_s < 5


@pytest.mark.parametrize("pattern", [".*" * 100 + "b", "a?" * 127, ".?" * 127, "a*b?" * 60])
def test_a_long_pattern_takes_little_time_for_many_ids(pattern: str) -> None:
    """A coordinator matches all its ids, on the event loop: thousands."""
    matcher, began_s = IdPattern(pattern), time.process_time()
    for _ in range(100):
        matcher.matches("a" * 255)
    assert time.process_time() - began_s < 0.5
