"""Runs that are killed at any of their steps, over a topic that lives on in between.

The disk and the topic are of memory, so that every moment can be tried; what stands between them is
what runs in a driver. The same with a real broker, Spark, and SIGKILL: test_export.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.export import places
from chiplog_spark.export.commits import Commit
from chiplog_spark.export.plan import Bounds, Held, Step
from chiplog_spark.export.runs import Exported, Exporter, Topic
from chiplog_spark.refused import Refused

TARGET = "mem:///raw"
NAME = "orders"
PLACE = places.Place(TARGET, NAME)
DAY_MS = 86_400_000


class Killed(BaseException):
    """The driver is gone."""


@dataclass
class Disk:
    """`Files` of memory; it is the disk of a driver that is killed after so many changes."""

    copies: bool = False
    """Moves as an object store does: first a copy, then the old one is removed."""

    content: dict[str, str] = field(default_factory=dict)
    lives: int | None = None

    def change(self, path: str, text: str | None) -> None:
        if self.lives is not None:
            if self.lives == 0:
                raise Killed
            self.lives -= 1
        if text is None:
            del self.content[path]
        else:
            self.content[path] = text

    def names(self, directory: str) -> list[str]:
        return sorted({path.split("/")[0] for path in self.tree(directory)})

    def tree(self, directory: str) -> Mapping[str, int]:
        start = f"{directory}/"
        found = {
            path.removeprefix(start): text
            for path, text in self.content.items()
            if path.startswith(start)
        }
        return {path: len(text) for path, text in found.items()}

    def exists(self, path: str) -> bool:
        return path in self.content or bool(self.tree(path))

    def read(self, path: str) -> str:
        return self.content[path]

    def create(self, path: str, text: str) -> bool:
        directory, _, name = path.rpartition("/")
        making = f"{directory}/.{name}.1"
        self.change(making, text)
        if path in self.content:
            return False
        self.move(making, path)
        return True

    def move(self, source: str, destination: str) -> None:
        text = self.content[source]
        if self.copies:
            self.change(destination, text)
            self.change(source, None)
        else:
            self.change(destination, text)
            del self.content[source]

    def remove(self, path: str) -> None:
        for one in (
            [path] if path in self.content else [f"{path}/{name}" for name in self.tree(path)]
        ):
            self.change(one, None)


@dataclass
class Log:
    """A topic: partition -> what is there of it, offset -> milliseconds."""

    partitions: list[dict[int, int]] = field(default_factory=lambda: [{}])
    starts: list[int] = field(default_factory=lambda: [0])
    ends: list[int] = field(default_factory=lambda: [0])
    compacted: set[tuple[int, int]] = field(default_factory=set)

    def look(self, name: str) -> Topic:
        held = {n: Held(self.starts[n], self.ends[n]) for n in range(len(self.partitions))}
        return Topic(name, "id", held)

    def append(self, partition: int, days: list[int]) -> None:
        number = partition % len(self.partitions)
        for day in days:
            self.partitions[number][self.ends[number]] = day * DAY_MS
            self.ends[number] += 1

    def grow(self) -> None:
        self.partitions.append({})
        self.starts.append(0)
        self.ends.append(0)

    def retain(self, partition: int, count: int) -> None:
        number = partition % len(self.partitions)
        self.starts[number] = min(self.starts[number] + count, self.ends[number])
        for offset in [one for one in self.partitions[number] if one < self.starts[number]]:
            del self.partitions[number][offset]

    def compact(self, partition: int, modulus: int) -> None:
        number = partition % len(self.partitions)
        for offset in [one for one in self.partitions[number] if one % modulus]:
            del self.partitions[number][offset]
            self.compacted.add((number, offset))


@dataclass
class MemoryTable:
    """`Table` on such a disk: one file of it is one transaction, named by the commit."""

    disk: Disk

    def append(self, directory: str, commit: Commit, staging: str) -> None:
        path = f"{directory}/{places.TABLE_LOG}/{commit.number}"
        if path not in self.disk.content:
            texts = [self.disk.content[f"{staging}/{one.staged}"] for one in commit.files]
            self.disk.change(path, "".join(texts))


@dataclass
class World:
    disk: Disk
    log: Log = field(default_factory=Log)
    bounds: Bounds = field(default_factory=lambda: Bounds(100, 7, 3))
    fail_on_data_loss: bool = False
    is_table: bool = False

    def write(self, topic: Topic, step: Step, staging: str) -> int:
        """As Spark does: through temporary names, a mark at the end, and all in any order."""
        count = 0
        for number, one in enumerate(step.files):
            held = self.log.partitions[one.partition]
            days: dict[int, list[int]] = {}
            for offset in range(one.first, one.end):
                if offset in held:
                    days.setdefault(held[offset] // DAY_MS, []).append(offset)
            for day, offsets in days.items():
                path = f"file={number}/date={day}/part-0-a.snappy.parquet"
                lines = "".join(f"{one.partition} {offset}\n" for offset in offsets)
                self.disk.change(f"{staging}/_temporary/0/{path}", lines)
                self.disk.move(f"{staging}/_temporary/0/{path}", f"{staging}/{path}")
                count += len(offsets)
        self.disk.change(f"{staging}/_SUCCESS", "")
        return count

    def run(self, lives: int | None = None) -> Exported | None:
        self.disk.lives = lives
        table = MemoryTable(self.disk) if self.is_table else None
        exporter = Exporter(self.disk, self.write, self.bounds, self.fail_on_data_loss, table)
        try:
            return exporter.run(TARGET, NAME, self.log.look)
        except Killed:
            return None
        finally:
            self.disk.lives = None

    def visible(self) -> list[tuple[int, int]]:
        """What a reader of the topic's folder has: partition and offset."""
        found = []
        for path in sorted(self.disk.tree(PLACE.directory)):
            for line in self.disk.content[f"{PLACE.directory}/{path}"].splitlines():
                partition, offset = map(int, line.split())
                found.append((partition, offset))
        return found

    def commits(self) -> list[Commit]:
        return [
            Commit.from_json(self.disk.read(f"{PLACE.commits}/{name}"))
            for name in self.disk.names(PLACE.commits)
            if not name.startswith(".")
        ]


