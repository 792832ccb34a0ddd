"""Which replicas of a data directory were found damaged, until they have been refetched.

A damaged replica is replaced by an empty one, which is then refetched. Without a mark on disk, a
start in between would take the empty log for a complete one, and the operator might elect it. So
the mark is durable before the damaged files are moved. It is removed only when the replica is in
sync again, which its leader confirms.

The file is `damaged-replicas`: a version, a count, then `topic partition topic-id state file
offset` lines, and a checksum.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from chiplog_broker.ports.checksum_line import with_checksum, without_checksum
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.whole_files import read_file
from chiplog_broker.storage.checkpoint_text import CheckpointError, format_lines, parse_lines
from chiplog_broker.storage.errors import WrongDirectoryError
from chiplog_broker.storage.group_commit import GroupCommit
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.names import DAMAGED_REPLICAS, TopicPartition
from chiplog_core.ids import Uuid

_NOT_KNOWN: Final = "-"


class DamageState(Enum):
    """The content of the replica's directory."""

    FOUND = "damaged"
    """The damaged log, which is not opened again."""
    REFETCHING = "refetching"
    """A new copy. Its records are correct, but it may not be complete."""


class Damage(NamedTuple):
    """The mark of one damaged replica."""

    topic_id: UUID | None
    """None if the replica's own metadata could not be read."""
    state: DamageState
    file: str = ""
    """The damaged file, as a path in the data directory; empty if it is not known."""
    offset: int | None = None
    """The first offset that is damaged, or that the damage makes uncertain; None if not known."""


class DamageMarks:
    """The marks of one data directory."""

    __slots__ = ("_commit", "_disk", "_health", "_marks", "_stored", "_version")

    def __init__(self, disk: Disk, health: DirectoryHealth) -> None:
        """Read the marks. Raises `WrongDirectoryError` if the file cannot be parsed: it is unknown
        then which replicas are damaged."""
        self._disk = disk
        self._health = health
        self._marks = _read(disk)
        self._stored = dict(self._marks)
        """The marks in the file."""
        self._version = 0
        self._commit = GroupCommit(self._write)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(tuple(self._marks))

    def __len__(self) -> int:
        return len(self._marks)

    def get(self, partition: TopicPartition) -> Damage | None:
        return self._marks.get(partition)

    async def put(self, partition: TopicPartition, damage: Damage) -> None:
        """Mark a replica; durable on return."""
        if self._marks.get(partition) != damage:
            self._marks[partition] = damage
            self._version += 1
        await self.store()

    async def forget(self, partition: TopicPartition) -> None:
        """Remove the mark of a replica that was refetched or deleted; durable on return.

        Only one caller at a time may change the mark of a replica."""
        if self._marks.pop(partition, None) is not None:
            self._version += 1
        await self.store()

    async def store(self) -> None:
        """Store the marks that a full disk has refused so far; durable on return."""
        await self._commit.reach(self._version)

    async def _write(self) -> int:
        """Write all marks to the file; returns the version of the marks that it contains."""
        version, written = self._version, dict(self._marks)
        lines = format_lines(
            f"{name.topic} {name.partition} {_text_of(damage)}"
            for name, damage in sorted(written.items())
        )
        try:
            await self._disk.replace(DAMAGED_REPLICAS, with_checksum(lines))
        except OSError as error:
            # Marks that could not be removed are still in the file, and are to be removed again:
            # after the next start they would hold for a later replica of that name. Those that
            # could not be added are in force, because the damage is there.
            for name in self._stored.keys() - written.keys():
                self._marks.setdefault(name, self._stored[name])
            self._health.write_failed(error)
        self._stored = written
        return version


def _text_of(damage: Damage) -> str:
    """The last four fields of a mark's line in the file, which follow the topic and partition."""
    topic_id = _NOT_KNOWN if damage.topic_id is None else Uuid(damage.topic_id.bytes)
    offset = _NOT_KNOWN if damage.offset is None else damage.offset
    return f"{topic_id} {damage.state.value} {damage.file or _NOT_KNOWN} {offset}"


def _read(disk: Disk) -> dict[TopicPartition, Damage]:
    """The marks in the file; none if it does not exist. Raises `WrongDirectoryError`."""
    if not disk.exists(DAMAGED_REPLICAS):
        return {}
    try:
        content = without_checksum(read_file(disk, DAMAGED_REPLICAS))
        rows = parse_lines(content, columns=6)
        return {
            TopicPartition(topic, int(partition)): Damage(
                None if topic_id == _NOT_KNOWN else UUID(bytes=Uuid.from_text(topic_id).value),
                DamageState(state),
                "" if path == _NOT_KNOWN else path,
                None if offset == _NOT_KNOWN else int(offset),
            )
            for topic, partition, topic_id, state, path, offset in rows
        }
    except (CheckpointError, ValueError) as error:
        raise WrongDirectoryError(
            f"{DAMAGED_REPLICAS} cannot be parsed ({error}), so it is unknown which replicas here "
            "are undamaged: give the broker an empty volume, and it fetches everything from other "
            "brokers"
        ) from error
