"""`TransactionLogValue`, versions 0 and 1: the state of a transactional id.

The schema is that of Apache Kafka 4.3.1. Like Kafka with transactions of the second generation, we
write version 1, whose tagged fields belong to that generation (KIP-890).
"""

from typing import Final

from chiplog_broker.transactions.errors import UnreadableTransactionError
from chiplog_core.groups.at import At, by_topic
from chiplog_core.transactions.producer import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from chiplog_core.transactions.states import STATUS_NUMBERS, TransactionState
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT8, INT16, INT32, INT64, UNREADABLE, Reader
from chiplog_wire.protocol.writer import NO_TAGS, compact_string, count, tagged_fields

_FLEXIBLE_VERSION: Final = 1
"""The newest version, and the first flexible one. Kafka adds only tagged fields to it (KIP-915)."""

_PREVIOUS_PRODUCER_ID: Final = 0
_NEXT_PRODUCER_ID: Final = 1
_CLIENT_TRANSACTION_VERSION: Final = 2
_NEXT_PRODUCER_EPOCH: Final = 3
"""Tags of version 1. A field with Kafka's default is left out."""

_NULL_ARRAY: Final = b"\x00"
_STATES: Final = {number: state for state, number in STATUS_NUMBERS.items()}


def encode_value(transaction: StoredTransaction) -> bytes:
    """The state as bytes of version 1."""
    return b"".join(
        (
            INT16.pack(_FLEXIBLE_VERSION),
            INT64.pack(transaction.producer_id),
            INT16.pack(transaction.producer_epoch),
            INT32.pack(transaction.transaction_timeout_ms),
            INT8.pack(STATUS_NUMBERS[transaction.state]),
            _encode_partitions(transaction),
            INT64.pack(transaction.last_update_timestamp_ms),
            INT64.pack(transaction.start_timestamp_ms),
            tagged_fields(_tags(transaction)),
        )
    )


def _encode_partitions(transaction: StoredTransaction) -> bytes:
    """The partitions by topic, in order; null in state Empty, as in Kafka."""
    if transaction.state is TransactionState.EMPTY:
        assert not transaction.partitions, "an empty transaction has no partitions"
        return _NULL_ARRAY
    topics = list(by_topic(transaction.partitions))
    pieces = [count(len(topics), compact=True)]
    for topic, partitions in topics:
        pieces += (
            compact_string(topic),
            count(len(partitions), compact=True),
            *map(INT32.pack, partitions),
            NO_TAGS,
        )
    return b"".join(pieces)


def _tags(transaction: StoredTransaction) -> list[tuple[int, bytes]]:
    """The tagged fields that do not have their default, in ascending order of tag."""
    fields = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        fields.append((_PREVIOUS_PRODUCER_ID, INT64.pack(transaction.previous_producer_id)))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        fields.append((_NEXT_PRODUCER_ID, INT64.pack(transaction.next_producer_id)))
    if transaction.client_transaction_version:
        version = INT16.pack(transaction.client_transaction_version)
        fields.append((_CLIENT_TRANSACTION_VERSION, version))
    if transaction.next_producer_epoch != NO_PRODUCER_EPOCH:
        fields.append((_NEXT_PRODUCER_EPOCH, INT16.pack(transaction.next_producer_epoch)))
    return fields


def decode_value(value: bytes, transactional_id: str) -> StoredTransaction:
    """The stored state of this transactional id. Raises `UnreadableTransactionError`."""
    version = None
    try:
        (version,) = INT16.unpack_from(value)
        if not 0 <= version <= _FLEXIBLE_VERSION:
            raise ProtocolViolation("unknown version")
        reader = Reader(memoryview(value)[INT16.size :], compact=version == _FLEXIBLE_VERSION)
        transaction = _read(reader)
        reader.finish()
    except UNREADABLE as error:
        raise UnreadableTransactionError(
            f"TransactionLogValue of version {version}, transactional id "
            f"{transactional_id!r}: {error}"
        ) from error
    return transaction


def _read(reader: Reader) -> StoredTransaction:
    """The state in the fields after the version."""
    (producer_id,) = reader.unpack(INT64)
    producer_epoch, timeout_ms = reader.int16(), reader.int32()
    (status,) = reader.unpack(INT8)
    if status not in _STATES:
        raise ProtocolViolation(f"unknown state {status}")
    partitions = _read_partitions(reader)
    (last_update_ms,) = reader.unpack(INT64)
    (start_ms,) = reader.unpack(INT64)
    tags = reader.tagged_fields() if reader.compact else {}
    return StoredTransaction(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        previous_producer_id=_tagged_int64(tags, _PREVIOUS_PRODUCER_ID),
        next_producer_id=_tagged_int64(tags, _NEXT_PRODUCER_ID),
        next_producer_epoch=_tagged_int16(tags, _NEXT_PRODUCER_EPOCH, NO_PRODUCER_EPOCH),
        client_transaction_version=_tagged_int16(tags, _CLIENT_TRANSACTION_VERSION, 0),
        transaction_timeout_ms=timeout_ms,
        state=_STATES[status],
        partitions=partitions,
        last_update_timestamp_ms=last_update_ms,
        start_timestamp_ms=start_ms,
    )


def _read_partitions(reader: Reader) -> frozenset[At]:
    """The partitions of all topics; none for a null array."""
    partitions = set()
    for _ in range(max(reader.nullable_count(), 0)):
        topic = reader.string()
        partitions.update([At(topic, reader.int32()) for _ in range(reader.count())])
        if reader.compact:
            reader.skip_tagged_fields()
    return frozenset(partitions)


def _tagged_int64(tags: dict[int, Reader], tag: int) -> int:
    """A producer id in a tagged field; `NO_PRODUCER_ID` without it."""
    if (reader := tags.get(tag)) is None:
        return NO_PRODUCER_ID
    (value,) = reader.unpack(INT64)
    reader.finish()
    return int(value)


def _tagged_int16(tags: dict[int, Reader], tag: int, default: int) -> int:
    """A number in a tagged field, or its default."""
    if (reader := tags.get(tag)) is None:
        return default
    value = reader.int16()
    reader.finish()
    return value
