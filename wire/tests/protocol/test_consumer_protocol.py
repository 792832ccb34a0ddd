"""Subscriptions and assignments, as kio and as real clients write them."""

import importlib
import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from chiplog_wire.protocol.consumer_protocol import (
    AssignedPartition,
    Subscription,
    parse_assignment,
    parse_subscription,
    subscribed_topics,
)

VERSIONS = range(4)
TOPICS = st.lists(st.text(max_size=20), max_size=5)
PARTITIONS = st.lists(
    st.tuples(st.text(max_size=20), st.lists(st.integers(0, 2**31 - 1), max_size=4)), max_size=4
)


def written(kind: str, version: int, **values: Any) -> bytes:
    """The message as kio writes it, its version in front. Values that it lacks are left out."""
    module = importlib.import_module(f"kio.schema.consumer_protocol_{kind}.v{version}.data")
    message_class = getattr(module, f"ConsumerProtocol{kind.title()}")
    known = {name: values[name] for name in values if name in message_class.__dataclass_fields__}
    for name in ("owned_partitions", "assigned_partitions"):
        if name in known:
            known[name] = tuple(
                module.TopicPartition(topic=topic, partitions=tuple(partitions))
                for topic, partitions in known[name]
            )
    buffer = io.BytesIO()
    entity_writer(message_class)(buffer, message_class(**known))
    return struct.pack(">h", version) + buffer.getvalue()


def flat(partitions: list[tuple[str, list[int]]]) -> tuple[AssignedPartition, ...]:
    return tuple(
        AssignedPartition(topic, index) for topic, all_of in partitions for index in all_of
    )


@pytest.mark.parametrize("version", VERSIONS)
@given(
    topics=TOPICS,
    user_data=st.none() | st.binary(max_size=20),
    owned=PARTITIONS,
    generation_id=st.integers(-1, 2**31 - 1),
    rack_id=st.none() | st.text(max_size=10),
)
def test_subscriptions_of_every_version(
    version: int,
    topics: list[str],
    user_data: bytes | None,
    owned: list[tuple[str, list[int]]],
    generation_id: int,
    rack_id: str | None,
) -> None:
    raw = written(
        "subscription",
        version,
        topics=tuple(topics),
        user_data=user_data,
        owned_partitions=owned,
        generation_id=generation_id,
        rack_id=rack_id,
    )
    assert subscribed_topics(raw) == frozenset(topics)
    assert parse_subscription(raw) == Subscription(
        topics=tuple(topics),
        user_data=user_data,
        owned_partitions=flat(owned) if version >= 1 else (),
        generation_id=generation_id if version >= 2 else -1,
        rack_id=rack_id if version >= 3 else None,
    )
    if version == 3:
        later = struct.pack(">h", 9) + raw[2:] + b"a new field"
        assert parse_subscription(later) == parse_subscription(raw)


@pytest.mark.parametrize("version", VERSIONS)
@given(assigned=PARTITIONS, user_data=st.none() | st.binary(max_size=20))
def test_assignments_of_every_version(
    version: int, assigned: list[tuple[str, list[int]]], user_data: bytes | None
) -> None:
    raw = written("assignment", version, assigned_partitions=assigned, user_data=user_data)
    assert parse_assignment(raw) == flat(assigned)


def test_by_hand() -> None:
    subscription = bytes.fromhex("0000 00000002 0001 61 0001 62 ffffffff")
    assert subscribed_topics(subscription) == frozenset({"a", "b"})
    assignment = bytes.fromhex("0000 00000001 0001 61 00000002 00000000 00000003 ffffffff")
    assert parse_assignment(assignment) == (AssignedPartition("a", 0), AssignedPartition("a", 3))
    assert parse_assignment(b"") == ()


def test_a_version_without_the_fields_it_announces() -> None:
    raw = bytes.fromhex("0001 00000001 0001 61 00000000")
    assert subscribed_topics(raw) == frozenset({"a"})
    assert parse_subscription(raw) is None


@pytest.mark.parametrize(
    "raw",
    [b"\0", bytes.fromhex("ffff 00000000 ffffffff"), bytes.fromhex("0000 7fffffff"), b"connect"],
)
def test_bytes_of_another_kind_say_nothing(raw: bytes) -> None:
    assert subscribed_topics(raw) is None
    assert parse_subscription(raw) is None
    assert parse_assignment(raw) is None


@given(st.binary(max_size=60))
def test_no_bytes_raise(raw: bytes) -> None:
    subscribed_topics(raw)
    parse_subscription(raw)
    parse_assignment(raw)
