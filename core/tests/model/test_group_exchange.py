"""What operator and brokers say about groups reads as it was written, and strictly."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.durations import Duration
from chiplog_core.ids import BrokerId, LeaderEpoch, Offset, PartitionIndex
from chiplog_core.model import group_exchange as exchange
from chiplog_core.model.consumer_group import Reset, ResetStrategy, WhileActive
from chiplog_core.model.group_status import (
    AssignedTopic,
    GroupState,
    Member,
    ResetOffset,
    ResetState,
)
from chiplog_core.problems import InvalidManifest

P0, P1 = PartitionIndex(0), PartitionIndex(1)

MEMBER = Member(
    member_id="c-1",
    client_id="c",
    host="/10.0.0.1",
    group_instance_id="one",
    assignment=(AssignedTopic(topic="orders", partitions=(P0, P1)),),
)
FACTS = exchange.GroupFacts(
    group_id="Zähler/1",
    coordinator=BrokerId(2),
    leader_epoch=LeaderEpoch(7),
    state=GroupState.STABLE,
    protocol_type="consumer",
    protocol="range",
    generation=3,
    member_count=1,
    members=(MEMBER,),
    topics=(
        exchange.TopicOffsets(
            topic="orders",
            partitions=(
                exchange.PartitionOffset(
                    partition=P0,
                    committed_offset=5,
                    commit_time_ms=1,
                    end_offset=Offset(9),
                    log_start_offset=Offset(0),
                ),
                exchange.PartitionOffset(partition=P1, committed_offset=-1),
            ),
        ),
    ),
    offset_retention_ms=exchange.KEPT_FOR_EVER,
)
POSITION = exchange.PartitionPosition(
    partition=P1,
    end_offset=Offset(9),
    log_start_offset=Offset(2),
    last_timestamp_ms=-1,
    times=(exchange.RecordTime(offset=Offset(3), timestamp_ms=1_800_000_000_000),),
    since_offset=Offset(0),
)
TOPICS = (exchange.TopicPositions(topic="orders", partitions=(POSITION,)),)
RESET = Reset(
    id="again-1",
    strategy=ResetStrategy.BY_DURATION,
    duration=Duration("7d"),
    dry_run=False,
    while_active=WhileActive.FENCE,
)

REQUESTS: list[Any] = [
    exchange.GroupsRequest(partitions=()),
    exchange.GroupsRequest(
        partitions=(exchange.OffsetsPartition(partition=P1, leader_epoch=LeaderEpoch(0)),),
        groups=("a", "b"),
        after="a",
    ),
    exchange.PositionsRequest(
        topics=(
            exchange.TopicRequest(
                topic="orders",
                partitions=(
                    exchange.PartitionRequest(partition=P0),
                    exchange.PartitionRequest(partition=P1, offsets=(Offset(0), Offset(3))),
                ),
            ),
        ),
        since_ms=0,
    ),
    exchange.RetentionRequest(
        groups=(
            exchange.GroupRetention(group_id="a", retention_ms=exchange.KEPT_FOR_EVER),
            exchange.GroupRetention(group_id="b", retention_ms=0),
            exchange.GroupRetention(group_id="c"),
        )
    ),
    exchange.ResetRequest(group_id="g", reset=RESET, positions=TOPICS),
]
ANSWERS: list[Any] = [
    exchange.GroupsAnswer(
        groups=(
            FACTS,
            exchange.GroupFacts(group_id="b", refusal=exchange.GroupRefusal.LOADING),
        ),
        partitions=(
            exchange.PartitionAnswer(partition=P0),
            exchange.PartitionAnswer(partition=P1, refusal=exchange.GroupRefusal.NOT_COORDINATOR),
        ),
        next_after="b",
        time_ms=5,
    ),
    exchange.Positions(topics=TOPICS, time_ms=5),
    exchange.RetentionAnswer(
        groups=(
            exchange.RetentionStored(group_id="a"),
            exchange.RetentionStored(group_id="b", refusal=exchange.GroupRefusal.UNAVAILABLE),
        )
    ),
    exchange.ResetAnswer(
        group_id="g",
        id="again-1",
        state=ResetState.DONE,
        offsets=(ResetOffset(topic="orders", partition=P0, offset=-1, new_offset=Offset(4)),),
    ),
]


def named(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("value", REQUESTS, ids=named)
def test_a_request_reads_as_it_was_written(value: Any) -> None:
    assert exchange.request_from_body(type(value), exchange.to_body(value)) == value


@pytest.mark.parametrize("value", ANSWERS, ids=named)
def test_an_answer_reads_as_it_was_written(value: Any) -> None:
    assert exchange.answer_from_body(type(value), exchange.to_body(value)) == value


@pytest.mark.parametrize("value", REQUESTS, ids=named)
def test_a_wish_that_is_not_known_is_refused(value: Any) -> None:
    body = json.dumps({**json.loads(exchange.to_body(value)), "newer": 1}).encode()

    with pytest.raises(InvalidManifest, match=r"body\.newer"):
        exchange.request_from_body(type(value), body)


@pytest.mark.parametrize("value", ANSWERS, ids=named)
def test_a_newer_broker_may_tell_more(value: Any) -> None:
    body = json.dumps({**json.loads(exchange.to_body(value)), "newer": 1}).encode()

    assert exchange.answer_from_body(type(value), body) == value


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"null", b"1e999"])
def test_what_is_no_request_is_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(InvalidManifest, match="body"):
        exchange.request_from_body(exchange.GroupsRequest, body)


def test_what_is_not_known_is_absent_and_not_0() -> None:
    unknown = replace(POSITION, last_timestamp_ms=None, times=(), since_offset=None)

    written = json.loads(
        exchange.to_body(exchange.TopicPositions(topic="t", partitions=(unknown,)))
    )

    assert written["partitions"] == [{"partition": 1, "endOffset": 9, "logStartOffset": 2}]


@given(st.integers(-1, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_lag_is_never_negative_but_where_nothing_was_committed(committed: int, end: int) -> None:
    lag = exchange.lag_records(committed, end)

    if committed == -1:
        assert lag == -1
    else:
        assert lag == (end - committed if end >= committed else 0)
