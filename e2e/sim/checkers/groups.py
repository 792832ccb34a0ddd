"""Violations in consumer groups: a partition with two owners, committed offsets that go back,
coordinators whose memory differs from their logs.

Each commit has a unique mark. It *takes effect* at some moment between its request and its answer;
without an answer, at any moment after its request, or never. A request for the committed offset may
be answered with the last commit that took effect before, or with one that may have taken effect
while the request was in flight.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.groups.history import Commit, Found, GroupHistory, Removal
from e2e.sim.history import History

REMOVAL = "a removal"
EXPIRES_SOONEST = 0.7
"""Share of the retention after which offsets may expire: brokers' clocks may run too fast, and a
group may have been without members before its last answer arrived."""


def two_owners(history: History) -> Iterator[Anomaly]:
    """Two members were assigned the same partition in one generation."""
    owners: dict[tuple[str, int, str], str] = {}
    groups = history.groups
    restarted = _restarted(groups)
    for one in groups.synced:
        if one.group in restarted:
            continue
        for partition in sorted(one.partitions):
            owner = owners.setdefault((one.group, one.generation, partition), one.who)
            if owner != one.who:
                what = f"{partition} in generation {one.generation}: {owner} and {one.who}"
                yield Anomaly("two-owners", one.group, f"{what}, t={one.at_s:.3f}")


def two_assignments(history: History) -> Iterator[Anomaly]:
    """One member got two different assignments in one generation."""
    given: dict[tuple[str, int, str], frozenset[str]] = {}
    groups = history.groups
    restarted = _restarted(groups)
    for one in groups.synced:
        if one.group in restarted:
            continue
        known = given.setdefault((one.group, one.generation, one.who), one.partitions)
        if known != one.partitions:
            what = f"{one.who} in generation {one.generation}: {sorted(known)}, and then "
            yield Anomaly("two-assignments", one.group, what + f"{sorted(one.partitions)}")


def two_leaders(history: History) -> Iterator[Anomaly]:
    """JoinGroup responses named two different leaders of one generation."""
    leaders: dict[tuple[str, int], str] = {}
    groups = history.groups
    restarted = _restarted(groups)
    for one in groups.joined:
        if one.group in restarted:
            continue
        leader = leaders.setdefault((one.group, one.generation), one.leader)
        if leader != one.leader:
            what = f"generation {one.generation}: {leader} and {one.leader}"
            yield Anomaly("two-leaders", one.group, f"{what}, t={one.at_s:.3f}")


def stale_accepted(history: History) -> Iterator[Anomaly]:
    """A heartbeat or commit was accepted from a past generation or a replaced member id."""
    groups = history.groups
    ends_s, fenced = _GenerationEnds(groups), _fenced(groups)
    restarted = _restarted(groups)
    findings = [
        (one.group, one.generation, one.member_id, one.began_s, "a heartbeat")
        for one in groups.beats
    ]
    findings += [
        (one.group, one.generation, one.member_id, one.began_s, f"commit {one.mark}")
        for one in groups.commits
        if one.acked_s < inf
    ]
    for group, generation, member_id, began_s, what in findings:
        if group in restarted:
            continue
        if generation >= 0 and ends_s(group, generation) < began_s:
            yield Anomaly(
                "stale-accepted", group, f"{what} of generation {generation}, t={began_s:.3f}"
            )
        elif fenced.get((group, member_id), inf) < began_s:
            yield Anomaly("stale-accepted", group, f"{what} of {member_id}, t={began_s:.3f}")


def commits(history: History) -> Iterator[Anomaly]:
    """An acknowledged commit is lost, or one that had been overwritten is back.

    For a topic name that was deleted, it only checks that a new topic of this name did not inherit
    committed offsets; `nothing_of_this_topic` checks for lost ones.
    """
    groups = history.groups
    ends_s, gone = _GenerationEnds(groups), _deleted_topics(history)
    restarted = _restarted(groups)
    # A restarted group may use generation numbers again, so none of them counts as ended:
    # an empty history has no later generation.
    none_end = _GenerationEnds(GroupHistory())
    by_place: dict[tuple[str, str], _Place] = defaultdict(_Place)
    for commit in groups.commits:
        by_place[commit.group, commit.partition].commits.append(commit)
    for found in groups.found:
        by_place[found.group, found.partition].found.append(found)
    for removal in groups.removals:
        for (group, partition), place in by_place.items():
            if group == removal.group and removal.partition in {"", partition}:
                place.removals.append(removal)
    alive_s = _alive_times(groups)
    for (group, partition), place in sorted(by_place.items()):
        if _topic_of(partition) in gone:
            yield from _inherited(group, partition, place, history)
            continue
        group_ends_s = none_end if group in restarted else ends_s
        kept = _retention_starts(place, alive_s.get(group, []))
        for name, what in _not_like_a_register(place, group_ends_s, kept, groups.retention_s):
            yield Anomaly(name, group, f"{partition}: {what}")


def nothing_of_this_topic(history: History) -> Iterator[Anomaly]:
    """A committed offset is lost in a topic that was deleted and created again under its name.

    `commits` refers to partitions by topic name, and skips names that several topics had. This
    checker compares commits and answers with the same topic id, until this topic is deleted.
    """
    groups, gone = history.groups, _deleted_topics(history)
    ends_s, restarted = _GenerationEnds(groups), _restarted(groups)
    # A restarted group may use generation numbers again, so none of them counts as ended.
    none_end = _GenerationEnds(GroupHistory())
    places: dict[tuple[str, str], _Place] = defaultdict(_Place)
    for commit in groups.commits:
        if commit.label and _topic_of(commit.partition) in gone:
            places[commit.group, commit.label].commits.append(commit)
    for found in groups.found:
        # After the topic was deleted, its offsets are rightly gone.
        is_before_deletion = found.at_s < history.deleted.get(found.label, inf)
        place = places.get((found.group, found.label))
        if place is not None and found.offset < 0 and is_before_deletion:
            place.found.append(found)
    alive_s = _alive_times(groups)
    for (group, label), place in sorted(places.items()):
        place.removals = [
            one
            for one in groups.removals
            if one.group == group and one.partition in {"", place.commits[0].partition}
        ]
        group_ends_s = none_end if group in restarted else ends_s
        kept = _retention_starts(place, alive_s.get(group, []))
        for _, what in _not_like_a_register(place, group_ends_s, kept, groups.retention_s):
            yield Anomaly("nothing-committed", group, f"{label}: {what}")


def never_committed(history: History) -> Iterator[Anomaly]:
    """A coordinator answered with a committed offset that no client sent, or that was refused."""
    sent = {(one.group, one.partition, one.mark): one for one in history.groups.commits}
    for one in history.groups.found:
        if one.offset < 0:
            continue
        commit = sent.get((one.group, one.partition, one.mark))
        if commit is None or commit.offset != one.offset or commit.is_refused:
            what = f"{one.partition}: {one.offset} by {one.mark!r}, t={one.at_s:.3f}"
            yield Anomaly("never-committed", one.group, what)


def coordinator_state(history: History) -> Iterator[Anomaly]:
    """A coordinator's state in memory differed from the state in its log."""
    for what in history.groups.unlike:
        yield Anomaly("coordinator-state", "", what)


