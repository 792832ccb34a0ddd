"""Every checker sees what was planted for it, and nothing in a history without faults."""

from dataclasses import replace
from typing import Any

import pytest

from e2e.sim.checkers import check
from e2e.sim.history import (
    Append,
    Batch,
    Decision,
    DeleteAsked,
    Event,
    History,
    InForce,
    Kind,
    Leadership,
    LogStart,
    Policy,
    Replica,
    SequenceRefused,
    Span,
    Vouched,
)

P = "orders-0/aa"


def sound() -> History:
    """Three records written by one producer and read by one consumer; one send is unknown."""
    history = History()
    for number, value in enumerate(("a", "b", "c")):
        add(history, Kind.SENT, value)
        add(history, Kind.ACKED, value, number)
    add(history, Kind.SENT, "unknown")
    add(history, Kind.SENT, "unknown but stored")
    add(history, Kind.SOUGHT, offset=0, client="c1")
    for number, value in enumerate(("a", "b", "c", "unknown but stored")):
        add(history, Kind.READ, value, number, "c1")
    history.final[P] = [(0, "a"), (1, "b"), (2, "c"), (3, "unknown but stored")]
    return history


def add(
    history: History, kind: Kind, value: str = "", offset: int = -1, client: str = "p1"
) -> None:
    history.events.append(Event(len(history.events), kind, client, P, value, offset))


def names(history: History) -> set[str]:
    return {one.name for one in check(history)}


def test_a_sound_history_has_no_anomalies() -> None:
    assert check(sound()) == []


def test_a_lost_write() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", 4)
    assert names(history) == {"lost-write"}


def test_an_acknowledged_duplicate_without_offset_may_be_lost_too() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", -1)
    assert names(history) == {"lost-write"}


def test_a_partition_that_cannot_be_read() -> None:
    history = sound()
    del history.final[P]
    assert names(history) == {"unseen"}


def test_two_values_at_one_offset() -> None:
    history = sound()
    add(history, Kind.SENT, "x")
    add(history, Kind.SOUGHT, offset=1, client="c2")
    add(history, Kind.READ, "x", 1, "c2")
    assert "inconsistent-offsets" in names(history)


def test_an_acknowledgement_for_the_offset_of_another() -> None:
    history = sound()
    add(history, Kind.SENT, "d", client="p2")
    add(history, Kind.ACKED, "d", 1, "p2")
    assert names(history) == {"inconsistent-offsets", "lost-write"}


def test_a_duplicate() -> None:
    history = sound()
    history.final[P].append((4, "b"))
    assert names(history) == {"duplicate", "reordered"}


def test_a_duplicate_of_what_retention_took_is_none() -> None:
    """Nobody has to remember what was deleted."""
    history = sound()
    stored(history)
    add(history, Kind.READ, value="a", offset=0, client="c1")
    add(history, Kind.READ, value="a", offset=3, client="c2")
    assert "duplicate" in names(history)
    history.starts[P] = 1
    assert "duplicate" in names(history)
    history.deletes_asked.append(DeleteAsked(5.0, "orders", 0, 1))
    assert "duplicate" not in names(history)


def refused_by(broker_id: int, asked_s: float, *leaderships: tuple[float, str]) -> History:
    """A producer was refused by a broker; who led since when."""
    history = sound()
    refused = SequenceRefused(9.0, asked_s, "p1", P, "d", broker_id, "out_of_order")
    history.sequences_refused.append(refused)
    for epoch, (at_s, leader) in enumerate(leaderships):
        before = Leadership("", epoch, epoch, ("1@1", "2@1"), replicas=(1, 2))
        after = before._replace(leader=leader, leader_epoch=epoch + 1, partition_epoch=epoch + 1)
        history.decisions.append(Decision(at_s, P, before, after))
    return history


def test_a_leader_that_says_a_sequence_was_skipped() -> None:
    assert names(refused_by(1, 8.0)) == {"client-problem"}
    assert names(refused_by(1, 8.0, (5.0, "2@1"), (6.0, "1@1"))) == {"client-problem"}


