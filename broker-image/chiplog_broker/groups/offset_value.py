"""`OffsetCommitValue`, versions 0 to 4: a committed offset. The schema is that of Apache Kafka
4.3.1.

The key of a commit has only the name of the topic. The topic id is a tagged field of version 4. A
topic that was deleted and created again must not inherit the offsets of the previous one, so a
commit under another id counts as absent. Commits of older versions have no id; they count for any
topic of the name.
"""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from chiplog_broker.groups.fields import FLEXIBLE_VERSION, read_value
from chiplog_wire.protocol.reader import INT16, INT32, INT64, Reader
from chiplog_wire.protocol.writer import compact_string, tagged_fields, uuid

NO_LEADER_EPOCH: Final = -1
_NO_TIMESTAMP: Final = -1
_NO_RECORD: Final = -1

_TOPIC_ID_TAG: Final = 0
_EXPIRY_TAG: Final = 30_001
"""Our own, far above the tags that Kafka counts up."""
_EXPIRING_VERSION: Final = 1
"""The version that has a field for the expiry time. Kafka still writes it; we wrote it earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset of a group for one partition."""

    offset: int
    """The offset of the next record to read."""
    leader_epoch: int = NO_LEADER_EPOCH
    """The leader epoch of the last consumed record; -1 if the client did not send it."""
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Set only if an old client asked for an expiry time of its own (OffsetCommit 2 to 4)."""
    topic_id: UUID | None = None
    """None if the writer of the commit did not know it."""
    record_offset: int = field(default=_NO_RECORD, compare=False)
    """The offset of the commit's record in the log; -1 before it is appended. It is not stored."""

    def is_for(self, topic_id: UUID | None) -> bool:
        """Whether it was committed for the topic with this id. A commit without an id is for any
        topic."""
        return self.topic_id is None or topic_id is None or self.topic_id == topic_id


def encode_offset_value(commit: CommittedOffset) -> bytes:
    """The commit as bytes of version 4, whatever the version of the client's request: only this
    version has the topic id.

    Kafka writes version 1 for a commit with an expiry time of its own, and that version has neither
    a topic id nor a leader epoch. Kafka ignores our tagged field, so for Kafka's tools such a
    commit expires like all others.
    """
    fields = []
    if commit.topic_id is not None:
        fields.append((_TOPIC_ID_TAG, uuid(commit.topic_id)))
    if commit.expire_timestamp_ms is not None:
        fields.append((_EXPIRY_TAG, INT64.pack(commit.expire_timestamp_ms)))
    return b"".join(
        (
            INT16.pack(FLEXIBLE_VERSION),
            INT64.pack(commit.offset),
            INT32.pack(commit.leader_epoch),
            compact_string(commit.metadata),
            INT64.pack(commit.commit_timestamp_ms),
            tagged_fields(fields),
        )
    )


def decode_offset_value(value: bytes, group: str, record_offset: int) -> CommittedOffset:
    """A committed offset of this group, from the record at this offset. Raises
    `UnreadableGroupRecordError`."""

    def read(reader: Reader, version: int) -> CommittedOffset:
        (offset,) = reader.unpack(INT64)
        leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
        metadata = reader.string()
        (commit_timestamp_ms,) = reader.unpack(INT64)
        expire_timestamp_ms, topic_id = _NO_TIMESTAMP, None
        if version == _EXPIRING_VERSION:
            (expire_timestamp_ms,) = reader.unpack(INT64)
        elif version == FLEXIBLE_VERSION:
            topic_id, expire_timestamp_ms = _tagged(reader)
        return CommittedOffset(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp_ms=commit_timestamp_ms,
            expire_timestamp_ms=None if expire_timestamp_ms < 0 else expire_timestamp_ms,
            topic_id=topic_id,
            record_offset=record_offset,
        )

    return read_value(value, group, "OffsetCommitValue", read)


def _tagged(reader: Reader) -> tuple[UUID | None, int]:
    """The topic id and the expiry time in milliseconds, from the tagged fields. None and
    `_NO_TIMESTAMP` stand for missing fields."""
    topic_id, expire_timestamp_ms = None, _NO_TIMESTAMP
    fields = reader.tagged_fields()
    if (field_reader := fields.get(_TOPIC_ID_TAG)) is not None:
        topic_id = field_reader.uuid()
        field_reader.finish()
    if (field_reader := fields.get(_EXPIRY_TAG)) is not None:
        (expire_timestamp_ms,) = field_reader.unpack(INT64)
        field_reader.finish()
    return topic_id, expire_timestamp_ms
