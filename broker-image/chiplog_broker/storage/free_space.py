"""The free space of the volume, and the reserve that producers must leave free.

A full file system must be avoided: checkpoints and epoch histories of acknowledged records must
still be written. So producers are refused while less than the reserve is free. Followers may use
half of the reserve, so that records which leaders have accepted before still reach all replicas.
So may the end markers of transactions: until then their records are hidden, and compaction cannot
make room behind them. The rest is for the broker's own files.

The free space is measured some times in a second. In between, appended bytes are subtracted, so
that the value is wrong only by what other processes have written since.
"""

from chiplog_broker.ports.disk import Disk, DiskUsage
from chiplog_broker.storage.errors import DiskFullError

AUTOMATIC = -1
"""The value of the setting that lets the broker choose the reserve."""
_MIB = 2**20
_AUTOMATIC_PART = 33
"""The automatic reserve is one part in 33, which is 3 %."""
_AUTOMATIC_LEAST = 4 * _MIB
_AUTOMATIC_MOST = 1024 * _MIB
_LARGEST_PART = 4
"""On a very small volume it is at most a quarter."""


def reserve_of(total_bytes: int, setting: int) -> int:
    """The reserve in bytes on a volume of this size.

    `setting` is the configured `disk.reserve.bytes`; -1 means 3 % of the volume, at least 4 MiB and
    at most 1 GiB, but never more than a quarter of it.
    """
    if setting != AUTOMATIC:
        return setting
    part = min(max(total_bytes // _AUTOMATIC_PART, _AUTOMATIC_LEAST), _AUTOMATIC_MOST)
    return min(part, total_bytes // _LARGEST_PART)


class FreeSpace:
    """The free space of the volume of one data directory."""

    __slots__ = (
        "_disk",
        "_has_refused",
        "free_bytes",
        "is_short",
        "reserve_bytes",
        "setting",
        "usage",
    )

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.setting = 0
        """The reserve as configured (`disk.reserve.bytes`): a number of bytes, or -1 for one that
        depends on the size of the volume. Set by `configure`."""
        self.reserve_bytes = 0
        """The bytes that producers must leave free, calculated from `setting` and the size of the
        volume with each measurement; 0 (no reserve) before the first."""
        self.free_bytes = 2**63 - 1
        """As last measured, without the bytes written since; practically infinite before the first
        measurement, so that nothing is refused."""
        self.usage: DiskUsage | None = None
        """As last measured; None before the first successful measurement."""
        self.is_short = False
        """Whether the broker should report missing space and free some.

        True if less than the reserve is free. Also if a producer was refused between the last two
        calls of `refresh`: a large batch may not fit although a little more than the reserve is
        free, and without that rule such refusals would not be reported."""
        self._has_refused = False
        """Whether a producer was refused since the last `refresh`."""

    def configure(self, setting: int) -> None:
        """Set the configured reserve; it takes effect with the next `refresh`."""
        self.setting = setting

    def refresh(self) -> None:
        """Measure the free space, and set `is_short`; to be called often."""
        self._measure()
        self.is_short = self._has_refused or self.free_bytes < self.reserve_bytes
        self._has_refused = False

    def for_producer(self, size_bytes: int) -> None:
        """Raise `DiskFullError` if a producer's batch does not fit without using the reserve."""
        if self.free_bytes - size_bytes < self.reserve_bytes:
            try:
                self._check(size_bytes, self.reserve_bytes)
            except DiskFullError:
                self._has_refused = self.is_short = True
                raise

    def for_accepted(self, size_bytes: int) -> None:
        """Raise `DiskFullError` if records that a leader has accepted, or the end markers of
        accepted transactions, would use more than half of the reserve."""
        if self.free_bytes - size_bytes < self.reserve_bytes // 2:
            self._check(size_bytes, self.reserve_bytes // 2)

    def taken(self, size_bytes: int) -> None:
        """Subtract bytes that were written from the free space."""
        self.free_bytes -= size_bytes

    def _check(self, size_bytes: int, reserve_bytes: int) -> None:
        """Measure again, and raise `DiskFullError` if the bytes would leave less than the reserve
        free."""
        self._measure()
        if self.free_bytes - size_bytes < reserve_bytes:
            raise DiskFullError(
                f"{size_bytes} bytes do not fit: {self.free_bytes} bytes are free on the volume, "
                f"and {reserve_bytes} must stay free"
            )

    def _measure(self) -> None:
        """Measure the file system. If it does not answer, the old values stay."""
        try:
            self.usage = self._disk.usage()
        except OSError:
            return
        self.free_bytes = self.usage.free_bytes
        self.reserve_bytes = reserve_of(self.usage.total_bytes, self.setting)