def test_a_broker_that_was_replaced_does_not_know_what_was_acknowledged_since() -> None:
    assert names(refused_by(2, 8.0, (5.0, "2@1"), (6.0, "1@1"))) == set()
    assert names(refused_by(2, 5.5, (5.0, "2@1"), (6.0, "1@1"))) == {"client-problem"}


def test_a_broker_that_nobody_has_replaced_yet_knows_it() -> None:
    assert names(refused_by(2, 8.0, (5.0, "2@1"), (6.0, ""))) == {"client-problem"}


def test_duplicates_without_idempotence_are_allowed() -> None:
    history = sound()
    history.was_idempotent = False
    history.final[P].append((4, "unknown but stored"))
    assert "duplicate" not in names(history)


def test_a_later_send_that_lies_earlier() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", 1)
    assert "nonmonotonic-send" in names(history)


def test_a_batch_may_be_answered_after_later_ones() -> None:
    """As it was when a Java client sent one again whose answer a paused leader owed."""
    history = sound()
    for value in ("d", "e"):
        add(history, Kind.SENT, value)
    for value, offset in (("e", 5), ("d", 4)):
        add(history, Kind.ACKED, value, offset)
    history.final[P] += [(4, "d"), (5, "e")]
    assert names(history) == set()


def test_other_producers_may_lie_between() -> None:
    history = sound()
    add(history, Kind.SENT, "d", client="p2")
    add(history, Kind.ACKED, "d", 4, "p2")
    history.final[P].append((4, "d"))
    assert names(history) == set()


def test_a_log_out_of_order() -> None:
    history = sound()
    history.final[P] = [(0, "b"), (1, "a"), (2, "c"), (3, "unknown but stored")]
    assert "reordered" in names(history)


def test_a_refused_record_that_is_read() -> None:
    history = sound()
    add(history, Kind.SENT, "d")
    add(history, Kind.FAILED, "d")
    assert names(history) == set()
    history.final[P].append((4, "d"))
    assert names(history) == {"G1a"}


def test_a_value_that_nobody_sent() -> None:
    history = sound()
    history.final[P].append((4, "?"))
    assert names(history) == {"never-sent"}


def test_a_value_sent_to_another_partition() -> None:
    history = sound()
    history.final["orders-1/aa"] = [(0, "a")]
    assert names(history) == {"never-sent"}


def test_a_record_that_was_shown_and_is_gone() -> None:
    history = sound()
    history.final[P].pop()
    assert names(history) == {"dirty-read"}


@pytest.mark.parametrize(
    ("offset", "value", "name"),
    [(2, "c", "nonmonotonic-poll"), (5, "y", "poll-skip")],
)
def test_a_reader_that_is_led_astray(offset: int, value: str, name: str) -> None:
    history = sound()
    for new, at in (("x", 4), ("y", 5)):
        add(history, Kind.SENT, new)
        history.final[P].append((at, new))
    add(history, Kind.READ, value, offset, "c1")
    assert names(history) == {name}


def test_a_reader_passes_over_markers_and_no_record() -> None:
    history = sound()
    add(history, Kind.SENT, "y")
    add(history, Kind.READ, "y", 5, "c1")
    history.final[P].append((5, "y"))
    assert names(history) == {"poll-skip"}
    history.with_markers = frozenset({P})
    assert names(history) == set(), "at offset 4 there may be a marker"
    add(history, Kind.SENT, "x", client="p2")
    history.final[P].insert(4, (4, "x"))
    assert names(history) == {"poll-skip"}


def test_a_reader_may_go_where_it_wants() -> None:
    history = sound()
    add(history, Kind.SOUGHT, offset=1, client="c1")
    add(history, Kind.READ, "b", 1, "c1")
    assert names(history) == set()


# -- what only some may lose


def test_a_record_acknowledged_with_acks_1_may_be_lost() -> None:
    """Its answers are never noted, so its records are as those of which nothing is known."""
    history = sound()
    add(history, Kind.SENT, "from acks=1", client="p2")
    assert names(history) == set()


