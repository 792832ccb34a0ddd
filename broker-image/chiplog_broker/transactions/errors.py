"""Errors of records of `__transaction_state`."""

from chiplog_broker.storage.errors import StorageError


class UnreadableTransactionError(StorageError):
    """A key or value does not follow its schema.

    The state of a transactional id is unknown then, so this broker coordinates no transaction of
    the partition. The message names the transactional id and the version.
    """

    kafka_error = "COORDINATOR_NOT_AVAILABLE"


class UnstorableTransactionError(StorageError):
    """A transactional id is longer than its length field can express (32,767 bytes)."""

    kafka_error = "INVALID_REQUEST"
