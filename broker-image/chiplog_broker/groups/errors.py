"""What can be wrong with a record of `__consumer_offsets`."""

from chiplog_broker.storage.errors import StorageError


class UnreadableGroupRecordError(StorageError):
    """A key or value that we should understand does not follow its schema.

    Whoever folds the partition cannot know what the group's state is, so it coordinates none of
    the groups there. The message names the group and the version, never what was committed.
    """

    kafka_error = "COORDINATOR_NOT_AVAILABLE"

    def __init__(self, message: str, *, group: str | None, version: int | None) -> None:
        """`group` and `version` are None where even those could not be read."""
        super().__init__(message)
        self.group = group
        self.version = version


class UnstorableGroupRecordError(StorageError):
    """A text longer than its field's length can say (32,767 bytes): no reader could read it."""

    kafka_error = "INVALID_REQUEST"