NUMBERS = st.integers(0, 3)
ACTIONS = st.one_of(
    st.tuples(st.just("append"), NUMBERS, st.lists(st.integers(0, 2), max_size=20)),
    st.tuples(st.just("grow")),
    st.tuples(st.just("retain"), NUMBERS, st.integers(1, 10)),
    st.tuples(st.just("compact"), NUMBERS, st.integers(2, 3)),
    st.tuples(st.just("killed"), st.integers(0, 60)),
    st.tuples(st.just("run")),
)


@given(st.booleans(), st.booleans(), st.lists(ACTIONS, max_size=20))
def test_each_offset_is_there_once(
    copies: bool, is_table: bool, actions: list[tuple[object, ...]]
) -> None:
    world = World(Disk(copies), is_table=is_table)
    for action in actions:
        match action:
            case ("killed", int(lives)):
                world.run(lives)
            case ("run",):
                assert world.run() is not None
            case (str(name), *arguments):
                getattr(world.log, name)(*arguments)
        seen = world.visible()
        assert len(seen) == len(set(seen))
        committed = {
            (one.partition, offset)
            for commit in world.commits()
            for one in commit.ranges
            for offset in range(one.first, one.end)
        }
        assert set(seen) <= committed

    assert world.run() is not None
    seen = world.visible()
    assert len(seen) == len(set(seen))
    lost = {
        (one.partition, offset)
        for commit in world.commits()
        for one in commit.lost
        for offset in range(one.first, one.end)
    }
    assert not lost & set(seen)
    assert whole(world.log) - world.log.compacted - before_all(world) <= set(seen) | lost
    here = {(n, offset) for n, one in enumerate(world.log.partitions) for offset in one}
    assert here <= set(seen)
    assert sum(commit.records for commit in world.commits()) == len(seen)
    assert left_behind(world.disk) == []


def whole(log: Log) -> set[tuple[int, int]]:
    return {(n, offset) for n, end in enumerate(log.ends) for offset in range(end)}


def before_all(world: World) -> set[tuple[int, int]]:
    """What retention took before the first export of a partition."""
    firsts: dict[int, int] = {}
    for commit in world.commits():
        for one in (*commit.lost, *commit.ranges):
            firsts[one.partition] = min(one.first, firsts.get(one.partition, one.first))
    return {
        (n, offset)
        for n, end in enumerate(world.log.ends)
        for offset in range(min(end, firsts.get(n, end)))
    }


def left_behind(disk: Disk) -> list[str]:
    """What a run leaves beside files, commits, and its number."""
    kept = (f"{PLACE.directory}/", f"{PLACE.commits}/", f"{PLACE.runs}/")
    return [
        path
        for path in disk.content
        if not path.startswith(kept) or path.rpartition("/")[2].startswith(".")
    ]


