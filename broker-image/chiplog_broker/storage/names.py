"""The names of files and directories, as Apache Kafka gives them."""

import re
from typing import NamedTuple
from uuid import UUID

ROOT = ""
"""The data directory itself."""

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
"""An incomplete segment that compaction is writing; it is not part of the log."""
SWAP_SUFFIX = ".swap"
"""A complete segment that replaces all others in its range of offsets."""
LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
GAP_ENDS = "gap-end-checkpoint"
"""Not in Kafka: the offset below which each log may have gaps."""
HIGH_WATERMARKS_BEFORE_TRUNCATION = "cut-tail-checkpoint"
"""Not in Kafka: the high watermarks of logs whose end was lost at a start, until they are in sync
again."""
DAMAGED_REPLICAS = "damaged-replicas"

DELETED_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"

_PARTITION_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_MARKED_DIRECTORY = re.compile(r"\S+-\S+\.\S+-(?:delete|stray|future)")
_OFFSET_DIGITS = 20


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: str
    partition: int

    @property
    def directory(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def segment_file(base_offset: int, suffix: str) -> str:
    """The name of a segment's file: for offset 42 and `.log`, `00000000000000000042.log`."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def offset_in_name(name: str, suffix: str) -> int | None:
    """The offset in the name of a file with this suffix; None for other files."""
    digits = name.removesuffix(suffix)
    if len(digits) != _OFFSET_DIGITS or len(name) != _OFFSET_DIGITS + len(suffix):
        return None
    return int(digits) if digits.isascii() and digits.isdigit() else None


def partition_in_name(name: str) -> TopicPartition | None:
    """The partition of a replica's directory; None for any other name."""
    if is_marked_directory(name):
        return None
    match = _PARTITION_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def is_marked_directory(name: str) -> bool:
    """Whether the name has a suffix of an unused directory: deleted, stray, or (of Kafka) an
    incomplete copy."""
    return _MARKED_DIRECTORY.fullmatch(name) is not None


def marked_directory(partition: TopicPartition, mark: UUID, suffix: str) -> str:
    """The name for an unused directory of a partition: with a random `mark`, and a suffix.

    No replica has such a name, and Kafka ignores the directory.
    """
    tail = f".{mark.hex}{suffix}"
    # A topic name may be as long as a file name, so its end is left out to fit mark and suffix.
    return f"{partition.topic}-{partition.partition}"[: 255 - len(tail)] + tail
