"""Checks the history of consumer groups for violations that no failure may cause: pure functions.

A commit without an answer may have been stored or not, or be stored after the client's next
requests: that is no violation, nor is a record that is processed twice.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from e2e.chaos.group_history import Committed, Found, GroupHistory, Place
from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import History

OFFSET_REGRESSION = "offset-regression"
GROUP_SKIPPED = "group-skipped"
NO_GROUP_PROGRESS = "no-group-progress"


def check_groups(groups: GroupHistory, records: History) -> list[Anomaly]:
    """All violations in the history of the groups that read these records."""
    return [
        *offset_regression(groups),
        *group_skipped(groups, records),
        *no_group_progress(groups, records),
    ]


def offset_regression(groups: GroupHistory) -> Iterator[Anomaly]:
    """Committed offsets that went back.

    An answer is one if it is lower than a commit that was acknowledged before the question was
    found_at. An offset that was also committed without an answer is none: that commit may have been
    stored late.
    """
    commits: defaultdict[Place, list[Committed]] = defaultdict(list)
    for commit in groups.commits:
        commits[commit.place].append(commit)
    found_at: defaultdict[Place, list[Found]] = defaultdict(list)
    for found in groups.found:
        found_at[found.place].append(found)
    for place, all_found in sorted(found_at.items()):
        unanswered = {one.offset for one in commits[place] if not one.is_acknowledged}
        acknowledged = sorted(
            (one for one in commits[place] if one.is_acknowledged), key=lambda one: one.answered_s
        )
        times_s = [one.answered_s for one in acknowledged]
        furthest = highest_so_far(acknowledged)
        for one in all_found:
            # The number of commits acknowledged before this offset was asked for.
            before = bisect_left(times_s, one.asked_s)
            if not before or one.offset in unanswered:
                continue
            highest = furthest[before - 1]
            if one.offset < highest.offset:
                yield Anomaly(OFFSET_REGRESSION, name_of(place), regression(highest, one))


def highest_so_far(commits: list[Committed]) -> list[Committed]:
    """For each position in the list, the commit with the highest offset up to and including it."""
    best: list[Committed] = []
    for one in commits:
        best.append(one if not best or one.offset > best[-1].offset else best[-1])
    return best


def regression(commit: Committed, found: Found) -> str:
    """The text of an anomaly: a later request got an older offset than the acknowledged commit."""
    return (
        f"the commit of offset {commit.offset} by {commit.member} was acknowledged at "
        f"{commit.answered_s:.3f} s, but {found.by} asked at {found.asked_s:.3f} s and got "
        f"{found.offset}"
    )


def group_skipped(groups: GroupHistory, records: History) -> Iterator[Anomaly]:
    """Stored records below the group's committed offset that no member of it ever processed."""
    processed: defaultdict[Place, set[int]] = defaultdict(set)
    for one in groups.processed:
        processed[one.place].update(range(one.first, one.last + 1))
    for place, end in sorted(groups.furthest().items()):
        stored = records.final.get(place.partition, ())
        left = [offset for offset, _ in stored if offset < end and offset not in processed[place]]
        if left:
            what = (
                f"{len(left)} records below the committed offset {end} were not processed, "
                f"the first at offset {left[0]}"
            )
            yield Anomaly(GROUP_SKIPPED, name_of(place), what)


def no_group_progress(groups: GroupHistory, records: History) -> Iterator[Anomaly]:
    """Groups that had not committed a partition's end long after the last fault and record."""
    for place, offset in sorted(groups.final.items()):
        end = records.ends.get(place.partition, 0)
        if end and offset < end:
            state = groups.late.get(place.group, "unknown")
            what = (
                f"committed offset {offset}, end offset {end}, long after the last fault; "
                f"state of the group: {state}"
            )
            yield Anomaly(NO_GROUP_PROGRESS, name_of(place), what)


def name_of(place: Place) -> str:
    return f"{place.group}: {place.partition}"
