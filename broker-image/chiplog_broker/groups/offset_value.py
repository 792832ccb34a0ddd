"""`OffsetCommitValue`, versions 0 to 4: how far a group has come in one partition.

Schema: Apache Kafka 4.3.1. Kafka's key of a commit names the topic but not which topic of that
name; the topic's id is a tagged field of version 4. So that a topic made anew never inherits what
was committed for the one before it, a commit under another id counts as absent.
"""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from chiplog_broker.groups.fields import FLEXIBLE_VERSION, read_value, storing
from chiplog_broker.protocol.reader import INT16, INT32, INT64, Reader
from chiplog_broker.protocol.writer import compact_string, string, tagged_fields, uuid

NO_LEADER_EPOCH: Final = -1
_NO_TIMESTAMP: Final = -1
_NO_RECORD: Final = -1

_TOPIC_ID_TAG: Final = 0
_EXPIRING_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group committed for one partition."""

    offset: int
    """The next record that the group wants."""
    leader_epoch: int = NO_LEADER_EPOCH
    """Of the last record consumed; -1 where the client did not say."""
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Set only where an old client asked for a time of its own (OffsetCommit 2 to 4)."""
    topic_id: UUID | None = None
    """None where whoever wrote the commit did not know it."""
    record_offset: int = field(default=_NO_RECORD, compare=False)
    """Where the commit stands in the log; -1 before it is there. No part of what is stored."""

    def is_for(self, topic_id: UUID | None) -> bool:
        """Whether it was committed for the topic of this id. An id that is not known fits all."""
        return self.topic_id is None or topic_id is None or self.topic_id == topic_id


def encode_offset_value(commit: CommittedOffset) -> bytes:
    """Version 4; version 1, as Kafka does, for a commit with an expiry of its own.

    Only version 1 has a field for that, and it has none for the topic's id or the leader epoch.
    """
    if commit.expire_timestamp_ms is not None:
        return _encode_expiring(commit, commit.expire_timestamp_ms)
    id_field = [] if commit.topic_id is None else [(_TOPIC_ID_TAG, uuid(commit.topic_id))]
    return b"".join(
        (
            INT16.pack(FLEXIBLE_VERSION),
            INT64.pack(commit.offset),
            INT32.pack(commit.leader_epoch),
            compact_string(commit.metadata),
            INT64.pack(commit.commit_timestamp_ms),
            tagged_fields(id_field),
        )
    )


def _encode_expiring(commit: CommittedOffset, expire_timestamp_ms: int) -> bytes:
    with storing("a commit"):
        return b"".join(
            (
                INT16.pack(_EXPIRING_VERSION),
                INT64.pack(commit.offset),
                string(commit.metadata),
                INT64.pack(commit.commit_timestamp_ms),
                INT64.pack(expire_timestamp_ms),
            )
        )


def decode_offset_value(value: bytes, group: str, record_offset: int) -> CommittedOffset:
    """A commit of this group, found at this offset. Raises `UnreadableGroupRecordError`."""

    def read(reader: Reader, version: int) -> CommittedOffset:
        (offset,) = reader.unpack(INT64)
        leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
        metadata = reader.string()
        (commit_timestamp_ms,) = reader.unpack(INT64)
        expire_timestamp_ms = _NO_TIMESTAMP
        if version == _EXPIRING_VERSION:
            (expire_timestamp_ms,) = reader.unpack(INT64)
        return CommittedOffset(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp_ms=commit_timestamp_ms,
            expire_timestamp_ms=None if expire_timestamp_ms < 0 else expire_timestamp_ms,
            topic_id=_topic_id(reader) if version == FLEXIBLE_VERSION else None,
            record_offset=record_offset,
        )

    return read_value(value, group, "OffsetCommitValue", read)


def _topic_id(reader: Reader) -> UUID | None:
    field_reader = reader.tagged_fields().get(_TOPIC_ID_TAG)
    if field_reader is None:
        return None
    topic_id = field_reader.uuid()
    field_reader.finish()
    return topic_id
