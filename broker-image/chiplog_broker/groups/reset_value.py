"""The record of an offset reset: its id, and the offsets that it changed.

The record is our own, under a key that Kafka ignores. It is written in one batch with the offsets
that the reset commits, so both exist or neither does. So a reset with an id is carried out once,
whatever happens between that batch and the answer.

Value, version 0: `int64` time when it was done (milliseconds since 1970), `bytes` fingerprint, and
an array of topics, each a `string` name and an array of `int32` partition, `int64` offset before
(-1 for none) and `int64` offset after.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from chiplog_broker.groups.fields import read_value, storing
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT16, INT32, INT64, Reader
from chiplog_wire.protocol.writer import string

_VERSION: Final = 0


class MovedOffset(NamedTuple):
    """The change that a reset made to one partition."""

    partition: TopicPartition
    before: int
    """-1 if no offset was committed."""
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneReset:
    """One reset that was carried out."""

    fingerprint: bytes
    """Distinguishes it from another reset with the same id."""
    done_ms: int
    offsets: tuple[MovedOffset, ...] = ()
    """By topic and partition. Stored only for a group's last reset: of earlier ones only the id is
    needed."""


def encode_reset_value(reset: DoneReset) -> bytes:
    """The reset as bytes. Raises `UnstorableGroupRecordError` if a name is longer than 32,767
    bytes."""
    topics = [
        (topic, list(of_topic))
        for topic, of_topic in groupby(reset.offsets, lambda moved: moved.partition.topic)
    ]
    with storing("a reset"):
        return b"".join(
            (
                INT16.pack(_VERSION),
                INT64.pack(reset.done_ms),
                INT32.pack(len(reset.fingerprint)),
                reset.fingerprint,
                INT32.pack(len(topics)),
                *(_encode_topic(topic, of_topic) for topic, of_topic in topics),
            )
        )


def _encode_topic(topic: str, offsets: list[MovedOffset]) -> bytes:
    """The changed offsets of one topic as bytes."""
    return b"".join(
        (
            string(topic),
            INT32.pack(len(offsets)),
            *(
                INT32.pack(moved.partition.partition)
                + INT64.pack(moved.before)
                + INT64.pack(moved.after)
                for moved in offsets
            ),
        )
    )


def decode_reset_value(value: bytes, group: str) -> DoneReset:
    """A reset of this group from bytes. Raises `UnreadableGroupRecordError`."""
    return read_value(value, group, "a reset", _read)


def _read(reader: Reader, version: int) -> DoneReset:
    """The reset in the fields after the version. Raises `ProtocolViolation`."""
    if version != _VERSION:
        raise ProtocolViolation("unknown version")
    (done_ms,) = reader.unpack(INT64)
    fingerprint = reader.nullable_view()
    offsets: list[MovedOffset] = []
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            partition = TopicPartition(topic, reader.int32())
            (before,), (after,) = reader.unpack(INT64), reader.unpack(INT64)
            offsets.append(MovedOffset(partition, before, after))
    return DoneReset(fingerprint=bytes(fingerprint or b""), done_ms=done_ms, offsets=tuple(offsets))
