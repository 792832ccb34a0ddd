"""The layout of the files below the directory that a user names.

    orders/date=2026-11-22/part-orders-00003-00000000000000001000-00000000000000001999.parquet
    _chiplog/orders/commits/00000000000000000007.json
    _chiplog/orders/runs/00000000000000000003
    _chiplog/orders/staging/00000000000000000003-00000000000000000007/file=0/date=2026-11-22/part-…

The topic's directory contains only complete files of commits, so readers need no special support.
None of our names there begins with `_` or `.`, which readers ignore.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from chiplog_spark.export.commits import CommittedFile, OffsetRange

OURS: Final = "_chiplog"
TABLE_LOG: Final = "_delta_log"
"""The subdirectory that a Delta table has."""
FILE_COLUMN: Final = "file"
DATE_COLUMN: Final = "date"
DIGITS: Final = 20
"""The width of numbers in names, as in Kafka's segments, so that names sort like numbers."""

_STAGED = re.compile(rf"{FILE_COLUMN}=(\d+)/({DATE_COLUMN}=[^/]+)/([^/_.][^/]*\.parquet)")


class Place(NamedTuple):
    """The directories of one topic's export."""

    target: str
    """The target directory: `file:///…`, `hdfs://…`, `s3a://…`."""

    topic: str

    @property
    def directory(self) -> str:
        """The directory for readers."""
        return f"{self.target.rstrip('/')}/{self.topic}"

    @property
    def commits(self) -> str:
        return f"{self._ours}/commits"

    @property
    def runs(self) -> str:
        return f"{self._ours}/runs"

    @property
    def staging(self) -> str:
        return f"{self._ours}/staging"

    @property
    def _ours(self) -> str:
        """The directory with the export's own files; readers ignore it because of its `_`."""
        return f"{self.target.rstrip('/')}/{OURS}/{self.topic}"


def numbered(number: int) -> str:
    """A number in the form that it has in names."""
    return f"{number:0{DIGITS}}"


def commit_name(number: int) -> str:
    return f"{numbered(number)}.json"


def staging_name(run: int, number: int) -> str:
    """The name of the directory where a run writes the files of commit `number`."""
    return f"{numbered(run)}-{numbered(number)}"


def newest(names: Iterable[str], suffix: str = "") -> int:
    """The largest number among names that are a number and `suffix`; 0 if there is none.

    Names of another form are ignored: an export did not create them, or not completely.
    """
    form = re.compile(rf"(\d{{{DIGITS}}}){re.escape(suffix)}")
    return max((int(found[1]) for found in map(form.fullmatch, names) if found), default=0)


class UnexpectedFile(Exception):  # noqa: N818 - named for what it says
    """A staging directory contains a file that no step writes."""


def committed_files(
    topic: str, files: Sequence[OffsetRange], staged: Mapping[str, int]
) -> tuple[CommittedFile, ...]:
    """The files of a commit, from the content of its staging directory (path -> size in bytes).

    `files` are its ranges. A file contains one range and one day; if a range has several files of
    one day, they are numbered. Raises `UnexpectedFile`.
    """
    by_range_and_day: dict[tuple[int, str], list[str]] = {}
    for path in sorted(staged):
        if path.rpartition("/")[2].startswith(("_", ".")):  # Spark's markers, like _SUCCESS
            continue
        # Spark writes the number of the range, its index in `files`, as the first directory.
        match = _STAGED.fullmatch(path)
        if match is None or int(match[1]) >= len(files):
            raise UnexpectedFile(path)
        by_range_and_day.setdefault((int(match[1]), match[2]), []).append(path)
    return tuple(
        CommittedFile(
            staged=path,
            path=f"{day}/{file_name(topic, files[number], part)}",
            size_bytes=staged[path],
        )
        for (number, day), paths in sorted(by_range_and_day.items())
        for part, path in enumerate(paths)
    )


def file_name(topic: str, offsets: OffsetRange, part: int = 0) -> str:
    """The name that readers see; it contains the first and the last offset.

    `part` distinguishes several files with the same range and day.
    """
    first, last = numbered(offsets.first), numbered(offsets.end - 1)
    suffix = f"-{part}" if part else ""
    return f"part-{topic}-{offsets.partition:05}-{first}-{last}{suffix}.parquet"
