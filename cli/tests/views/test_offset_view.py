"""Offsets in the shape of `kafka-get-offsets.sh`."""

import pytest

from chiplog_cli import offset_view
from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import UNKNOWN_OFFSET, Offsets
from tests.views.facts import at

FOUND: Offsets = {
    at(1): 5,
    at(0): UNKNOWN_OFFSET,
    at(2): BrokerRefused("LEADER_NOT_AVAILABLE", "no leader"),
    at(0, "a"): 0,
}


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("latest", -1),
        ("-1", -1),
        ("earliest", -2),
        ("-2", -2),
        ("max-timestamp", -3),
        ("-3", -3),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:01Z", 1000),
    ],
)
def test_times(text: str, timestamp: int) -> None:
    assert offset_view.timestamp(text) == timestamp


@pytest.mark.parametrize("text", ["", "-4", "last", "1e3", "99999999999999999999"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="max-timestamp"):
        offset_view.timestamp(text)


def test_text() -> None:
    assert offset_view.text(FOUND) == "a:0:0\norders:1:5"


def test_documents() -> None:
    assert offset_view.documents(FOUND) == [
        {"topic": "a", "partition": 0, "offset": 0},
        {"topic": "orders", "partition": 0, "offset": None},
        {"topic": "orders", "partition": 1, "offset": 5},
    ]


def test_who_did_not_answer() -> None:
    assert offset_view.skipped(FOUND) == [
        "Skip getting offsets for topic-partition orders-2 due to error: no leader"
    ]
