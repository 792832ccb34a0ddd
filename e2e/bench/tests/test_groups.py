"""The pure parts of what groups are measured with: frames, assignments, what a tool printed."""

import struct
from pathlib import Path

import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.types import GroupId
from kio.serial import entity_reader
from kio.static.primitive import i32

from chiplog_wire.protocol.consumer_protocol import (
    AssignedPartition,
    parse_assignment,
    subscribed_topics,
)
from e2e.bench.group_reader import records_per_s
from e2e.bench.idle_members import HEADER, Group, frame, shares, subscription
from e2e.bench.rig import SETTINGS
from e2e.clients.standalone import StandaloneBroker
from e2e.kafka.broker import LIKE_OURS

PRINTED = """WARN something about a configuration
2026-01-01 00:00:00:000, 2026-01-01 00:00:02:000, 95.3674, 47.6837, 100000, 50000.0000, \
400, 1600, 59.6046, 62500.0000
"""


def test_a_frame_is_its_length_a_header_and_the_request() -> None:
    request = HeartbeatRequest(group_id=GroupId("g"), generation_id=i32(3), member_id="m")
    framed = frame(request)
    (size,) = struct.unpack_from(">i", framed)
    assert size == len(framed) - 4
    assert HEADER.unpack_from(framed, 4) == (12, 4, 1, -1, 0)
    read, _ = entity_reader(HeartbeatRequest)(memoryview(framed), 4 + HEADER.size)
    assert read == request


def test_brokers_understand_what_members_say_and_get() -> None:
    assert subscribed_topics(subscription("orders")) == frozenset({"orders"})
    given = shares("orders", ["b", "a"])
    assert {member_id: parse_assignment(one) for member_id, one in given.items()} == {
        "a": (AssignedPartition("orders", 0),),
        "b": (AssignedPartition("orders", 1),),
    }


@pytest.mark.parametrize(
    ("generations", "is_whole"),
    [
        ({}, False),
        ({"a": 1}, False),
        ({"a": 1, "b": 2}, False),
        ({"a": 2, "b": 2}, True),
        ({"a": 2, "b": 2, "c": 2}, False),
    ],
)
def test_a_group_is_whole_with_all_members_in_one_generation(
    generations: dict[str, int], is_whole: bool
) -> None:
    assert Group("g", 2, generations).is_whole is is_whole


def test_who_begins_a_group_waits_for_nobody_on_either_side(tmp_path: Path) -> None:
    broker = StandaloneBroker(tmp_path / "broker", settings=SETTINGS)
    broker.directory.mkdir(parents=True, exist_ok=True)
    broker.prepare()
    assert "group.initial.rebalance.delay.ms=0" in broker.properties.read_text()
    assert LIKE_OURS["group.initial.rebalance.delay.ms"] == "0"


def test_the_rate_counts_joining() -> None:
    assert records_per_s(PRINTED, 100_000) == 50_000


@pytest.mark.parametrize("printed", [PRINTED, "", "an error, and no numbers"])
def test_fewer_records_are_no_rate(printed: str) -> None:
    with pytest.raises(RuntimeError, match="fewer than 100001 records were read"):
        records_per_s(printed, 100_001)
