"""One run of an export: determine its end, then read, write, commit and move step by step.

Because of the order in each step a run can be killed at any time: files without a commit are never
visible and are removed later; a commit whose files are not all moved is completed before anything
else.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chiplog_spark.export import places
from chiplog_spark.export.commits import Commit, OffsetRange, advanced_ends
from chiplog_spark.export.files import Files
from chiplog_spark.export.places import Place
from chiplog_spark.export.plan import (
    Bounds,
    Held,
    Plan,
    Step,
    WentBack,
    next_step,
    plan,
    records_per_file,
    remaining_after,
)
from chiplog_spark.refused import Refused

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic at the beginning of a run."""

    name: str
    topic_id: str
    held: Mapping[int, Held]


class Writer(Protocol):
    """Reads the records of a step and writes them to a new directory."""

    def __call__(self, topic: Topic, step: Step, staging: str) -> int:
        """Write one file per range and day of the step to `staging`; returns the number of records.

        Each file is at `file=<number of the file in the step>/date=<day>/<any name>.parquet`.
        """


class Table(Protocol):
    """Adds the files of a commit in one transaction, and no commit twice."""

    def append(self, directory: str, commit: Commit, staging: str) -> None:
        """Append all records in the staging directory; does nothing if this commit was appended
        before."""


