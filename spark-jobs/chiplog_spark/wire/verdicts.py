"""What a broker's error code means for a reader: retry, or give up with an error.

These are pure functions. The codes are Kafka's; its protocol guide says what clients do with them.
"""

from enum import Enum
from typing import Final, NamedTuple

from chiplog_spark.wire import errors
from chiplog_spark.wire.errors import WireError
from chiplog_wire.protocol.errors import ErrorCode

LEADER: Final = -1
"""In place of a broker id: the leader of the partition."""


class Verdict(Enum):
    """The reaction to an error code."""

    AGAIN = "again"
    """Look up the partition's leader, and retry until the timeout (`patience_ms`)."""
    OVER = "over"
    """Do not retry."""


class Judged(NamedTuple):
    """The verdict on an error code, and the error to raise if there are no more retries."""

    verdict: Verdict
    error: WireError


# Errors that end without an action of a user, like those during an election.
_AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.replica_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.broker_not_available,
        ErrorCode.listener_not_found,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.coordinator_not_available,
        ErrorCode.kafka_storage_error,
    }
)
_NOT_AUTHORIZED: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.sasl_authentication_failed,
        ErrorCode.illegal_sasl_state,
    }
)


def judged(code: ErrorCode, topic: str, partition: int, replica: int, offset: int = -1) -> Judged:
    """The verdict on an error code other than `none`, which a broker returned for a partition.

    `replica` is the broker that was requested, or `LEADER`; `offset` is -1 if none was requested.
    """
    verdict = Verdict.AGAIN if code in _AGAIN else Verdict.OVER
    if code is ErrorCode.kafka_storage_error and replica != LEADER:
        # By a retry the replica may have been refetched, and the damage would not be reported.
        verdict = Verdict.OVER
    return Judged(verdict, error_for(code, topic, partition, replica, offset))


def error_for(  # noqa: PLR0911 (a table: one answer a line)
    code: ErrorCode, topic: str, partition: int, replica: int, offset: int = -1
) -> WireError:
    """The error for users that an error code means; the parameters are those of `judged`."""
    where = topic, partition
    who = "the leader" if replica == LEADER else f"broker {replica}"
    if code is ErrorCode.unknown_topic_or_partition:
        remedy = "check option topic, and that the topic exists (chiplog topics list)"
        return errors.UnknownTopic("no such topic or partition", remedy, *where)
    if code is ErrorCode.unknown_topic_id:
        remedy = "start the job again: another topic may have its name now"
        return errors.UnknownTopic("the topic was deleted while it was read", remedy, *where)
    if code is ErrorCode.invalid_topic_exception:
        return errors.UnknownTopic("not a valid topic name", "correct option topic", *where)
    if code is ErrorCode.offset_out_of_range:
        return out_of_range(offset, *where)
    if code in _NOT_AUTHORIZED:
        remedy = (
            "check options sasl.username and sasl.password.file, and the listener that "
            "bootstrap.servers names"
        )
        return errors.NotAuthorized(f"{who} answers {code.name}", remedy, *where)
    if code is ErrorCode.not_leader_or_follower and replica != LEADER:
        remedy = "choose a broker that has one, or replica=leader"
        return errors.ReplicaNotThere(f"{who} has no replica of the partition", remedy, *where)
    if code is ErrorCode.offset_not_available and replica != LEADER:
        return behind(replica, offset, *where)
    if code is ErrorCode.kafka_storage_error:
        remedy = "see the broker's log; another replica may serve it (option replica)"
        return errors.ReplicaDamaged(
            f"{who} refuses to serve its replica, which may be damaged", remedy, *where
        )
    if code in _AGAIN:
        remedy = "wait until the partition has a leader again (chiplog topics describe)"
        return errors.NoLeader(f"{who} answers {code.name}", remedy, *where)
    remedy = "see the broker's log, and check that broker and Spark image have the same version"
    return errors.ProtocolError(f"{who} answers {code.name}", remedy, *where)


def behind(replica: int, offset: int, topic: str, partition: int) -> WireError:
    """The error if a replica does not reach an offset in time that the read was planned with."""
    who = "the leader" if replica == LEADER else f"broker {replica}"
    remedy = "see why it does not catch up (chiplog topics describe), or choose another replica"
    return errors.ReplicaBehind(
        f"{who} does not have offset {offset} yet", remedy, topic, partition
    )


def out_of_range(offset: int, topic: str, partition: int, bounds: str = "") -> WireError:
    """The error for an offset that cannot be read.

    `bounds` is appended to its message, and says which offsets can be read, if that is known.
    """
    remedy = (
        "choose offsets between the log start and the last stable offset (with isolation.level="
        "read_uncommitted the high watermark), or earliest and latest"
    )
    return errors.OffsetOutOfRange(
        f"offset {offset} cannot be read{bounds}", remedy, topic, partition
    )
