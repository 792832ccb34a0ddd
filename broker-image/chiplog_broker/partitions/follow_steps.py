"""What a follower does with a leader's answer. Pure decisions; `following` acts on them.

The point where two logs diverge is found by leader epochs (KIP-101, 279, 595): the leader answers
with its largest epoch that is not above ours, and the end offset of that epoch. The follower
truncates to the end of the largest epoch that both know. This may take several answers.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from chiplog_broker.storage.epochs import NO_EPOCH, EpochEnd
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import EpochEndOffset, FetchPartitionResponse
from chiplog_wire.records.batch import iter_batches


class FetchPosition(NamedTuple):
    """The position of a follower's next fetch; the leader checks all of it."""

    offset: int
    """Also acknowledges everything below: it is durable here (R5)."""
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int


class FetchedPartition(NamedTuple):
    """A leader's answer for one partition, with the position that was fetched."""

    requested: FetchPosition
    answer: FetchPartitionResponse


class EpochLog(Protocol):
    """The part of a `PartitionLog` that these decisions need."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int: ...
    def epoch_at(self, offset: int) -> int: ...
    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd: ...


@dataclass(frozen=True, slots=True)
class Append:
    """The answer continues our log."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncate to an offset; if that is the log end offset, only leader epochs are removed."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """None of our records is usable: the leader's log begins at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Do nothing now, and fetch again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class AwaitMetadata:
    """Do nothing more in this leader epoch."""

    reason: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Following would lose acknowledged records: an operator must act."""

    reason: str


Step: TypeAlias = Append | Truncate | StartOver | Retry | AwaitMetadata | Halt

APPEND: Final = Append()
OK: Final = int(ErrorCode.none)


def next_step(log: EpochLog, high_watermark: int, answer: FetchPartitionResponse) -> Step:
    """The step that an answer to our present position requires."""
    if answer.error_code == ErrorCode.offset_out_of_range:
        return _out_of_range(log, high_watermark, answer.log_start_offset)
    if answer.error_code == ErrorCode.fenced_leader_epoch:
        # Our leader epoch is outdated; the newer map will arrive.
        return AwaitMetadata("the leader is in another leader epoch")
    if answer.error_code != OK:
        return Retry(name_of(answer.error_code))
    if answer.diverging_epoch is not None:
        return _diverging(log, high_watermark, answer.diverging_epoch)
    return APPEND


def name_of(code: int) -> str:
    """The name of an error in Kafka, also of an unknown one."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"


def _out_of_range(log: EpochLog, high_watermark: int, leader_start: int) -> Step:
    """The leader has deleted the next records that we need, or its log ends before ours."""
    is_empty = log.end_offset == log.log_start_offset
    if not (leader_start > log.end_offset or (is_empty and leader_start >= 0)):
        # Its log ends before ours. Its next answer contains the diverging epoch: it checks epochs
        # before the offset.
        return Retry(f"offset {log.end_offset} is out of range of a log from {leader_start}")
    if leader_start < high_watermark:
        return Halt(f"the leader reports {leader_start} as its log start offset")
    return StartOver(leader_start)


def _diverging(log: EpochLog, high_watermark: int, leaders: EpochEndOffset) -> Step:
    if leaders.epoch < 0 or leaders.end_offset < 0:
        return Halt(f"the leader has no leader epoch up to {log.last_epoch}")
    target = min(_common_end(log, leaders), log.end_offset)
    if target < high_watermark:
        return Halt(f"epoch {leaders.epoch} ends at {leaders.end_offset} on the leader")
    # If the log becomes empty, it has no epoch: the history does not begin below the log.
    if target == log.end_offset and log.epoch_at(target - 1) == log.last_epoch:
        return Retry(
            f"the leader reports {leaders} as the point of divergence, but the log here "
            "does not differ there"
        )
    return Truncate(target)


def _common_end(log: EpochLog, leaders: EpochEndOffset) -> int:
    """The end offset up to which both logs may be equal, by this one answer."""
    own = log.end_offset_for_epoch(leaders.epoch)
    if own.leader_epoch == NO_EPOCH:
        return leaders.end_offset
    if own.leader_epoch == leaders.epoch:
        return min(own.end_offset, leaders.end_offset)
    # We do not have that epoch: truncate to the one before it, and fetch again.
    return own.end_offset


def end_of_last_gap(records: memoryview, end_offset: int) -> int:
    """Where the last gap between batches ends, of which the first should begin at `end_offset`;
    0 if there is none. Raises `CorruptBatchError`."""
    gap_end_offset, expected = 0, end_offset
    for _, header in iter_batches(records):
        if header.base_offset > expected:
            gap_end_offset = header.base_offset
        expected = header.last_offset + 1
    return gap_end_offset
