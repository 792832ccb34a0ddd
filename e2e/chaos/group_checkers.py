"""What may never be seen of a consumer group, whichever process died: pure functions of its
history.

A commit without an answer may be there or not, or come later than what its client did next: that
is for the client to bear, and no anomaly. Neither is a record that is processed twice.
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
    """Everything that is wrong with the groups that read these records."""
    return [
        *offset_regression(groups),
        *group_skipped(groups, records),
        *no_group_progress(groups, records),
    ]


def offset_regression(groups: GroupHistory) -> Iterator[Anomaly]:
    """An offset that lies below one whose commit was acknowledged before it was asked for."""
    commits: defaultdict[Place, list[Committed]] = defaultdict(list)
    for commit in groups.commits:
        commits[commit.place].append(commit)
    asked: defaultdict[Place, list[Found]] = defaultdict(list)
    for found in groups.found:
        asked[found.place].append(found)
    for place, all_found in sorted(asked.items()):
        unanswered = {one.offset for one in commits[place] if not one.is_acknowledged}
        known = sorted(
            (one for one in commits[place] if one.is_acknowledged), key=lambda one: one.answered_s
        )
        times_s = [one.answered_s for one in known]
        furthest = highest_so_far(known)
        for one in all_found:
            before = bisect_left(times_s, one.asked_s)
            if not before or one.offset in unanswered:
                continue
            highest = furthest[before - 1]
            if one.offset < highest.offset:
                yield Anomaly(OFFSET_REGRESSION, name_of(place), regression(highest, one))


def highest_so_far(commits: list[Committed]) -> list[Committed]:
    """For each commit, the one with the highest offset up to it."""
    best: list[Committed] = []
    for one in commits:
        best.append(one if not best or one.offset > best[-1].offset else best[-1])
    return best


def regression(commit: Committed, found: Found) -> str:
    return (
        f"{commit.member} was acknowledged {commit.offset}, t={commit.answered_s:.3f}, and later "
        f"{found.by} found {found.offset}, t={found.asked_s:.3f}"
    )


def group_skipped(groups: GroupHistory, records: History) -> Iterator[Anomaly]:
    """Records below what the group committed that none of its members ever processed."""
    processed: defaultdict[Place, set[int]] = defaultdict(set)
    for one in groups.processed:
        processed[one.place].update(range(one.first, one.last + 1))
    for place, end in sorted(groups.furthest().items()):
        stored = records.final.get(place.partition, ())
        left = [offset for offset, _ in stored if offset < end and offset not in processed[place]]
        if left:
            what = f"{len(left)} records below {end} were not processed, the first at {left[0]}"
            yield Anomaly(GROUP_SKIPPED, name_of(place), what)


def no_group_progress(groups: GroupHistory, records: History) -> Iterator[Anomaly]:
    """A group that was not at the end, when it had had all the time it needs for that."""
    for place, offset in sorted(groups.final.items()):
        end = records.ends.get(place.partition, 0)
        if end and offset < end:
            state = groups.late.get(place.group, "unasked")
            what = f"at {offset} of {end} when everything had been well for long; group: {state}"
            yield Anomaly(NO_GROUP_PROGRESS, name_of(place), what)


def name_of(place: Place) -> str:
    return f"{place.group}: {place.partition}"
