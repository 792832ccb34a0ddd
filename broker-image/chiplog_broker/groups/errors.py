"""Errors of records of `__consumer_offsets`."""

from chiplog_broker.storage.errors import StorageError


class UnreadableGroupRecordError(StorageError):
    """A key or value of a known kind does not follow its schema.

    The state of the group is unknown then, so this broker coordinates no group of the partition.
    The message names the group and the version, but never the committed values.
    """

    kafka_error = "COORDINATOR_NOT_AVAILABLE"

    def __init__(self, message: str, *, group: str | None, version: int | None) -> None:
        """`group` and `version` are None if they could not be read."""
        super().__init__(message)
        self.group = group
        self.version = version


class UnstorableGroupRecordError(StorageError):
    """A text is longer than its length field can express (32,767 bytes)."""

    kafka_error = "INVALID_REQUEST"