def stored(history: History, *, newest_ms: int = 1_000, size_bytes: int = 100) -> None:
    """Each record in a batch of its own."""
    for offset in range(4):
        at = Append(float(offset), "broker-1#1", P, 5, offset, offset, offset)
        history.appends.append(at._replace(size_bytes=size_bytes, newest_ms=newest_ms + offset))


def in_force(history: History, newest_ms: int = 0, to_s: float = 9.0, **policy: Any) -> None:
    """A broker obeyed this, because a user had asked for it."""
    obeyed = Policy()._replace(**policy)
    history.in_force.append(
        InForce(partition=P, policy=obeyed, from_s=0.0, to_s=to_s, newest_ms=newest_ms)
    )
    asked = history.asked_policies.setdefault("orders", set())
    asked |= {(name.replace("_", "."), str(value)) for name, value in policy.items()}


def begins_at(offset: int) -> History:
    """What was below is gone."""
    history = sound()
    stored(history)
    history.final[P] = history.final[P][offset:]
    history.starts[P] = offset
    return history


def test_records_below_the_log_start_are_lost_where_no_rule_let_them_go() -> None:
    """100 records were, once, and nobody saw an anomaly."""
    assert names(begins_at(2)) == {"lost-write", "dirty-read"}


def test_what_was_too_old_is_not_lost() -> None:
    """Of the second batch the newest record is of 1,001 ms, and clocks are believed by 2 s."""
    history = begins_at(2)
    in_force(history, newest_ms=5_001, retention_ms=6_000)
    assert names(history) == {"lost-write", "dirty-read"}
    history.in_force.clear()
    in_force(history, newest_ms=5_002, retention_ms=6_000)
    assert names(history) == set()


def test_what_was_too_old_only_before_it_was_written_is_lost() -> None:
    history = begins_at(2)
    in_force(history, newest_ms=9_000, to_s=0.49, retention_ms=6_000)
    assert names(history) == {"lost-write", "dirty-read"}
    history.in_force.clear()
    in_force(history, newest_ms=9_000, to_s=0.5, retention_ms=6_000)
    assert names(history) == set(), "the policy may have ended after the second batch, at 1.0"


def test_what_was_cut_off_does_not_hide_the_batch_of_a_record() -> None:
    """A leader that fell had written another one that began in the midst of it."""
    history = begins_at(3)
    history.appends = [
        Append(0.0, "broker-2#1", P, 4, 1, 98, last_offset=1, size_bytes=100, newest_ms=1_000),
        Append(1.0, "broker-1#1", P, 5, 0, 99, last_offset=2, size_bytes=100, newest_ms=1_000),
    ]
    in_force(history, newest_ms=5_001, retention_ms=6_000)
    assert names(history) == set()


def test_a_limit_that_no_user_asked_for_explains_nothing() -> None:
    history = begins_at(2)
    in_force(history, newest_ms=9_000, retention_ms=6_000)
    history.asked_policies.clear()
    assert names(history) == {"lost-write", "dirty-read"}


@pytest.mark.parametrize(("limit", "is_lost"), [(200, False), (201, True), (-1, True)])
def test_what_was_too_much_is_not_lost(limit: int, *, is_lost: bool) -> None:
    history = begins_at(2)
    in_force(history, retention_bytes=limit)
    assert ("lost-write" in names(history)) is is_lost


def test_a_topic_that_only_compacts_lets_no_beginning_go() -> None:
    history = begins_at(2)
    in_force(history, newest_ms=99_000, deletes=False, retention_ms=1, retention_bytes=1)
    assert names(history) == {"lost-write", "dirty-read"}


@pytest.mark.parametrize(
    ("asked", "is_lost"),
    [
        (DeleteAsked(5.0, "orders", 0, 2), False),
        (DeleteAsked(5.0, "orders", 0, 1), True),
        (DeleteAsked(5.0, "orders", 1, 2), True),
        (DeleteAsked(5.0, "clicks", 0, 2), True),
        (DeleteAsked(5.0, "orders", 0, 1_000), True),
        (DeleteAsked(0.5, "orders", 0, 2), True),
    ],
)
def test_what_a_user_deleted_is_not_lost(asked: DeleteAsked, *, is_lost: bool) -> None:
    """By this very request: one beyond the log's end is refused, one before the topic was of
    another."""
    history = begins_at(2)
    history.made[P] = 1.0
    history.deletes_asked.append(asked)
    assert ("lost-write" in names(history)) is is_lost


