"""Where two histories part: every pair of logs ends with what both had, and nothing less."""

import random
from dataclasses import dataclass, field

import pytest

from chiplog_broker.partitions.follow_steps import (
    APPEND,
    AwaitMetadata,
    Halt,
    Retry,
    StartOver,
    Truncate,
    next_step,
)
from chiplog_broker.storage.epochs import NO_EPOCH, EpochEnd, EpochHistory
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import EpochEndOffset, FetchPartitionResponse


@dataclass
class Log:
    """Records as the epochs under which they were written."""

    records: list[int]
    log_start_offset: int = 0
    history: EpochHistory = field(default_factory=EpochHistory)

    def __post_init__(self) -> None:
        for offset, epoch in enumerate(self.records, self.log_start_offset):
            self.history.assign(epoch, offset)

    @property
    def end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.history.last_epoch

    def epoch_at(self, offset: int) -> int:
        return self.history.epoch_at(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        return self.history.end_offset_for(leader_epoch, self.end_offset)

    def begin_epoch(self, epoch: int) -> None:
        self.history.assign(epoch, self.end_offset)

    def truncate(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            self.records, self.history = [], EpochHistory()
            return
        del self.records[offset - self.log_start_offset :]
        self.history.truncate_end(offset)


def ask(leader: Log, follower: Log) -> FetchPartitionResponse:
    """As a leader answers."""
    found = FetchPartitionResponse(0, 0, 0, 0, leader.log_start_offset)
    if follower.last_epoch != NO_EPOCH:
        epoch, end = leader.end_offset_for_epoch(follower.last_epoch)
        assert epoch != NO_EPOCH
        if epoch < follower.last_epoch or end < follower.end_offset:
            return found._replace(diverging_epoch=EpochEndOffset(epoch, end))
    if not leader.log_start_offset <= follower.end_offset <= leader.end_offset:
        return found._replace(error_code=ErrorCode.offset_out_of_range)
    return found


def agree(leader: Log, follower: Log, high_watermark: int = 0) -> int:
    """Ask until the leader's answer continues the log; how many answers were needed."""
    for requested in range(100):
        match next_step(follower, high_watermark, ask(leader, follower)):
            case Truncate(offset):
                follower.truncate(offset)
            case StartOver(offset):
                follower.records, follower.history = [], EpochHistory()
                follower.log_start_offset = offset
            case step:
                assert step == APPEND, step
                return requested
    raise AssertionError("no end")


@pytest.mark.parametrize("seed", range(300))
def test_what_both_have_stays_and_nothing_else(seed: int) -> None:
    """Each epoch has one leader, so two logs agree up to where they part."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    common: list[int] = []
    for epoch in range(chance.randrange(4)):
        common += [epoch] * chance.randrange(4)
    owners = {epoch: chance.random() < 0.5 for epoch in range(4, 12)}

    def tail(mine: bool) -> list[int]:
        return [
            epoch
            for epoch, owner in owners.items()
            if owner is mine
            for _ in range(chance.randrange(3))
        ]

    leader, follower = Log(common + tail(True)), Log(common + tail(False))
    for epoch, owner in owners.items():
        # A leader epoch in which nothing was written leaves an entry at the log's end.
        if chance.random() < 0.2:
            log = leader if owner else follower
            if epoch > log.last_epoch:
                log.begin_epoch(epoch)
    leader.begin_epoch(12)
    agree(leader, follower, high_watermark=len(common))
    assert follower.records == common
    expected = Log(common)
    for log in (follower, expected):
        # What the leader writes next takes the place of epochs that wrote nothing.
        log.begin_epoch(12)
    assert follower.history.entries == expected.history.entries


def test_an_epoch_that_wrote_nothing_goes_without_any_record() -> None:
    leader, follower = Log([1, 1]), Log([1, 1])
    follower.begin_epoch(5)
    leader.begin_epoch(6)
    assert next_step(follower, 2, ask(leader, follower)) == Truncate(2)
    agree(leader, follower, high_watermark=2)
    assert (follower.records, follower.last_epoch) == ([1, 1], 1)


def test_never_below_the_high_watermark() -> None:
    leader, follower = Log([1, 1]), Log([1, 1, 1, 1])
    leader.begin_epoch(2)
    assert isinstance(next_step(follower, 2, ask(leader, follower)), Truncate)
    assert isinstance(next_step(follower, 3, ask(leader, follower)), Halt)


def test_a_leader_without_any_of_our_epochs_is_not_believed() -> None:
    for nothing in (EpochEndOffset(-1, -1), EpochEndOffset(-1, 0), EpochEndOffset(1, -1)):
        answer = FetchPartitionResponse(0, 0, 0, diverging_epoch=nothing)
        assert isinstance(next_step(Log([1]), 0, answer), Halt)


def test_an_answer_that_takes_us_nowhere_is_not_followed_for_ever() -> None:
    answer = FetchPartitionResponse(0, 0, 0, diverging_epoch=EpochEndOffset(1, 5))
    assert isinstance(next_step(Log([1]), 0, answer), Retry)


@pytest.mark.parametrize(
    ("leader_start", "records", "high_watermark", "expected"),
    [
        (10, [1, 1], 2, StartOver(10)),
        (3, [1, 1], 2, StartOver(3)),
        (2, [1, 1], 0, Retry),
        (0, [1, 1], 0, Retry),
        (-1, [1, 1], 0, Retry),
        (0, [], 0, StartOver(0)),
        (-1, [], 0, Retry),
    ],
)
def test_out_of_range(
    leader_start: int, records: list[int], high_watermark: int, expected: object
) -> None:
    answer = FetchPartitionResponse(0, ErrorCode.offset_out_of_range, -1, -1, leader_start)
    step = next_step(Log(records), high_watermark, answer)
    assert step == expected or (isinstance(expected, type) and isinstance(step, expected))


def test_an_empty_log_does_not_go_below_what_was_acknowledged() -> None:
    answer = FetchPartitionResponse(0, ErrorCode.offset_out_of_range, -1, -1, 3)
    assert next_step(Log([], 7), 0, answer) == StartOver(3)
    assert isinstance(next_step(Log([], 7), 7, answer), Halt)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.fenced_leader_epoch, AwaitMetadata),
        (ErrorCode.unknown_leader_epoch, Retry),
        (ErrorCode.not_leader_or_follower, Retry),
        (ErrorCode.unknown_topic_id, Retry),
        (ErrorCode.stale_broker_epoch, Retry),
        (ErrorCode.kafka_storage_error, Retry),
        (30_000, Retry),
    ],
)
def test_errors(code: int, expected: type) -> None:
    answer = FetchPartitionResponse(0, code, -1)
    assert isinstance(next_step(Log([1]), 0, answer), expected)


OUT_OF_RANGE = FetchPartitionResponse(0, ErrorCode.offset_out_of_range, -1, -1, 0)
"""By a leader whose log begins at 0."""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            FetchPartitionResponse(0, ErrorCode.fenced_leader_epoch, -1),
            AwaitMetadata("the leader is in another leader epoch"),
        ),
        (FetchPartitionResponse(0, ErrorCode.unknown_topic_id, -1), Retry("UNKNOWN_TOPIC_ID")),
        (FetchPartitionResponse(0, 30_000, -1), Retry("error 30000")),
        (OUT_OF_RANGE, Retry("offset 2 is out of range of a log from 0")),
        (
            OUT_OF_RANGE._replace(log_start_offset=3),
            Halt("the leader's log starts at offset 3, below the high watermark 4 here"),
        ),
        (
            FetchPartitionResponse(0, 0, 0, diverging_epoch=EpochEndOffset(-1, -1)),
            Halt("the leader's log has no leader epoch up to 1, the last one here"),
        ),
        (
            FetchPartitionResponse(0, 0, 0, diverging_epoch=EpochEndOffset(1, 1)),
            Halt(
                "leader epoch 1 ends at offset 1 in the leader's log, so this log would be "
                "truncated to 1, below its high watermark 4"
            ),
        ),
    ],
)
def test_what_is_not_followed_says_why(answer: FetchPartitionResponse, expected: object) -> None:
    """Whoever looks at a replica that does not get on reads it in the log or in the status."""
    assert next_step(Log([1, 1]), 4, answer) == expected


def test_an_answer_that_takes_us_nowhere_is_named() -> None:
    answer = FetchPartitionResponse(0, 0, 0, diverging_epoch=EpochEndOffset(1, 5))
    step = next_step(Log([1]), 0, answer)
    assert isinstance(step, Retry)
    assert "epoch=1" in step.reason
    assert "end_offset=5" in step.reason
    assert step.reason.endswith("but the log here does not differ there")
