"""What users type: numbers, lists of them, moments and lengths of time."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_cli.moments import length_ms, moment_ms, moment_text
from chiplog_cli.numbers import key_and_value, partition_numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", (0,)), ("2,0", (0, 2)), ("0,2,4-7", (0, 2, 4, 5, 6, 7)), ("3-3, 3", (3,))],
)
def test_partitions(text: str, numbers: tuple[int, ...]) -> None:
    assert partition_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1,", "1-", "-1", "3-2", "0-9999999", "1.5", "٣"])
def test_what_are_no_partitions(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        partition_numbers(text)


@given(st.sets(st.integers(0, 500), min_size=1))
def test_any_list_of_partitions_reads_as_itself(numbers: set[int]) -> None:
    assert partition_numbers(",".join(map(str, numbers))) == tuple(sorted(numbers))


def test_keys_and_values() -> None:
    assert key_and_value("retention.ms=5") == ("retention.ms", "5")
    assert key_and_value("a = b=c") == ("a", "b=c")
    assert key_and_value("a=") == ("a", "")


@pytest.mark.parametrize("text", ["retention.ms", "=5", ""])
def test_what_sets_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="KEY=VALUE"):
        key_and_value(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("7d", 604_800_000),
        ("P7D", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("PT0.5S", 500),
        ("PT0.0625S", 62),
        ("P1DT1S", 86_401_000),
    ],
)
def test_a_length_of_time(text: str, milliseconds: int) -> None:
    assert length_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "7", "P", "PT", "P1DT", "P1W", "-PT1H", "pt1h", "1h30m"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="PT1H30M"):
        length_ms(text)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_iso_8601_adds_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    parts = (f"{days}d", f"{hours}h", f"{minutes}m", f"{seconds}s")
    text = f"P{days}DT{hours}H{minutes}M{seconds}S"
    assert length_ms(text) == sum(map(length_ms, parts))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:00.123Z", 123),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_a_moment(text: str, milliseconds: int) -> None:
    assert moment_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "12:00"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 2026"):
        moment_ms(text)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - Hypothesis wants them so
def test_a_moment_that_is_written_reads_as_itself(moment: datetime) -> None:
    milliseconds = moment_ms(moment.isoformat())
    assert moment_ms(moment_text(milliseconds)) == milliseconds
