"""The commits of an export: one record for each step; the newest says where the next run begins."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

from chiplog_core.ids import MAX_INT64
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.manifest.documents import Flaw, UnreadableDocument, object_of, text_of
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.model.references import TopicName
from chiplog_core.problems import InvalidManifest

MAX_COMMIT_BYTES: Final = 64 * 2**20
MAX_FILES: Final = 200_000
MAX_RANGES: Final = 100_000
Path = Annotated[str, Length(2_048, minimum=1)]
Partition = Annotated[int, Range(0, 2**31 - 1)]
Offset = Annotated[int, Range(0, MAX_INT64)]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """Offsets of one partition, from `first` up to `end`, exclusive."""

    partition: Annotated[Partition, "Number of the partition."]
    first: Annotated[Offset, "The first offset."]
    end: Annotated[Offset, "The offset after the last one."]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CommittedEnd:
    """The offset up to which a partition is exported."""

    partition: Annotated[Partition, "Number of the partition."]
    offset: Annotated[Offset, "The first offset that is not exported yet."]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFile:
    """A file of a commit. Both paths are relative: to the staging directory and to the topic's
    directory."""

    staged: Annotated[Path, "Path of the file in the staging directory."]
    path: Annotated[Path, "Path of the file for readers, in the topic's directory."]
    size_bytes: Annotated[int, "Size of the file in bytes.", Range(0, MAX_INT64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A completed step, and the end offsets after it."""

    topic: Annotated[TopicName, "Name of the topic."]
    topic_id: Annotated[
        str,
        "Id of the topic: a topic that is created again has another one.",
        Length(64, minimum=1),
    ]
    number: Annotated[int, "Number of the commit: the first one is 1.", Range(1, MAX_INT64)]
    staging: Annotated[str, "The staging folder of this commit.", Length(128, minimum=1)]
    records: Annotated[int, "Number of records in the commit.", Range(0, MAX_INT64)]
    ranges: Annotated[
        tuple[OffsetRange, ...], "Offsets that the commit contains.", Items(MAX_RANGES)
    ] = ()
    lost: Annotated[
        tuple[OffsetRange, ...],
        "Offsets whose records were deleted before they were exported.",
        Items(MAX_RANGES),
    ] = ()
    ends: Annotated[
        tuple[CommittedEnd, ...],
        "The offset up to which each partition is exported.",
        Items(MAX_RANGES),
    ] = ()
    files: Annotated[tuple[CommittedFile, ...], "Files of the commit.", Items(MAX_FILES)] = ()

    def to_json(self) -> str:
        """The stored form; raises `UnreadableDocument` if `from_json` would refuse it."""
        text = text_of(write(self))
        Commit.from_json(text)
        return text

    @staticmethod
    def from_json(text: str) -> "Commit":
        """Parse a stored commit; raises `UnreadableDocument`."""
        value = object_of(text, "commit", limit_bytes=MAX_COMMIT_BYTES)
        value.pop("version", None)
        try:
            found: Commit = read(object_shape(Commit), value, "commit", Unknown.REFUSE)
        except InvalidManifest as invalid:
            raise UnreadableDocument(Flaw.INVALID, str(invalid)) from invalid
        return found

    @property
    def offsets(self) -> int:
        """The number of offsets in this commit; compaction may have left fewer records."""
        return sum(exported.end - exported.first for exported in self.ranges)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def advanced_ends(
    ends: Iterable[CommittedEnd], ranges: Iterable[OffsetRange]
) -> tuple[CommittedEnd, ...]:
    """The end offsets of all partitions, after these ranges were exported or found deleted."""
    new_ends = {end.partition: end.offset for end in ends}
    for exported in ranges:
        new_ends[exported.partition] = max(exported.end, new_ends.get(exported.partition, 0))
    return tuple(
        CommittedEnd(partition=partition, offset=new_ends[partition])
        for partition in sorted(new_ends)
    )
