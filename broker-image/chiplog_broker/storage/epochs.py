"""Leader epochs: under which leader each part of the log was appended.

There is one entry for each epoch with records: the epoch and its first offset. Both rise strictly.
Two replicas compare these entries to find where their logs diverge (KIP-101, 279, 320). So every
truncation truncates the entries, too, even one that removes no bytes: an epoch that began at the
log end and has no records must not remain.

The file is `leader-epoch-checkpoint`: a version, a count, then `epoch offset` lines.
"""

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from chiplog_broker.storage.checkpoint_text import CheckpointError, format_lines, parse_lines

NO_EPOCH = -1
NO_OFFSET = -1
NO_END = 2**63 - 1


class EpochStart(NamedTuple):
    """The first offset of an epoch."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to a request for an epoch: the largest epoch of the log that is not above it, and
    the offset where that one ends."""

    leader_epoch: int
    end_offset: int


_UNDEFINED = EpochEnd(NO_EPOCH, NO_OFFSET)
_epoch_of = itemgetter(0)
_start_of = itemgetter(1)


class EpochHistory:
    """The epochs of one log. `version` rises with every change, which shows whether the history has
    changed since it was saved."""

    __slots__ = ("_entries", "last_epoch", "version")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        """`entries` are in ascending order of epochs and of start offsets."""
        self._entries = list(entries)
        self.version = 0
        """The number of changes, by which a caller notices that the history must be saved."""
        self.last_epoch = self._entries[-1].epoch if self._entries else NO_EPOCH

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Let `epoch` begin at `start_offset`, if it is newer than all known epochs."""
        if epoch <= self.last_epoch:
            return
        # Epochs that began at or above this offset have no records: drop their entries.
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()
        self._entries.append(EpochStart(epoch, start_offset))
        self._changed()

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`, or of the next append; -1 if it is not known."""
        number = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[number - 1].epoch if number else NO_EPOCH

    def span_at(self, offset: int) -> tuple[int, int]:
        """The epoch of the record at `offset`, or of the next append, and where the next epoch
        begins."""
        number = bisect_right(self._entries, offset, key=_start_of)
        is_last = number == len(self._entries)
        epoch = self._entries[number - 1].epoch if number else NO_EPOCH
        return epoch, NO_END if is_last else self._entries[number].start_offset

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch that is not above `epoch`, and its end offset.

        (-1, -1) if `epoch` is newer than all epochs of the log, or -1.
        """
        if epoch == NO_EPOCH or epoch > self.last_epoch:
            return _UNDEFINED
        if epoch == self.last_epoch:
            return EpochEnd(epoch, log_end_offset)
        number = bisect_right(self._entries, epoch, key=_epoch_of)
        end_offset = self._entries[number].start_offset
        # If `epoch` is older than all entries, its records were deleted: it ends where the first
        # entry begins.
        return EpochEnd(self._entries[number - 1].epoch if number else epoch, end_offset)

    def truncate_end(self, end_offset: int) -> None:
        """After a truncation to `end_offset`: remove the epochs that began at or above it."""
        kept = len(self._entries)
        while kept and self._entries[kept - 1].start_offset >= end_offset:
            kept -= 1
        if kept < len(self._entries):
            del self._entries[kept:]
            self._changed()

    def truncate_start(self, start_offset: int) -> None:
        """After the log start offset was raised to `start_offset`: remove the epochs of deleted
        records. The epoch at `start_offset` begins there now."""
        reached = bisect_right(self._entries, start_offset, key=_start_of)
        # Nothing to do if no epoch begins at or below the offset, or if log and epoch begin at 0.
        if reached == 0 or self._entries[reached - 1].start_offset == start_offset == 0:
            return
        first = EpochStart(self._entries[reached - 1].epoch, start_offset)
        if self._entries[:reached] != [first]:
            self._entries[:reached] = [first]
            self._changed()

    def touch(self) -> None:
        """Mark the history as changed, so that it is saved again: after a start the file may be in
        the page cache only."""
        self._changed()

    def clear(self) -> None:
        """Remove all epochs: the log has lost all its records."""
        if self._entries:
            self._entries.clear()
            self._changed()

    def encode(self) -> bytes:
        return format_lines(f"{entry.epoch} {entry.start_offset}" for entry in self._entries)

    def _changed(self) -> None:
        """Update the values that are derived from the entries."""
        self.version += 1
        self.last_epoch = self._entries[-1].epoch if self._entries else NO_EPOCH


def decode_epochs(data: bytes) -> EpochHistory:
    """Parse a checkpoint file; raises `CheckpointError`."""
    entries: list[EpochStart] = []
    for epoch, start_offset in parse_lines(data, columns=2):
        entry = EpochStart(_number(epoch), _number(start_offset))
        if entries and (entry.epoch <= entries[-1].epoch or entry[1] <= entries[-1][1]):
            raise CheckpointError(f"epoch {entry.epoch} is out of order")
        entries.append(entry)
    return EpochHistory(entries)


def _number(text: str) -> int:
    """A number of the checkpoint file. Raises `CheckpointError`, also for a sign or spaces."""
    if not (text.isascii() and text.isdigit()):
        raise CheckpointError(f"{text!r} is not a number")
    return int(text)
