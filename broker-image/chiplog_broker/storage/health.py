"""Whether the data directory can be trusted to keep what it is given.

After a failed sync nobody knows which bytes the device has, and the kernel forgets that it
failed: a second sync succeeds over lost data. So the first unexpected error is the last:
the directory goes offline, for all its logs, until the process is started anew and
recovery has read what is really there. That no file can be opened, since too many are open,
says nothing of the disk.
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
    """Whether nothing was tried, because no file could be opened."""
    return error.errno in NO_DESCRIPTORS and not isinstance(error, SyncFailedError)


class DirectoryHealth:
    """Shared by all logs of one directory."""

    __slots__ = ("_went_offline", "failure")

    def __init__(self, went_offline: Callable[[OSError], None]) -> None:
        """`went_offline` is called once, when the directory goes offline. It must not raise."""
        self.failure: OSError | None = None
        self._went_offline = went_offline

    def check(self) -> None:
        """Raise if the directory is offline."""
        if self.failure is not None:
            raise DirectoryOfflineError(f"the directory is offline: {self.failure}")

    def take_offline(self, error: OSError) -> NoReturn:
        """Remember the first error, notify of it, and raise."""
        if self.failure is None:
            self.failure = error
            self._went_offline(error)
        raise DirectoryOfflineError(f"the directory is offline: {error}") from error

    def read_failed(self, error: OSError) -> NoReturn:
        """Nothing was changed: it can be tried again if it was for want of descriptors."""
        if lacks_descriptors(error):
            raise NoDescriptorError(str(error)) from error
        self.take_offline(error)

    def write_failed(self, error: OSError) -> NoReturn:
        """A write failed: one to the page cache can be tried again if it was for want of space,
        or of descriptors.

        One that reached the device, and found no space there, cannot.
        """
        if error.errno in NO_SPACE and not isinstance(error, SyncFailedError):
            raise DiskFullError(str(error)) from error
        if lacks_descriptors(error):
            raise NoDescriptorError(str(error)) from error
        self.take_offline(error)
