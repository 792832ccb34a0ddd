"""Whether the data directory still works.

After a failed sync it is unknown which bytes are on the device, and the kernel forgets the failure:
a second sync succeeds although data was lost. So after the first unexpected error the directory is
offline for all its logs, until the process restarts and recovery has read what is on the disk. A
file that cannot be opened because of the limit of open files is no error of the disk.
"""

import errno
from collections.abc import Callable
from typing import NoReturn

from chiplog_broker.ports.disk import SyncFailedError
from chiplog_broker.storage.errors import (
    DirectoryOfflineError,
    DiskFullError,
    NoDescriptorError,
)

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Of the process, or of the machine."""


def lacks_descriptors(error: OSError) -> bool:
    """Whether the error is the limit of open files, so that nothing was changed."""
    return error.errno in NO_DESCRIPTORS and not isinstance(error, SyncFailedError)


class DirectoryHealth:
    """The health of one directory, which its logs share."""

    __slots__ = ("_went_offline", "failure")

    def __init__(self, went_offline: Callable[[OSError], None]) -> None:
        """`went_offline` is called once, when the directory goes offline. It must not raise."""
        self.failure: OSError | None = None
        self._went_offline = went_offline

    def check(self) -> None:
        """Raises `DirectoryOfflineError` if the directory is offline."""
        if self.failure is not None:
            raise DirectoryOfflineError(f"the directory is offline: {self.failure}")

    def take_offline(self, error: OSError) -> NoReturn:
        """Store the first error, notify the broker, and raise."""
        if self.failure is None:
            self.failure = error
            self._went_offline(error)
        raise DirectoryOfflineError(f"the directory is offline: {error}") from error

    def read_failed(self, error: OSError) -> NoReturn:
        """A read failed. It may be repeated if only descriptors were lacking."""
        if lacks_descriptors(error):
            raise NoDescriptorError(str(error)) from error
        self.take_offline(error)

    def write_failed(self, error: OSError) -> NoReturn:
        """A write failed. If there was no space or no descriptor for a write to the page cache, it
        may be repeated. If the device itself had no space, the directory is offline."""
        if error.errno in NO_SPACE and not isinstance(error, SyncFailedError):
            raise DiskFullError(str(error)) from error
        if lacks_descriptors(error):
            raise NoDescriptorError(str(error)) from error
        self.take_offline(error)
