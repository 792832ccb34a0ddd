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
    """The follower's log end. The leader takes it as an acknowledgement: all records below it are
    durable on the follower (rule R5)."""
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
    """Append the records of the answer: they continue our log."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncate to an offset; if that is the log end offset, only leader epochs are removed."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """Delete all our records and continue at `offset`, the leader's log start offset: the leader
    has deleted the records that would follow ours."""

    offset: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Do nothing now, and fetch again later."""

    reason: str


@dataclass(frozen=True, slots=True)
class AwaitMetadata:
    """Stop fetching in this leader epoch; metadata with a newer one will start it again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Following would lose acknowledged records: an operator must act."""

    reason: str


Step: TypeAlias = Append | Truncate | StartOver | Retry | AwaitMetadata | Halt

APPEND: Final = Append()
OK: Final = int(ErrorCode.none)


def next_step(log: EpochLog, kept_offset: int, answer: FetchPartitionResponse) -> Step:
    """The step that the leader's answer to a fetch from our log end requires.

    Records below `kept_offset` must not be removed: a step that would do so becomes `Halt`.
    """
    if answer.error_code == ErrorCode.offset_out_of_range:
        return _step_out_of_range(log, kept_offset, answer.log_start_offset)
    if answer.error_code == ErrorCode.fenced_leader_epoch:
        # Our leader epoch is outdated; the newer map will arrive.
        return AwaitMetadata("the leader is in another leader epoch")
    if answer.error_code != OK:
        return Retry(name_of(answer.error_code))
    if answer.diverging_epoch is not None:
        return _step_at_divergence(log, kept_offset, answer.diverging_epoch)
    return APPEND


def name_of(code: int) -> str:
    """The name of a Kafka error code, or "error" with the number if the code is unknown."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"


def _step_out_of_range(log: EpochLog, kept_offset: int, leader_start: int) -> Step:
    """The step after OFFSET_OUT_OF_RANGE: our log end is outside of the leader's log.

    Either the leader has deleted the records that we need next, and we start over, or its log ends
    before ours. `leader_start` is the leader's log start offset, -1 if it is unknown.
    """
    is_empty = log.end_offset == log.log_start_offset
    leader_deleted_next = leader_start > log.end_offset or (is_empty and leader_start >= 0)
    if not leader_deleted_next:
        # The leader's log ends before ours. Its next answer will contain the diverging epoch,
        # because a leader compares epochs before it checks the offset.
        return Retry(f"offset {log.end_offset} is out of range of a log from {leader_start}")
    if leader_start < kept_offset:
        return Halt(
            f"the leader's log starts at offset {leader_start}, below the high watermark "
            f"{kept_offset} here"
        )
    return StartOver(leader_start)


def _step_at_divergence(log: EpochLog, kept_offset: int, leaders: EpochEndOffset) -> Step:
    """The step if the logs diverge. `leaders` is the leader's largest epoch that is not above ours,
    with its end offset in the leader's log; -1 if the leader has none."""
    if leaders.epoch < 0 or leaders.end_offset < 0:
        return Halt(
            f"the leader's log has no leader epoch up to {log.last_epoch}, the last one here"
        )
    target = min(_common_end(log, leaders), log.end_offset)
    if target < kept_offset:
        return Halt(
            f"leader epoch {leaders.epoch} ends at offset {leaders.end_offset} in the leader's "
            f"log, so this log would be truncated to {target}, below its high watermark "
            f"{kept_offset}"
        )
    # A truncation to the log end can still remove leader epochs that begin there and have no
    # records. If there are none, it would change nothing and be repeated for ever. (Of an empty
    # log `epoch_at` finds no epoch, because its epoch history does not begin below the log.)
    if target == log.end_offset and log.epoch_at(target - 1) == log.last_epoch:
        return Retry(
            f"the leader reports {leaders} as the point of divergence, but the log here "
            "does not differ there"
        )
    return Truncate(target)


def _common_end(log: EpochLog, leaders: EpochEndOffset) -> int:
    """The end offset up to which both logs may be equal, as far as this one answer shows."""
    # Our largest epoch that is not above the leader's, with its end offset in our log.
    own = log.end_offset_for_epoch(leaders.epoch)
    if own.leader_epoch == NO_EPOCH:
        return leaders.end_offset
    if own.leader_epoch == leaders.epoch:
        return min(own.end_offset, leaders.end_offset)
    # We do not have the leader's epoch, only an older one: truncate to the end of that one. The
    # next fetch then compares the older epoch.
    return own.end_offset


def end_of_last_gap(records: memoryview, end_offset: int) -> int:
    """The offset at which the last gap between these batches ends; 0 if no offset is missing.

    Compaction on the leader leaves gaps. The first batch should begin at `end_offset`. Raises
    `CorruptBatchError`.
    """
    gap_end_offset, expected = 0, end_offset
    for _, header in iter_batches(records):
        if header.base_offset > expected:
            gap_end_offset = header.base_offset
        expected = header.last_offset + 1
    return gap_end_offset