def test_a_duplicate_without_an_offset_was_deleted_where_it_was_read() -> None:
    history = begins_at(2)
    history.deletes_asked.append(DeleteAsked(5.0, "orders", 0, 2))
    add(history, Kind.ACKED, "b", -1)
    assert names(history) == set()
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", -1)
    assert names(history) == {"lost-write"}


# -- where logs begin


def test_an_in_sync_replica_that_begins_too_late() -> None:
    history = replicated(replica(2, *WHOLE[1:]))
    assert names(history) == {"log-start-unexplained"}
    stored(history)
    in_force(history, newest_ms=9_000, retention_ms=6_000)
    assert names(history) == set()


@pytest.mark.parametrize(
    ("is_in_sync", "found"), [(True, {"log-start-back"}), (False, set())], ids=str
)
def test_a_log_that_begins_earlier_than_it_did(found: set[str], *, is_in_sync: bool) -> None:
    """A copy that is fetched again may; one that is in sync may not."""
    history = sound()
    history.log_starts += [
        LogStart(1.0, 1, P, 5, is_in_sync=True),
        LogStart(1.0, 2, P, 3, is_in_sync=True),
        LogStart(2.0, 1, P, 4, is_in_sync),
    ]
    assert names(history) == found


# -- what is durable


def test_a_member_without_all_that_is_committed() -> None:
    history = sound()
    history.vouched.append(Vouched(1.0, P, "1@2", durable_end=4, committed_end=4))
    assert names(history) == set()
    history.vouched.append(Vouched(1.0, P, "2@2", durable_end=3, committed_end=4))
    assert names(history) == {"not-durable"}


def test_what_users_deleted_is_not_lost() -> None:
    history = sound()
    del history.final[P]
    history.deleted[P] = 3.0
    assert names(history) == set()


def test_sends_are_compared_with_the_furthest_one() -> None:
    """An acknowledgement without an offset between the two hides nothing."""
    history = sound()
    for value, offset in (("d", -1), ("e", 1)):
        add(history, Kind.SENT, value)
        add(history, Kind.ACKED, value, offset)
    assert "nonmonotonic-send" in names(history)


# -- topics created again

NEW = "orders-0/bb"


def recreated() -> History:
    """The topic is deleted and made again; a send that was under way lands in the new one."""
    history = sound()
    del history.final[P]
    add(history, Kind.SENT, "under way")
    history.deleted[P] = history.made[NEW] = float(len(history.events))
    history.final[NEW] = [(0, "under way")]
    return history


def test_a_send_under_way_may_land_in_the_new_topic() -> None:
    assert check(recreated()) == []


def test_an_old_record_in_the_new_topic() -> None:
    history = recreated()
    history.final[NEW].append((1, "b"))
    assert names(history) == {"old-in-new"}


def test_an_unacknowledged_old_record_that_was_read_before() -> None:
    history = recreated()
    history.final[NEW].append((1, "unknown but stored"))
    assert names(history) == {"old-in-new"}


def test_a_record_of_another_number_is_no_old_one() -> None:
    history = recreated()
    history.final["orders-1/bb"] = [(0, "under way")]
    assert "never-sent" in names(history)


# -- readers


def test_a_position_out_of_range() -> None:
    history = sound()
    add(history, Kind.OUT_OF_RANGE, offset=4, client="c1")
    assert names(history) == {"out-of-range"}


def test_a_deleted_position_may_be_out_of_range() -> None:
    history = begins_at(1)
    add(history, Kind.OUT_OF_RANGE, offset=0, client="c1")
    assert "out-of-range" in names(history)
    history.deletes_asked.append(DeleteAsked(5.0, "orders", 0, 1))
    assert names(history) == set()


