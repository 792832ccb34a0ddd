"""Every checker of groups sees what was planted for it, and nothing in a sound history."""

from math import inf

import pytest

from e2e.sim.checkers import check
from e2e.sim.groups.history import Beat, Commit, Found, GroupHistory, Joined, Removal, Synced
from e2e.sim.history import Batch, History, Replica

G = "group-1"
P, Q = "orders-0", "orders-1"


def sound() -> History:
    """Two generations of two members; in the first a commit is never answered."""
    history = History()
    groups = history.groups
    for generation, at_s in ((1, 10.0), (2, 20.0)):
        for who in ("a", "b"):
            groups.joined.append(joined(generation, at_s, who))
        groups.synced.append(Synced(at_s + 1, G, generation, "a", frozenset({P})))
        groups.synced.append(Synced(at_s + 1, G, generation, "b", frozenset({Q})))
        groups.beats.append(Beat(at_s + 1.5, at_s + 1.6, G, generation, "a", "a"))
    commit(groups, 12.0, 12.5, "a/1", 5, 1)
    commit(groups, 13.0, inf, "a/2", 7, 1)
    commit(groups, 22.0, 22.5, "a/3", 9, 2)
    found(groups, 11.0, -1, "")
    found(groups, 12.8, 5, "a/1")
    found(groups, 14.0, 7, "a/2")
    found(groups, 30.0, 9, "a/3")
    return history


def joined(generation: int, at_s: float, who: str, leader: str = "a", member: str = "") -> Joined:
    return Joined(at_s - 1, at_s, G, generation, who, member or who, leader)


def commit(
    groups: GroupHistory, began_s: float, acked_s: float, mark: str, offset: int, generation: int
) -> Commit:
    one = Commit(
        began_s=began_s,
        group=G,
        partition=P,
        offset=offset,
        mark=mark,
        who="a",
        member_id="a",
        generation=generation,
        acked_s=acked_s,
    )
    groups.commits.append(one)
    return one


def found(groups: GroupHistory, began_s: float, offset: int, mark: str, label: str = "") -> None:
    groups.found.append(Found(began_s, began_s + 0.1, G, P, offset, mark, label))


def names(history: History) -> set[str]:
    return {one.name for one in check(history)}


def test_a_sound_history_has_no_anomalies() -> None:
    assert check(sound()) == []


def test_two_owners_of_a_partition() -> None:
    history = sound()
    history.groups.synced.append(Synced(23.0, G, 2, "b", frozenset({P, Q})))
    assert names(history) == {"two-owners", "two-assignments"}


def test_a_partition_may_move_with_the_generation() -> None:
    history = sound()
    history.groups.joined.append(joined(3, 33.0, "b"))
    history.groups.synced.append(Synced(34.0, G, 3, "b", frozenset({P, Q})))
    assert check(history) == []


def test_two_leaders_of_a_generation() -> None:
    history = sound()
    history.groups.joined.append(joined(2, 23.0, "c", leader="c"))
    assert names(history) == {"two-leaders"}


def test_a_commit_of_a_generation_that_is_over() -> None:
    history = sound()
    commit(history.groups, 20.5, 20.6, "a/9", 6, 1)
    assert names(history) == {"stale-accepted"}


def test_a_commit_may_be_answered_when_its_generation_is_over() -> None:
    history = sound()
    commit(history.groups, 19.5, 20.6, "a/9", 8, 1)
    assert check(history) == []


def test_a_heartbeat_of_a_generation_that_is_over() -> None:
    history = sound()
    history.groups.beats.append(Beat(20.5, 20.6, G, 1, "a", "a"))
    assert names(history) == {"stale-accepted"}


def test_the_old_id_of_a_static_member() -> None:
    history = sound()
    history.groups.joined.append(joined(2, 23.0, "fixed-m", member="fixed-m-1"))
    history.groups.joined.append(joined(2, 25.0, "fixed-m", member="fixed-m-2"))
    history.groups.beats.append(Beat(24.5, 25.5, G, 2, "fixed-m", "fixed-m-1"))
    assert check(history) == []
    history.groups.beats.append(Beat(25.5, 25.6, G, 2, "fixed-m", "fixed-m-1"))
    assert names(history) == {"stale-accepted"}


def test_which_of_two_ids_came_first_is_unknown_where_they_came_together() -> None:
    history = sound()
    for member in ("fixed-m-1", "fixed-m-2"):
        history.groups.joined.append(joined(2, 23.0, "fixed-m", member=member))
        history.groups.beats.append(Beat(25.5, 25.6, G, 2, "fixed-m", member))
    assert check(history) == []


def test_an_acknowledged_commit_that_is_gone() -> None:
    history = sound()
    found(history.groups, 40.0, -1, "")
    assert names(history) == {"lost-commit"}


def test_a_commit_that_was_overwritten_and_is_back() -> None:
    history = sound()
    found(history.groups, 40.0, 5, "a/1")
    assert names(history) == {"commit-went-back"}


def test_what_was_never_answered_cannot_count_once_its_generation_is_over() -> None:
    history = sound()
    found(history.groups, 40.0, 7, "a/2")
    assert names(history) == {"commit-went-back"}


def test_what_was_never_answered_may_count_late() -> None:
    history = sound()
    history.groups.found.pop()
    commit(history.groups, 23.0, inf, "a/4", 11, 2)
    commit(history.groups, 24.0, 24.5, "a/5", 12, 2)
    found(history.groups, 25.0, 12, "a/5")
    found(history.groups, 26.0, 11, "a/4")
    assert check(history) == []


