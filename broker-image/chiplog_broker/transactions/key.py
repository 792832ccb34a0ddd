"""`TransactionLogKey`: the transactional id. The schema is that of Apache Kafka 4.3.1."""

import struct
from typing import Final

from chiplog_broker.transactions.errors import (
    UnreadableTransactionError,
    UnstorableTransactionError,
)
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.reader import INT16, UNREADABLE, Reader
from chiplog_wire.protocol.writer import string

_TRANSACTION: Final = 0
"""The only kind of key that Kafka has."""


def encode_key(transactional_id: str) -> bytes:
    """The key as bytes, which begin with the number of its kind. Raises
    `UnstorableTransactionError`."""
    try:
        return INT16.pack(_TRANSACTION) + string(transactional_id)
    except struct.error as error:
        raise UnstorableTransactionError(f"a transactional id: {error}") from error


def decode_key(key: bytes | None) -> str | None:
    """The transactional id in these bytes; None for a kind of key that we do not know. Raises
    `UnreadableTransactionError`."""
    kind = None
    try:
        if key is None:
            raise ProtocolViolation("a record without a key")
        reader = Reader(memoryview(key), compact=False)
        kind = reader.int16()
        if kind != _TRANSACTION:
            return None
        transactional_id = reader.string()
        reader.finish()
    except UNREADABLE as error:
        raise UnreadableTransactionError(f"a key of version {kind}: {error}") from error
    return transactional_id