@pytest.mark.parametrize(
    ("compacts", "found"), [(True, set()), (False, {"lost-write", "out-of-range"})]
)
def test_a_position_whose_record_compaction_took_before_retention(
    found: set[str], *, compacts: bool
) -> None:
    """The segment is as old as what is left in it: the batch behind is of long ago."""
    history = compacted(0, 1, compacts=compacts, deletes=True, retention_ms=8_000)
    history.asked_policies["orders"] = {("retention.ms", "8000")}
    history.appends[0] = history.appends[0]._replace(newest_ms=9_000)
    history.starts[P] = 2
    add(history, Kind.OUT_OF_RANGE, offset=0, client="c1")
    assert names(history) == found


def test_a_deleted_position_where_nobody_knows_the_start() -> None:
    history = begins_at(1)
    for known in (history.starts, history.final, history.ends):
        known.pop(P, None)
    add(history, Kind.OUT_OF_RANGE, offset=0, client="c1")
    assert names(history) == {"unseen", "out-of-range"}
    history.deletes_asked.append(DeleteAsked(5.0, "orders", 0, 1))
    assert names(history) == {"unseen"}


def test_the_end_goes_back() -> None:
    history = sound()
    add(history, Kind.END, offset=4, client="c1")
    assert names(history) == set()
    add(history, Kind.END, offset=3, client="c1")
    assert names(history) == {"end-regression"}


def test_the_end_lies_below_what_was_read() -> None:
    history = sound()
    add(history, Kind.END, offset=2, client="c1")
    assert names(history) == {"end-regression"}


def test_two_readers_may_see_different_ends() -> None:
    history = sound()
    add(history, Kind.END, offset=4, client="c1")
    add(history, Kind.END, offset=2, client="c2")
    assert names(history) == set()


# -- what brokers wrote


def append(history: History, process: str, epoch: int, offset: int, digest: int) -> None:
    history.appends.append(Append(0.0, process, P, epoch, offset, digest))


def test_one_leader_an_epoch() -> None:
    history = sound()
    for process in ("broker-1#1", "broker-2#1"):
        append(history, process, 5, 0, 10)
        append(history, process, 5, 1, 11)
    append(history, "broker-2#1", 6, 2, 12)
    append(history, "broker-3#1", 6, 2, 12)
    append(history, "broker-1#2", 7, 3, 13)
    assert names(history) == set()


def test_two_leaders_in_one_epoch() -> None:
    history = sound()
    append(history, "broker-1#1", 5, 0, 10)
    append(history, "broker-2#1", 5, 0, 10)
    append(history, "broker-2#1", 5, 1, 11)
    assert names(history) == {"epoch-fork"}


def test_a_leader_that_goes_on_in_its_epoch_after_a_restart() -> None:
    history = sound()
    append(history, "broker-1#1", 5, 0, 10)
    append(history, "broker-1#2", 5, 1, 11)
    assert names(history) == {"epoch-fork"}


def test_another_partition_has_its_own_epochs() -> None:
    history = sound()
    append(history, "broker-1#1", 5, 0, 10)
    history.appends.append(Append(0.0, "broker-2#1", NEW, 5, 0, 11))
    assert names(history) == set()


# -- what is on the disks


def batch(offset: int, *values: str, epoch: int = 5) -> Batch:
    placed = tuple(enumerate(values, offset))
    return Batch(offset, offset + len(values) - 1, epoch, repr((epoch, placed)).encode(), placed)


WHOLE = (batch(0, "a", "b"), batch(2, "c"), batch(3, "unknown but stored"))


def replica(broker_id: int, *batches: Batch, is_in_sync: bool = True) -> Replica:
    return Replica(
        broker_id=broker_id,
        partition=P,
        is_in_sync=is_in_sync,
        log_start_offset=batches[0].base_offset if batches else 0,
        batches=batches,
    )


def replicated(*others: Replica) -> History:
    history = sound()
    history.ends[P] = 4
    history.replicas = [replica(1, *WHOLE), *others]
    return history


def test_equal_replicas() -> None:
    assert check(replicated(replica(2, *WHOLE), replica(3, *WHOLE))) == []


