"""The keys of `__consumer_offsets`.

A key begins with the number of its kind (Kafka calls it a version). Kinds that we do not know are
read as None: those of Kafka's newer group protocols, and any later one. Their records stay in the
log and are ignored.

Schemas: `LegacyOffsetCommitKey` (0), `OffsetCommitKey` (1) and `GroupMetadataKey` (2) of Apache
Kafka 4.3.1. Our own kinds have numbers far above Kafka's. Kafka's readers ignore unknown kinds, as
we do.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from chiplog_broker.groups.errors import UnreadableGroupRecordError
from chiplog_broker.groups.fields import storing
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT16, INT32, UNREADABLE, Reader
from chiplog_wire.protocol.writer import string

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
DONE_RESET: Final = 30_001
"""Our own: see `reset_value`."""
GROUP_RETENTION: Final = 30_002
"""Our own: see `retention_value`."""
READ_MARK: Final = 30_003
"""Our own: a record without content, see `batches.read_mark`."""


class OffsetCommitKey(NamedTuple):
    """A group's committed offset in one partition."""

    group: str
    partition: TopicPartition


class GroupMetadataKey(NamedTuple):
    """A group's generation and members."""

    group: str


class DoneResetKey(NamedTuple):
    """A reset of a group's offsets that was carried out."""

    group: str
    reset_id: str


@dataclass(frozen=True, slots=True)
class GroupRetentionKey:
    """How long the offsets of one group are kept, if it has a retention of its own.

    This is not a NamedTuple: it would be equal to the group's `GroupMetadataKey`.
    """

    group: str


Key: TypeAlias = OffsetCommitKey | GroupMetadataKey | DoneResetKey | GroupRetentionKey

_KINDS: Final = (
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    GROUP_METADATA,
    DONE_RESET,
    GROUP_RETENTION,
)


def encode_key(key: Key) -> bytes:
    """The key as bytes, which begin with the number of its kind. Raises
    `UnstorableGroupRecordError` if a name is longer than 32,767 bytes."""
    with storing("a key"):
        match key:
            case GroupMetadataKey(group):
                return INT16.pack(GROUP_METADATA) + string(group)
            case DoneResetKey(group, reset_id):
                return INT16.pack(DONE_RESET) + string(group) + string(reset_id)
            case GroupRetentionKey(group):
                return INT16.pack(GROUP_RETENTION) + string(group)
            case OffsetCommitKey(group, (topic, partition)):
                return b"".join(
                    (INT16.pack(OFFSET_COMMIT), string(group), string(topic), INT32.pack(partition))
                )


def decode_key(key: bytes | None) -> Key | None:
    """The key in these bytes; None for a kind that we do not know. Raises
    `UnreadableGroupRecordError`.

    Both kinds of commit keys (0 and 1) give an `OffsetCommitKey`. Kafka stopped writing kind 0 with
    0.8.2.
    """
    kind = group = None
    try:
        if key is None:
            raise ProtocolViolation("a record without a key")
        reader = Reader(memoryview(key), compact=False)
        kind = reader.int16()
        if kind not in _KINDS:
            return None
        group = reader.string()
        result = _decode_rest(reader, kind, group)
        reader.finish()
    except UNREADABLE as error:
        raise UnreadableGroupRecordError(
            f"a key of version {kind}, group {group!r}: {error}", group=group, version=kind
        ) from error
    return result


def _decode_rest(reader: Reader, kind: int, group: str) -> Key:
    """The key of this kind and group, with the fields that follow the group."""
    if kind == GROUP_METADATA:
        return GroupMetadataKey(group)
    if kind == DONE_RESET:
        return DoneResetKey(group, reader.string())
    if kind == GROUP_RETENTION:
        return GroupRetentionKey(group)
    # Both kinds of commit keys have the same fields.
    return OffsetCommitKey(group, TopicPartition(reader.string(), reader.int32()))
