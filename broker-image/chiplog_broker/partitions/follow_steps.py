"""What a follower does with a leader's answer. Pure decisions; `following` acts on them.

Where two histories part is found by leader epochs (KIP-101, 279, 595): the leader names its
largest epoch that is not above ours and where that ended, and we cut back to the end of the
largest epoch that both know. Several answers may be needed; each takes something away.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from chiplog_broker.storage.epochs import NO_EPOCH, EpochEnd
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import EpochEndOffset, FetchPartitionResponse


class FetchPosition(NamedTuple):
    """Where a follower goes on, and what it believes; a leader checks all of it."""

    offset: int
    """Also says that everything below it counts as kept here (R5's durable log end)."""
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int


class FetchedPartition(NamedTuple):
    """A leader's answer for one partition, with what it was asked."""

    asked: FetchPosition
    answer: FetchPartitionResponse


class EpochLog(Protocol):
    """As much of a `PartitionLog` as decides."""

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
    """Cut off what lies at or above an offset; where that is the log end, only epochs go."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """Nothing here is of use: the leader's log begins at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Nothing to be done now; it may pass."""

    reason: str


@dataclass(frozen=True, slots=True)
class AwaitMetadata:
    """Nothing to be done in this leader epoch any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Going on would lose acknowledged records: a human has to look."""

    reason: str


Step: TypeAlias = Append | Truncate | StartOver | Retry | AwaitMetadata | Halt

APPEND: Final = Append()
OK: Final = int(ErrorCode.none)


def next_step(log: EpochLog, high_watermark: int, answer: FetchPartitionResponse) -> Step:
    """What an answer to our present position means."""
    if answer.error_code == ErrorCode.offset_out_of_range:
        return _out_of_range(log, high_watermark, answer.log_start_offset)
    if answer.error_code == ErrorCode.fenced_leader_epoch:
        # We follow an epoch that is over; the map that says so is on its way.
        return AwaitMetadata("the leader is in another leader epoch")
    if answer.error_code != OK:
        return Retry(name_of(answer.error_code))
    if answer.diverging_epoch is not None:
        return _diverging(log, high_watermark, answer.diverging_epoch)
    return APPEND


def name_of(code: int) -> str:
    """An error as Kafka calls it, also one that we do not know."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"


def _out_of_range(log: EpochLog, high_watermark: int, leader_start: int) -> Step:
    """The leader has deleted what we would need next, or has less than we have."""
    is_empty = log.end_offset == log.log_start_offset
    if not (leader_start > log.end_offset or (is_empty and leader_start >= 0)):
        # It has less than we have. Where the histories part its next answer says: it looks
        # at the epochs before the offset.
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
    # No epoch where nothing is left: a history begins no lower than its log.
    if target == log.end_offset and log.epoch_at(target - 1) == log.last_epoch:
        return Retry(
            f"the leader reports {leaders} as the point of divergence, but the log here "
            "does not differ there"
        )
    return Truncate(target)


def _common_end(log: EpochLog, leaders: EpochEndOffset) -> int:
    """As far as both logs may be equal, as far as one answer can tell."""
    own = log.end_offset_for_epoch(leaders.epoch)
    if own.leader_epoch == NO_EPOCH:
        return leaders.end_offset
    if own.leader_epoch == leaders.epoch:
        return min(own.end_offset, leaders.end_offset)
    # We know nothing of that epoch: back to what we had before it, and ask again.
    return own.end_offset