def test_what_was_shown_counts_although_it_was_never_answered() -> None:
    history = sound()
    commit(history.groups, 23.0, inf, "a/4", 11, 2)
    found(history.groups, 25.0, 11, "a/4")
    found(history.groups, 26.0, 9, "a/3")
    assert names(history) == {"commit-went-back"}


def test_what_nobody_committed() -> None:
    history = sound()
    found(history.groups, 40.0, 10, "a/3")
    assert names(history) == {"never-committed"}


def test_what_was_refused() -> None:
    history = sound()
    history.groups.found.pop()
    commit(history.groups, 23.0, inf, "a/4", 11, 2).is_refused = True
    found(history.groups, 25.0, 11, "a/4")
    assert names(history) == {"never-committed"}


@pytest.mark.parametrize("partition", ["", P])
def test_what_somebody_had_deleted(partition: str) -> None:
    history = sound()
    history.groups.removals.append(Removal(began_s=35.0, group=G, partition=partition, done_s=36.0))
    found(history.groups, 40.0, -1, "")
    assert check(history) == []
    found(history.groups, 41.0, 9, "a/3")
    assert names(history) == {"commit-went-back"}


def test_a_removal_of_something_else_explains_nothing() -> None:
    history = sound()
    history.groups.removals.append(Removal(began_s=35.0, group=G, partition=Q, done_s=36.0))
    found(history.groups, 40.0, -1, "")
    assert names(history) == {"lost-commit"}


def test_what_has_expired() -> None:
    history = sound()
    history.groups.retention_s = 60.0
    found(history.groups, 90.0, -1, "")
    assert check(history) == []


def test_nothing_expires_of_a_group_with_members() -> None:
    history = sound()
    history.groups.retention_s = 60.0
    for at_s in range(30, 90, 10):
        history.groups.beats.append(Beat(at_s, at_s + 0.1, G, 2, "a", "a"))
    found(history.groups, 90.0, -1, "")
    assert names(history) == {"lost-commit"}


def test_of_nobodys_group_each_offset_expires_by_itself() -> None:
    history = History()
    history.groups.retention_s = 60.0
    commit(history.groups, 12.0, 12.5, "a/1", 5, -1)
    for at_s in range(30, 90, 10):
        commit(history.groups, at_s, at_s + 0.1, f"a/{at_s}", 5, -1).partition = Q
    found(history.groups, 90.0, -1, "")
    assert check(history) == []


def test_what_was_committed_for_a_topic_that_is_deleted() -> None:
    history = sound()
    history.deleted["orders-0/aa"] = 25.0
    history.made["orders-0/bb"] = 26.0
    assert check(history) == []
    found(history.groups, 40.0, 9, "a/3", label="orders-0/bb")
    assert names(history) == {"offset-inherited"}


NEW = f"{P}/bbbbbbbb"


@pytest.mark.parametrize(
    ("label", "at_s", "name"),
    [
        (NEW, 60.0, "nothing-committed"),
        (NEW, 71.0, ""),
        (f"{P}/cccccccc", 60.0, ""),
        ("", 60.0, ""),
    ],
)
def test_nothing_is_committed_for_a_recreated_topic(label: str, at_s: float, name: str) -> None:
    history = sound()
    history.deleted = {f"{P}/aaaaaaaa": 40.0, NEW: 70.0}
    history.made[NEW] = 45.0
    commit(history.groups, 50.0, 50.5, "a/4", 3, 2).label = NEW
    found(history.groups, at_s, -1, "", label)
    assert names(history) == ({name} if name else set())


def test_what_was_not_said_to_be_of_a_topic_may_be_of_the_one_before() -> None:
    history = sound()
    history.deleted[f"{P}/aaaaaaaa"] = 40.0
    commit(history.groups, 50.0, 50.5, "a/4", 3, 2)
    found(history.groups, 60.0, -1, "", NEW)
    assert names(history) == set()


def test_commits_may_be_absent_of_a_recreated_topic() -> None:
    history = sound()
    history.deleted[f"{P}/aaaaaaaa"] = 40.0
    commit(history.groups, 50.0, 50.5, "a/4", 3, 2).label = NEW
    history.groups.removals.append(Removal(began_s=52.0, group=G, partition=P, done_s=53.0))
    found(history.groups, 60.0, -1, "", NEW)
    assert names(history) == set()


@pytest.mark.parametrize(("value", "is_fork"), [("a", False), ("x", True)])
def test_replicas_of_offsets_are_compacted_each_in_its_own_time(value: str, is_fork: bool) -> None:
    history = History()
    for broker_id, left in ((1, ((0, "a"), (1, "b"))), (2, ((0, value),))):
        batch = Batch(0, 1, 3, repr(left).encode(), left)
        history.replicas.append(
            Replica(
                broker_id=broker_id,
                partition="__consumer_offsets-0/aa",
                is_in_sync=True,
                batches=(batch,),
            )
        )
    assert names(history) == ({"epoch-fork"} if is_fork else set())


def test_a_state_that_is_not_its_replay() -> None:
    history = sound()
    history.groups.unlike.append("group-1 is one thing, in the log another")
    assert names(history) == {"coordinator-state"}


def test_a_group_that_does_not_recover() -> None:
    history = sound()
    history.groups.unwell.append((G, "a is in no generation"))
    assert names(history) == {"group-unwell"}