def test_a_replica_may_hold_more_than_readers_see() -> None:
    assert check(replicated(replica(2, *WHOLE, batch(4, "d")))) == []


def test_other_bytes_in_an_in_sync_replica() -> None:
    """The same records in another epoch are other bytes."""
    history = replicated(replica(2, *WHOLE[:2], batch(3, "unknown but stored", epoch=6)))
    assert names(history) == {"replica-divergence"}


def test_another_value_in_an_in_sync_replica() -> None:
    history = replicated(replica(2, *WHOLE[:2], batch(3, "x", epoch=6)))
    assert names(history) == {"replica-divergence", "inconsistent-offsets"}


def test_what_rots_below_the_log_start_is_read_by_nobody() -> None:
    rotten = batch(0, "a", "b", epoch=2**28)
    history = replicated(replica(2, rotten, *WHOLE[1:]))
    assert names(history) == {"replica-divergence"}
    history.log_starts.append(LogStart(0.0, 1, P, 2, is_in_sync=True))
    assert check(history) == []
    history.log_starts.append(LogStart(1.0, 2, P, 1, is_in_sync=True))
    assert check(history) == []


def test_an_in_sync_replica_that_lacks_records() -> None:
    assert names(replicated(replica(2, *WHOLE[:2]))) == {"replica-divergence"}


def test_a_hole_in_an_in_sync_replica() -> None:
    assert names(replicated(replica(2, WHOLE[0], WHOLE[2]))) == {"replica-divergence"}


def test_an_old_replica_may_differ_but_not_within_an_epoch() -> None:
    old = replica(2, *WHOLE[:2], batch(3, "of an older leader epoch", epoch=4), is_in_sync=False)
    assert check(replicated(old)) == []
    forked = replica(2, *WHOLE[:2], batch(3, "x"), is_in_sync=False)
    assert names(replicated(forked)) == {"epoch-fork"}
    damaged = replace(forked, is_damaged=True)
    assert names(replicated(damaged)) == set(), "what its broker does not serve proves nothing"


# -- work is done


def well(history: History, seconds: float, partition: str = P) -> None:
    from_s = float(len(history.events))
    history.well.append(Span(from_s, from_s + seconds, frozenset({partition})))


def test_no_progress() -> None:
    history = sound()
    well(history, 9.0)
    assert names(history) == set()
    well(history, 10.0)
    assert names(history) == {"no-progress"}


def test_a_connection_that_hangs_is_given_up_before_progress_can_be_expected() -> None:
    history = sound()
    well(history, 12.0)
    add(history, Kind.SENT, "d")
    given_up_s = history.well[0].from_s + 6.0
    history.gave_up_hanging.append(("another", given_up_s))
    assert names(history) == {"no-progress"}
    history.gave_up_hanging.append((history.events[-1].client, given_up_s))
    assert names(history) == set()


def test_a_connection_that_hangs_excuses_nobody_who_has_nothing_to_send() -> None:
    history = sound()
    add(history, Kind.SENT, "d", client="p2")
    add(history, Kind.ACKED, "d", 4, "p2")
    history.final[P].append((4, "d"))
    well(history, 12.0)
    history.gave_up_hanging.append(("p2", history.well[0].from_s + 6.0))
    assert names(history) == {"no-progress"}


def test_no_progress_in_one_of_two_partitions() -> None:
    history = sound()
    well(history, 12.0, "orders-1/aa")
    add(history, Kind.SENT, "d")
    history.events.append(Event(history.well[0].from_s + 6.0, Kind.ACKED, "p1", P, "d", 4))
    history.final[P].append((4, "d"))
    assert [one.partition for one in check(history)] == ["orders-1/aa"]


def test_progress() -> None:
    history = sound()
    well(history, 12.0)
    add(history, Kind.SENT, "d")
    history.events.append(Event(history.well[0].from_s + 6.0, Kind.ACKED, "p1", P, "d", 4))
    history.final[P].append((4, "d"))
    assert names(history) == set()