@pytest.mark.parametrize(("copies", "is_table"), [(False, False), (True, False), (False, True)])
def test_every_single_moment(copies: bool, is_table: bool) -> None:
    """A run of several steps, killed after its first change, its second, and so on."""
    lives = 0
    while True:
        world = World(Disk(copies), is_table=is_table)
        world.log.append(0, [0, 1] * 20)
        killed = world.run(lives) is None
        assert set(world.visible()) <= whole(world.log)
        world.log.append(0, [2] * 3)
        assert world.run() is not None
        assert sorted(world.visible()) == sorted(whole(world.log))
        assert left_behind(world.disk) == []
        if not killed:
            break
        lives += 1
    assert lives > 40


def test_a_run_that_finds_nothing_new_commits_nothing() -> None:
    world = World(Disk())
    world.log.append(0, [0] * 20)
    first, again = world.run(), world.run()
    assert first is not None
    assert again is not None
    assert (first.records, again.records, again.commits) == (20, 0, 0)


def test_what_retention_took_stops_the_export_unless_configured_otherwise() -> None:
    world = World(Disk(), fail_on_data_loss=True)
    world.log.append(0, [0] * 20)
    world.run()
    world.log.append(0, [0] * 20)
    world.log.retain(0, 25)
    with pytest.raises(Refused, match=r"offsets 20 to 24 of partition 0 .* job.failOnDataLoss"):
        world.run()
    world.fail_on_data_loss = False
    done = world.run()
    assert done is not None
    assert [(one.first, one.end) for one in done.lost] == [(20, 25)]
    assert [one.lost for one in world.commits() if one.lost] == [tuple(done.lost)]
    world.fail_on_data_loss = True
    assert world.run() is not None  # told once


def test_a_topic_created_again_is_refused() -> None:
    world = World(Disk())
    world.log.append(0, [0] * 20)
    world.run()
    world.log = Log()
    with pytest.raises(Refused, match="exported up to 20") as refused:
        world.run()
    assert refused.value.reason == "OffsetsWentBack"
    exporter = Exporter(world.disk, world.write, world.bounds)
    with pytest.raises(Refused, match="created again") as refused:
        exporter.run(TARGET, NAME, lambda name: Topic(name, "another", {0: Held(0, 30)}))
    assert refused.value.reason == "TopicRecreated"


def test_a_run_that_was_overtaken_does_not_commit() -> None:
    world = World(Disk())
    world.log.append(0, [0] * 20)

    def overtaken(topic: Topic, step: Step, staging: str) -> int:
        other = World(world.disk, world.log)
        other.run()
        return world.write(topic, step, staging)

    with pytest.raises(Refused, match="run only one at a time"):
        Exporter(world.disk, overtaken, world.bounds).run(TARGET, NAME, world.log.look)
    assert sorted(world.visible()) == sorted(whole(world.log))
    assert world.run() is not None
    assert left_behind(world.disk) == []


def test_a_file_that_somebody_took_away_while_it_was_moved() -> None:
    world = World(Disk())
    world.log.append(0, [0] * 20)
    lives = 0
    while not (world.commits() and not world.visible()):
        world = World(Disk(), world.log)
        world.run(lives)
        lives += 1
    for path in list(world.disk.tree(PLACE.staging)):
        if path.endswith(".parquet"):
            del world.disk.content[f"{PLACE.staging}/{path}"]
    with pytest.raises(Refused, match="restore it"):
        world.run()


def test_parquet_files_and_a_table_are_not_mixed() -> None:
    world = World(Disk())
    world.log.append(0, [0] * 20)
    world.run()
    world.is_table = True
    with pytest.raises(Refused, match=r"is a directory of Parquet files, but job\.format is delta"):
        world.run()
    table = World(Disk(), is_table=True)
    table.log.append(0, [0] * 20)
    table.run()
    table.is_table = False
    with pytest.raises(Refused, match=r"is a Delta table, but job\.format is parquet") as refused:
        table.run()
    assert refused.value.reason == "AnotherFormat"


def test_a_table_without_its_commits_is_refused() -> None:
    """Commits would be counted from 1 again, and the table leave out what it has a number of."""
    world = World(Disk(), is_table=True)
    world.log.append(0, [0] * 20)
    world.run()
    world.disk.remove(PLACE.commits)
    with pytest.raises(Refused, match="without its export's commit files"):
        world.run()