@dataclass(slots=True)
class Exported:
    """The result of a run."""

    topic: str
    commits: int = 0
    records: int = 0
    files: int = 0
    size_bytes: int = 0
    lost: list[OffsetRange] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Exporter:
    """Exports topics, one after the other, each in a run of its own."""

    files: Files
    write: Writer
    bounds: Bounds
    fail_on_data_loss: bool = True
    table: Table | None = None
    """The table in the topic's directory; None for a directory of Parquet files."""

    def run(self, target: str, name: str, describe: Callable[[str], Topic]) -> Exported:
        """Export everything that exists now and is not exported yet.

        `describe` is called once, after the recovery from an earlier run. Raises `Refused`.
        """
        place = Place(target, name)
        run_number = self.claim(place)
        self.check_format(place)
        last = self.recover(place)
        topic = describe(name)
        plan_of_run = self.ranges_to_export(topic, last)
        exported = Exported(name, lost=list(plan_of_run.lost))
        log_event(
            "begun",
            topic=name,
            run=run_number,
            offsets=count(plan_of_run.todo),
            partitions=len(topic.held),
        )
        # The first commit also records the lost ranges, even if there is nothing to export.
        left, lost = plan_of_run.todo, plan_of_run.lost
        while left or lost:
            offsets, size_bytes = (last.offsets, last.size_bytes) if last else (0, 0)
            size = records_per_file(self.bounds, offsets, size_bytes)
            step = next_step(left, size, self.bounds.files_per_commit)
            last = self.step(place, run_number, topic, step, lost, last)
            left, lost = remaining_after(left, step), ()
            log_progress(exported, last, left)
        return exported

    def claim(self, place: Place) -> int:
        """Take the next number of a run, by creating its file; returns the number.

        From here on no earlier run commits: it looks for newer numbers first. Raises `Refused` if
        another run takes the same number.
        """
        number = places.newest(self.files.names(place.runs)) + 1
        if not self.files.create(f"{place.runs}/{places.numbered(number)}", ""):
            raise superseded_error(place)
        for name in self.files.names(place.runs):
            if name != places.numbered(number):
                self.files.remove(f"{place.runs}/{name}")
        return number

    def check_format(self, place: Place) -> None:
        """Raises `Refused` if the topic's directory has another format than this run writes."""
        is_table = self.files.exists(f"{place.directory}/{places.TABLE_LOG}")
        has_commits = places.newest(self.files.names(place.commits), ".json") > 0
        if self.table is None:
            conflict = "a Delta table, but job.format is parquet" if is_table else ""
        elif is_table:
            # The numbers of commits would start again, and the table ignores those that it has.
            no_commits = f"a Delta table without its export's commit files in {place.commits}"
            conflict = "" if has_commits else no_commits
        else:
            is_directory = self.files.exists(place.directory)
            parquet = "a directory of Parquet files, but job.format is delta"
            conflict = parquet if is_directory else ""
        if conflict:
            raise Refused(
                "AnotherFormat",
                f"{place.directory} is {conflict}: set another job.target, or move that directory"
                f" and {place.commits} away",
            )

    def recover(self, place: Place) -> Commit | None:
        """Complete what a killed run has left; returns the newest commit, if there is one.

        The files of that commit are moved, and files without a commit are removed.
        """
        names = self.files.names(place.commits)
        for name in names:
            if name.startswith("."):  # temporary: its run ended while it wrote the commit
                self.files.remove(f"{place.commits}/{name}")
        newest = places.newest(names, ".json")
        last = None
        if newest:
            path = f"{place.commits}/{places.commit_name(newest)}"
            last = Commit.from_json(self.files.read(path))
            self.finish(place, last)
        for name in self.files.names(place.staging):
            self.files.remove(f"{place.staging}/{name}")
            log_event("removed what a run left that did not end", topic=place.topic, staging=name)
        return last

    def ranges_to_export(self, topic: Topic, last: Commit | None) -> Plan:
        """The ranges that this run exports after commit `last`. Raises `Refused`."""
        if last is not None and last.topic_id != topic.topic_id:
            raise Refused(
                "TopicRecreated",
                f"topic {topic.name} was deleted and created again (its id is {topic.topic_id}, "
                f"the exported one was {last.topic_id}): set another job.target, or move the old "
                "export away",
            )
        try:
            found = plan(topic.held, last.ends if last else ())
        except WentBack as back:
            raise Refused(
                "OffsetsWentBack",
                f"topic {topic.name}: {back}; the topic was created again or has lost records: set"
                " another job.target, or move the old export away",
            ) from back
        for lost_range in found.lost:
            log_event(
                "lost",
                topic=topic.name,
                partition=lost_range.partition,
                first=lost_range.first,
                end=lost_range.end,
            )
        if found.lost and self.fail_on_data_loss:
            lost_range = found.lost[0]
            more = f", and in {len(found.lost) - 1} more partitions" if len(found.lost) > 1 else ""
            raise Refused(
                "OffsetOutOfRange",
                f"topic {topic.name}: offsets {lost_range.first} to {lost_range.end - 1} of"
                f" partition {lost_range.partition} were deleted before they were exported{more}: "
                "set job.failOnDataLoss to false to continue after them, and export more often or"
                " raise the topic's retention",
            )
        return found

    def step(
        self,
        place: Place,
        run: int,
        topic: Topic,
        step: Step,
        lost: tuple[OffsetRange, ...],
        last: Commit | None,
    ) -> Commit:
        """Read and write the ranges of a step, create its commit, and move its files.

        `last` is the commit before it, `lost` the ranges that the new commit records as deleted.
        Raises `Refused` if another run has begun.
        """
        number = last.number + 1 if last else 1
        name = places.staging_name(run, number)
        staging = f"{place.staging}/{name}"
        records = self.write(topic, step, staging) if step.ranges else 0
        files = places.committed_files(topic.name, step.files, self.files.tree(staging))
        commit = Commit(
            topic=topic.name,
            topic_id=topic.topic_id,
            number=number,
            staging=name,
            records=records,
            ranges=step.ranges,
            lost=lost,
            ends=advanced_ends(last.ends if last else (), (*lost, *step.ranges)),
            files=files,
        )
        # Writing may have taken long: a newer run may have begun in the meantime.
        if places.newest(self.files.names(place.runs)) != run:
            raise superseded_error(place)
        path = f"{place.commits}/{places.commit_name(number)}"
        if not self.files.create(path, commit.to_json()):
            raise superseded_error(place)
        self.finish(place, commit)
        return commit

    def finish(self, place: Place, commit: Commit) -> None:
        """Move the files of a commit to the names that readers see, if that was not done yet.

        If the staging directory does not exist any more, all files were moved: their owner may have
        changed or removed them since. Raises `Refused` if a file is in neither directory.
        """
        staging = f"{place.staging}/{commit.staging}"
        if not self.files.exists(staging):
            return
        if self.table is not None:
            if commit.files:
                self.table.append(place.directory, commit, staging)
            self.files.remove(staging)
            return
        for file in commit.files:
            source, path = f"{staging}/{file.staged}", f"{place.directory}/{file.path}"
            if self.files.exists(path):  # moved, or only copied: an object store copies first
                self.files.remove(source)
            elif self.files.exists(source):
                self.files.move(source, path)
            else:
                raise Refused(
                    "FileMissing",
                    f"file {path} of commit {commit.number} does not exist, nor in {staging}: "
                    f"restore it; or remove that commit's files, {place.commits}/"
                    f"{places.commit_name(commit.number)} and {staging}, to export its offsets"
                    " again",
                )
        self.files.remove(staging)


def superseded_error(place: Place) -> Refused:
    """The error of a run when another run of the same export has begun."""
    return Refused(
        "AnotherExport",
        f"another export of topic {place.topic} to {place.target} has begun, so this one ends: run"
        " only one at a time (in a CronJob, concurrencyPolicy: Forbid)",
    )


def log_progress(exported: Exported, commit: Commit, left: tuple[OffsetRange, ...]) -> None:
    """Add a commit to the result of a run, and log it; `left` are the ranges after it."""
    exported.commits += 1
    exported.records += commit.records
    exported.files += len(commit.files)
    exported.size_bytes += commit.size_bytes
    log_event(
        "committed",
        topic=commit.topic,
        commit=commit.number,
        records=commit.records,
        files=len(commit.files),
        bytes=commit.size_bytes,
        offsets_left=count(left),
    )


def count(ranges: tuple[OffsetRange, ...]) -> int:
    """The number of offsets in these ranges."""
    return sum(range_.end - range_.first for range_ in ranges)


def log_event(event: str, **facts: object) -> None:
    log.info(event, extra=facts)