def unwell(history: History) -> Iterator[Anomaly]:
    """A group had not recovered long after the rest of the cluster: not Stable, or no commits."""
    for group, why in history.groups.unwell:
        yield Anomaly("group-unwell", group, why)


# -- commits


@dataclass(slots=True)
class _Place:
    """All that clients did and got for one partition in one group."""

    commits: list[Commit] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)


def _retention_starts(place: _Place, alive_s: list[float]) -> list[float]:
    """The times at which the retention of the partition's committed offset begins again.

    `alive_s` are the times at which the group certainly had a member.
    """
    if all(one.generation < 0 for one in place.commits):
        # A group without members: each offset's retention begins with its commit.
        return sorted(one.acked_s for one in place.commits if one.acked_s < inf)
    return alive_s


def _not_like_a_register(
    place: _Place, ends_s: "_GenerationEnds", alive_s: list[float], retention_s: float
) -> Iterator[tuple[str, str]]:
    """(anomaly name, description) of each answer that no order of the commits explains.

    The committed offset must behave like a register: a read gets the last write before it. `ends_s`
    tells when generations ended, `alive_s` when the retention began again.
    """
    done = _done(place, ends_s)
    marks = {one.mark: one for one in place.commits}
    # Each write with the time by which it had certainly taken effect. A read that begins later
    # must not get a commit that was done before the latest of these writes had begun.
    overwriters = [(done[one.mark], one.began_s, one.mark) for one in place.commits]
    overwriters += [(one.done_s, one.began_s, REMOVAL) for one in place.removals]
    overwriters = sorted(one for one in overwriters if one[0] < inf)
    ends = [one[0] for one in overwriters]
    latest = list(accumulate(((one[1], one[2]) for one in overwriters), max))
    for one in place.found:
        index = bisect_left(ends, one.began_s)
        if index == 0:
            continue
        since_s, by = latest[index - 1]
        if one.offset >= 0:
            commit = marks.get(one.mark)
            if commit is not None and done[one.mark] < since_s:
                what = f"{one.mark} at {one.offset}, after {by}, t={one.at_s:.3f}"
                yield "commit-went-back", what
        elif not (
            by == REMOVAL
            or _is_forgotten(place.removals, since_s, one)
            or _has_expired(alive_s, since_s, one.at_s, retention_s)
        ):
            yield "lost-commit", f"nothing, after {by}, t={one.at_s:.3f}"


def _done(place: _Place, ends_s: "_GenerationEnds") -> Mapping[str, float]:
    """Mark -> when the commit had certainly taken effect; infinite if that is unknown.

    That is when it was acknowledged, when an answer first contained it, or when its generation was
    over, whichever came first.
    """
    done = {one.mark: one.acked_s for one in place.commits}
    for one in place.found:
        if one.mark in done:
            done[one.mark] = min(done[one.mark], one.at_s)
    for commit in place.commits:
        if commit.generation >= 0 and done[commit.mark] < inf:
            done[commit.mark] = min(done[commit.mark], ends_s(commit.group, commit.generation))
    return done


