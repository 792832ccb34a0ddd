"""Translated offsets skip nothing, and what is read again is counted."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.repartition.translation import Run, translated

BASE = 1_000
"""New offsets begin above the old ones."""
Copied = dict[int, list[tuple[int, int]]]
"""New partition -> (old partition, old offset) of each of its records, in order."""


@st.composite
def copies(draw: st.DrawFn) -> tuple[Copied, int]:
    """Records of some old partitions, spread over new ones with the order of each old one kept, and
    the number of old partitions."""
    before, after = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    order = draw(st.lists(st.integers(0, before - 1), max_size=40))
    found: Copied = {number: [] for number in range(after)}
    written: dict[int, int] = defaultdict(int)
    for source in order:
        # Offsets of markers and of what was compacted are missing.
        offset = written[source] + draw(st.integers(0, 2))
        written[source] = offset + 1
        found[draw(st.integers(0, after - 1))].append((source, offset))
    return found, before


def runs_of(records: list[tuple[int, int]], longest: int) -> list[Run]:
    """The records of a new partition as runs of at most `longest` records."""
    found: list[list[tuple[int, int]]] = []
    for record in records:
        if found and found[-1][-1][0] == record[0] and len(found[-1]) < longest:
            found[-1].append(record)
        else:
            found.append([record])
    runs, offset = [], BASE
    for one in found:
        run = Run(
            first_offset=Offset(offset),
            count=len(one),
            source=PartitionIndex(one[0][0]),
            source_first=Offset(one[0][1]),
            source_last=Offset(one[-1][1]),
        )
        runs.append(run)
        offset += len(one)
    return runs


@given(copies(), st.lists(st.integers(0, 30), min_size=4, max_size=4), st.integers(1, 9))
def test_nothing_is_skipped_and_no_more_is_read_again_than_counted(
    copied: tuple[Copied, int], offsets: list[int], longest: int
) -> None:
    records, before = copied
    committed = {number: offsets[number] for number in range(before)}
    found = translated(
        {PartitionIndex(new): runs_of(one, longest) for new, one in records.items()},
        {PartitionIndex(new): Offset(BASE + len(one)) for new, one in records.items()},
        {PartitionIndex(old): Offset(offset) for old, offset in committed.items()},
    )

    again, least_again = 0, 0
    for new, all_records in records.items():
        start = found.offsets[PartitionIndex(new)] - BASE
        is_committed = [offset < committed[source] for source, offset in all_records]
        assert all(is_committed[:start]), "a record is skipped"
        again += sum(is_committed[start:])
        first = is_committed.index(False) if False in is_committed else len(is_committed)
        least_again += sum(is_committed[first:])
    assert again <= found.replayed
    if longest == 1:
        assert found.replayed == again == least_again, "each record is known"


def without_gaps(count: int, source_first: int) -> Run:
    """A run at the begin of a new partition, with all records of old partition 0 from an offset."""
    return Run(
        first_offset=Offset(BASE),
        count=count,
        source=PartitionIndex(0),
        source_first=Offset(source_first),
        source_last=Offset(source_first + count - 1),
    )


def test_a_group_that_has_committed_nothing_begins_at_the_first_record() -> None:
    run = without_gaps(count=3, source_first=0)
    new, end = PartitionIndex(5), Offset(BASE + 3)

    found = translated({new: [run]}, {new: end}, {})

    assert (found.offsets, found.replayed) == ({new: BASE}, 0)


def test_a_run_without_gaps_is_entered_at_the_very_record() -> None:
    run = without_gaps(count=10, source_first=20)
    new, end = PartitionIndex(0), Offset(BASE + 10)

    found = translated({new: [run]}, {new: end}, {PartitionIndex(0): Offset(24)})

    assert (found.offsets, found.replayed) == ({new: BASE + 4}, 0)


def test_a_new_partition_without_records_begins_at_its_end() -> None:
    new = PartitionIndex(7)

    found = translated({}, {new: Offset(BASE)}, {PartitionIndex(0): Offset(9)})

    assert (found.offsets, found.replayed) == ({new: BASE}, 0)
