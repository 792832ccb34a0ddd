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
"""The limit of open files of the process, or of the machine, is reached."""


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
            raise DirectoryOfflineError(f"the data directory is offline: {self.failure}")

    def take_offline(self, error: OSError) -> NoReturn:
        """Take the directory offline, and raise `DirectoryOfflineError`.

        The first error is stored and reported to the broker.
        """
        if self.failure is None:
            self.failure = error
            self._went_offline(error)
        raise DirectoryOfflineError(f"the data directory is offline: {error}") from error

    def read_failed(self, error: OSError) -> NoReturn:
        """Raise the error for a failed read.

        `NoDescriptorError`, after which the read may be repeated, if the limit of open files was
        reached. Otherwise the directory goes offline.
        """
        if lacks_descriptors(error):
            raise NoDescriptorError(str(error)) from error
        self.take_offline(error)

    def write_failed(self, error: OSError) -> NoReturn:
        """Raise the error for a failed write.

        `DiskFullError` or `NoDescriptorError`, after which the write may be repeated, if there was
        no space or descriptor for it. Otherwise the directory goes offline, also if a sync failed
        because of missing space: it is unknown then which bytes were stored.
        """
        if error.errno in NO_SPACE and not isinstance(error, SyncFailedError):
            raise DiskFullError(str(error)) from error
        if lacks_descriptors(error):
            raise NoDescriptorError(str(error)) from error
        self.take_offline(error)
