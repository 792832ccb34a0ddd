"""Durations and quantities."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.durations import Duration, duration_ms
from chiplog_core.quantities import Quantity, quantity_value


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250ms", 250), ("90s", 90_000), ("5m", 300_000), ("12h", 43_200_000), ("7d", 604_800_000)],
)
def test_a_duration_in_milliseconds(text: str, milliseconds: int) -> None:
    assert duration_ms(Duration(text)) == milliseconds


@pytest.mark.parametrize("text", ["", "7", "d", "7w", "-7d", "1.5h", "1h30m", "7 d", "1234567890s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="like 7d"):
        duration_ms(Duration(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100", Fraction(100)),
        ("1.5Gi", Fraction(1610612736)),
        ("500m", Fraction(1, 2)),
        ("2k", Fraction(2000)),
        ("1E", Fraction(10**18)),
        ("1e3", Fraction(1000)),
        ("5.", Fraction(5)),
        (".5", Fraction(1, 2)),
        ("-1Ki", Fraction(-1024)),
        ("25e-1", Fraction(5, 2)),
        ("3n", Fraction(3, 10**9)),
    ],
)
def test_the_value_of_a_quantity(text: str, value: Fraction) -> None:
    assert quantity_value(Quantity(text)) == value


@pytest.mark.parametrize("text", ["", "Gi", "10Gx", "1 Gi", "ten", "1e100", "0x10", "1_0"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="like 100Gi"):
        quantity_value(Quantity(text))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_sizes_compare_like_their_numbers(one: int, other: int) -> None:
    first, second = quantity_value(Quantity(f"{one}Gi")), quantity_value(Quantity(f"{other}Gi"))

    assert (first < second) == (one < other)