def _is_forgotten(removals: Iterable[Removal], since_s: float, found: Found) -> bool:
    """Whether one of the removals may have taken effect after `since_s` and before the answer."""
    return any(
        not one.is_refused and one.done_s >= since_s and one.began_s < found.at_s
        for one in removals
    )


def _has_expired(alive_s: list[float], since_s: float, at_s: float, retention_s: float) -> bool:
    """Whether offsets may have expired between `since_s` and `at_s`.

    They do if the group was without members for the retention, longer than any gap in `alive_s`.
    """
    times = [since_s, *(one for one in alive_s if since_s < one < at_s), at_s]
    return any(after - before >= retention_s * EXPIRES_SOONEST for before, after in pairwise(times))


def _inherited(group: str, partition: str, place: _Place, history: History) -> Iterator[Anomaly]:
    """A topic that was created again has the committed offset of its deleted predecessor.

    Only answers to requests with a topic id count: until all brokers know of the deletion, the
    name alone may still mean the deleted topic.
    """
    marks = {one.mark: one for one in place.commits}
    for one in place.found:
        commit = marks.get(one.mark)
        if commit is not None and commit.acked_s < history.made.get(one.label, -inf):
            # It was acknowledged before the topic with the answer's topic id was created.
            what = f"{partition}: {one.mark} at {one.offset} was committed for the deleted topic"
            yield Anomaly("offset-inherited", group, what)


def _topic_of(partition: str) -> str:
    return partition.rpartition("-")[0]


def _deleted_topics(history: History) -> frozenset[str]:
    """Names of topics that a user asked to delete."""
    return frozenset(_topic_of(one.partition("/")[0]) for one in history.deleted)


# -- generations


class _GenerationEnds:
    """Tells when a generation was certainly over: when an answer first named a later one."""

    def __init__(self, groups: GroupHistory) -> None:
        """Compute from all JoinGroup answers when each generation was first named."""
        begun: dict[str, dict[int, float]] = defaultdict(dict)
        for one in groups.joined:
            known = begun[one.group]
            known[one.generation] = min(one.at_s, known.get(one.generation, inf))
        self._generations = {group: sorted(known) for group, known in begun.items()}
        self._over: dict[str, list[float]] = {}
        for group, known in begun.items():
            times = [known[one] for one in sorted(known)]
            # For each generation, the earliest answer that named it or a later one.
            self._over[group] = list(accumulate(reversed(times), min))[::-1]

    def __call__(self, group: str, generation: int) -> float:
        """When this generation was over, in seconds; infinite if it never was."""
        generations = self._generations.get(group, [])
        index = bisect_left(generations, generation + 1)
        return self._over[group][index] if index < len(generations) else inf


def _fenced(groups: GroupHistory) -> dict[tuple[str, str], float]:
    """(group, member id) of static members -> when another member id had certainly replaced it.

    Two JoinGroups whose times overlap are not in a known order, so they do not count.
    """
    first: dict[tuple[str, str], tuple[float, float]] = {}  # when the id's first join began, ended
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in groups.joined:
        key = one.group, one.member_id
        if one.who != one.member_id and key not in first:
            first[key] = one.began_s, one.at_s
            ids[one.group, one.who].append(one.member_id)
    fenced: dict[tuple[str, str], float] = {}
    for (group, _), member_ids in ids.items():
        for before, after in pairwise(member_ids):
            _, known_s = first[group, before]
            began_s, at_s = first[group, after]
            if began_s > known_s:
                fenced[group, before] = at_s
    return fenced


def _alive_times(groups: GroupHistory) -> dict[str, list[float]]:
    """Group -> times at which it certainly had a member or got a commit, in order."""
    times: dict[str, list[float]] = defaultdict(list)
    for one in groups.joined:
        times[one.group].append(one.at_s)
    for beat in groups.beats:
        times[beat.group].append(beat.at_s)
    for commit in groups.commits:
        if commit.acked_s < inf:
            times[commit.group].append(commit.acked_s)
    return {group: sorted(known) for group, known in times.items()}


def _restarted(groups: GroupHistory) -> frozenset[str]:
    """Groups whose generation numbers may have started again from the beginning.

    They were deleted, or had no members for so long that the coordinator may have forgotten them.
    """
    found = {one.group for one in groups.removals if not one.partition}
    if groups.retention_s < inf:
        for group, times in _alive_times(groups).items():
            gaps_s = (after - before for before, after in pairwise(times))
            if any(gap_s >= groups.retention_s * EXPIRES_SOONEST for gap_s in gaps_s):
                found.add(group)
    return frozenset(found)


CHECKERS = (
    two_owners,
    two_assignments,
    two_leaders,
    stale_accepted,
    commits,
    nothing_of_this_topic,
    never_committed,
    coordinator_state,
    unwell,
)