def test_a_stuck_reader() -> None:
    history = sound()
    history.ends[P] = 4
    well(history, 5.0)
    assert names(history) == set()
    add(history, Kind.SENT, "d")
    history.final[P].append((4, "d"))
    history.ends[P] = 5
    assert names(history) == {"stuck-reader"}
    history.events.append(Event(history.well[0].to_s + 1.0, Kind.SOUGHT, "c1", P, "", 1))
    assert names(history) == set()


def decided(**after: Any) -> History:
    """A sound history, and one decision about two in-sync replicas of three."""
    history = sound()
    before = Leadership(
        leader="1@1",
        leader_epoch=4,
        partition_epoch=7,
        isr=("1@1", "2@1"),
        min_isr=2,
        replicas=(1, 2, 3),
    )
    history.decisions.append(Decision(1.0, P, before, before._replace(partition_epoch=8, **after)))
    return history


def test_decisions_that_keep_the_rules() -> None:
    assert names(decided(isr=("1@2", "2@1"), leader="1@2", leader_epoch=5)) == set()
    assert names(decided(leader="", leader_epoch=5)) == set()
    assert names(decided(isr=("1@1", "2@1", "3@1"))) == set()


def test_fewer_in_sync_replicas_than_the_floor() -> None:
    assert names(decided(isr=("1@1",))) == {"isr-below-floor"}


def test_what_replicas_report_is_adopted_as_it_is() -> None:
    history = decided(isr=("1@1",))
    (one,) = history.decisions
    history.decisions[:] = [one._replace(before=one.before._replace(is_asking=True))]
    assert names(history) == set()


@pytest.mark.parametrize(
    "after",
    [
        {"leader_epoch": 3},
        {"partition_epoch": 6},
        {"leader": "1@2", "isr": ("1@2", "2@1")},
        {"leader": "2@1"},
    ],
)
def test_epochs_that_go_back_or_are_shared(after: dict[str, Any]) -> None:
    history = decided()
    (one,) = history.decisions
    history.decisions[:] = [one._replace(after=one.after._replace(**after))]
    assert names(history) == {"epoch-back"}


# -- compaction


def compacted(*gone: int, delete_retention_ms: int = 20_000, **policy: Any) -> History:
    """Two values of one key, its tombstone, and a record with another key."""
    history = History()
    history.keys = {"a": "k", "b": "k", "-k": "k", "c": "other"}
    history.tombstones = {"-k"}
    values = ("a", "b", "-k", "c")
    for offset, value in enumerate(values):
        add(history, Kind.SENT, value)
        add(history, Kind.ACKED, value, offset)
    stored(history)
    obeyed = Policy(deletes=False, compacts=True, delete_retention_ms=delete_retention_ms)
    obeyed = obeyed._replace(**policy)
    history.in_force.append(
        InForce(partition=P, policy=obeyed, from_s=0.0, to_s=60.0, newest_ms=10_000)
    )
    kept = [offset for offset in range(4) if offset not in gone]
    history.final[P] = [(offset, values[offset]) for offset in kept]
    history.ends[P] = 4
    return history


def test_a_value_goes_where_its_key_stands_again() -> None:
    assert names(compacted(0, 1)) == set()


def test_nothing_goes_by_compaction_where_nobody_asked_for_it() -> None:
    history = compacted(0)
    history.in_force.clear()
    assert names(history) == {"lost-write"}


def test_the_last_record_of_a_key_stays() -> None:
    assert names(compacted(3)) == {"lost-write"}


def test_a_tombstone_goes_after_its_time() -> None:
    """It was written at 2 s, clocks say 10 s at most and are believed by 2 s."""
    assert names(compacted(0, 1, 2, delete_retention_ms=10_001)) == {"lost-write"}
    assert names(compacted(0, 1, 2, delete_retention_ms=10_000)) == set()


def test_a_tombstone_is_as_old_where_its_batch_is_copied_later() -> None:
    """By a replica that fetches what compaction left of the batch: other bytes, the same epoch."""
    history = compacted(0, 1, 2, delete_retention_ms=10_000)
    history.appends.append(Append(59.0, "broker-2#1", P, 5, 2, 99, 2, 50, 1_002))
    assert names(history) == set()


def test_a_tombstone_does_not_go_before_what_it_deletes() -> None:
    assert names(compacted(0, 2, delete_retention_ms=10_000)) == {"deleted-key-back"}


def test_a_clock_that_was_behind_may_have_begun_to_wait_earlier() -> None:
    history = compacted(0, 1, 2, delete_retention_ms=10_001)
    history.clock_lag_ms = 1
    assert names(history) == set()


def read_by_one(history: History, *offsets: int) -> None:
    """From the beginning, each record half a second after the one before."""
    begin_s = float(len(history.events))
    history.events.append(Event(begin_s, Kind.SOUGHT, "c1", P, "", 0))
    for number, offset in enumerate(offsets):
        value = ("a", "b", "-k", "c")[offset]
        at_s = begin_s + number / 2
        history.events.append(Event(at_s, Kind.READ, "c1", P, value, offset))


def test_a_reader_skips_what_compaction_deleted() -> None:
    history = compacted(0)
    read_by_one(history, 1, 2, 3)
    assert names(history) == set()


def test_a_reader_skips_nothing_else() -> None:
    history = compacted(0, 1, 2, delete_retention_ms=10_001)
    read_by_one(history, 3)
    assert names(history) == {"lost-write", "poll-skip"}


def test_a_quick_reader_sees_the_end_of_each_key_that_it_saw() -> None:
    """A record after the tombstone, none of the key since: it believes that the key is there."""
    history = compacted(0, 1, 2, delete_retention_ms=10_000)
    read_by_one(history, 1, 3)
    assert names(history) == {"deleted-key-back"}


def test_a_slow_reader_may_miss_a_tombstone() -> None:
    history = compacted(0, 1, 2, delete_retention_ms=300)
    read_by_one(history, 1, 3)
    assert names(history) == set()


@pytest.mark.parametrize(("after_s", "found"), [(0.5, set()), (0.6, {"deleted-key-back"})])
def test_a_tombstone_goes_where_its_key_stands_again(after_s: float, found: set[str]) -> None:
    """Also for a reader that has not come so far, if it stood there when that one read."""
    history = compacted(0, 1, 2, delete_retention_ms=10_000)
    history.keys["d"] = "k"
    add(history, Kind.SENT, "d")
    add(history, Kind.ACKED, "d", 4)
    history.final[P].append((4, "d"))
    history.ends[P] = 5
    begin_s = len(history.events)
    read_by_one(history, 1, 3)
    history.appends.append(Append(begin_s + after_s, "broker-1#1", P, 5, 4, 4, 4, 100))
    assert names(history) == found


@pytest.mark.parametrize(
    ("at_s", "skipped", "found"),
    [
        (9.9, {2}, {"deleted-key-back"}),
        (10.0, {1}, {"deleted-key-back"}),
        (10.0, {1, 2}, set()),
    ],
)
def test_a_replica_that_copied_on_when_the_tombstone_might_be_gone_has_the_value(
    at_s: float, skipped: set[int], found: set[str]
) -> None:
    """It was away for longer than tombstones stay, or its volume was replaced by an old snapshot:
    it held what is below the tombstone, and copied on behind it."""
    history = compacted(0, 2, delete_retention_ms=8_000)
    history.appends.append(
        Append(at_s, "broker-2#2", P, 5, 3, 3, 3, 100, skipped=frozenset(skipped))
    )
    assert names(history) == found


def test_a_replica_that_copied_the_tombstone_late_knows_that_the_key_is_deleted() -> None:
    """What compaction left of its batch has other bytes, and the tombstone."""
    history = compacted(0, 2, delete_retention_ms=8_000)
    history.appends.append(Append(20.0, "broker-2#2", P, 5, 2, 99, 2, 100))
    assert names(history) == {"deleted-key-back"}


def test_a_reader_that_seeks_starts_again() -> None:
    history = compacted(0, 1, 2, delete_retention_ms=10_000)
    read_by_one(history, 1)
    history.events.append(Event(99.0, Kind.SOUGHT, "c1", P, "", 3))
    read_by_one(history, 3)
    assert names(history) == set()
