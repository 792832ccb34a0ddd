"""What is decided of a partition whose replicas were asked: each clause, from what is known."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, PartitionIndex
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.reassignment import Leftover, leftovers_on
from chiplog_core.observed.broker_states import BrokerState, BrokerStates, ProcessState
from chiplog_core.observed.world import Question
from chiplog_core.planner.leadership.comparison import WAIT_MS
from chiplog_core.planner.leadership.epochs import LEAP
from chiplog_core.planner.leadership.proposals import Claim
from chiplog_core.planner.leadership.regression import (
    NOTHING_ACCEPTED,
    Accepted,
    Answers,
    Loss,
    acceptance,
    accepted_losses,
    adopt,
    is_map_outdated,
    settle_all,
    why_at_risk,
)
from tests.planner.leadership.test_elections import (
    TOPIC,
    broker_state,
    broker_states,
    partition_map,
    shown,
    state,
)
from tests.planner.leadership.test_proposals import claim
from tests.planner.objects import ref

GONE = ProcessState.GONE
NOBODY_VOUCHES = "no in-sync replica can prove that its disk lost nothing"
ZERO = PartitionIndex(0)
THREE = (BrokerId(1), BrokerId(2), BrokerId(3))


def report(
    isr: str = "1@1 2@1 3@1",
    *,
    leader_epoch: int = 5,
    epoch: int = 9,
    log: tuple[int | None, int] = (5, 8),
    unclean: int | None = None,
    cut: bool = False,
) -> ReplicaReport:
    """Of a broker that has applied the map as it is, unless said otherwise."""
    log_epoch, end = log
    return ReplicaReport(
        topic_id=TOPIC,
        partition=ZERO,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(epoch),
        isr=tuple(map(ref, isr.split())),
        unclean_epoch=None if unclean is None else LeaderEpoch(unclean),
        log_leader_epoch=None if log_epoch is None else LeaderEpoch(log_epoch),
        log_end_offset=Offset(end),
        cut=cut,
    )


def asked(isr: str = "1@1 2@1 3@1", leader: str | None = None) -> PartitionState:
    return replace(state(isr, leader), reports_wanted=True)


def again(broker_id: int, *, suspect: bool = False) -> BrokerState:
    """Its second process."""
    return broker_state(f"{broker_id}@2", intact_since=2 if suspect else 1)


def settled(
    before: PartitionState,
    known: BrokerStates,
    reports: dict[int, ReplicaReport],
    *,
    claims: Iterable[Claim] = (),
    open_ms: int = 0,
    accepted: Accepted = NOTHING_ACCEPTED,
    page_cache: bool = False,
) -> tuple[PartitionState, tuple[Loss, ...]]:
    spec = partition_map(before)
    if page_cache:
        spec = replace(spec, durability=Durability.PAGE_CACHE)
    said = {BrokerId(one): report for one, report in reports.items()}
    answers = Answers(
        reports={(TOPIC, ZERO): said} if said else {},
        proposals={TOPIC: {ZERO: list(claims)}} if claims else {},
        open_questions_ms={Question(TOPIC, ZERO, before.partition_epoch): open_ms},
    )
    after, losses = settle_all(spec, known, answers, accepted)
    return after.generations[0].partitions[0], losses


ALL_ALIVE = broker_states(*(broker_state(f"{one}@1") for one in (1, 2, 3)))
ALL_AGAIN = broker_states(*map(again, (1, 2, 3)))


# -- when replicas are asked


@pytest.mark.parametrize(
    ("known", "claims", "expected"),
    [
        pytest.param([report()], [], False, id="the map is what they applied"),
        pytest.param([report(leader_epoch=6, epoch=8)], [], True, id="of a later leader epoch"),
        pytest.param([report(leader_epoch=4, epoch=10)], [], True, id="of a later partition epoch"),
        pytest.param([], [claim("1@1 2@1")], False, id="a proposal that is due"),
        pytest.param([], [claim("1@1 2@1", base=10)], True, id="one that builds on what is later"),
    ],
)
def test_a_map_that_is_older_than_what_brokers_applied(
    known: list[ReplicaReport], claims: list[Claim], expected: bool
) -> None:
    before = state("1@1 2@1 3@1", "1@1")

    assert is_map_outdated(before, known, claims) is expected
    after, _ = settled(before, ALL_ALIVE, dict(enumerate(known, 1)), claims=claims)
    assert after == replace(before, reports_wanted=expected)


CONSENT = accepted_losses("0@9/3")


@pytest.mark.parametrize(
    ("known", "accepted", "expected"),
    [
        pytest.param(ALL_ALIVE, CONSENT, False, id="consent to what is not at risk"),
        pytest.param(
            replace(ALL_ALIVE, unchecked=frozenset(map(BrokerId, (2, 3)))),
            NOTHING_ACCEPTED,
            False,
            id="those who have not spoken could be an ISR, and nobody consents",
        ),
        pytest.param(
            replace(ALL_ALIVE, unchecked=frozenset(map(BrokerId, (2, 3)))),
            CONSENT,
            True,
            id="and somebody does",
        ),
    ],
)
def test_consent_is_taken_where_nothing_else_helps(
    known: BrokerStates, accepted: Accepted, expected: bool
) -> None:
    before = state("1@1 2@1 3@1", "1@1")

    after, _ = settled(before, known, {}, accepted=accepted)

    assert after == replace(before, reports_wanted=expected)


def test_nothing_is_asked_or_answered_in_hibernation() -> None:
    spec = replace(partition_map(asked()), hibernated=True)
    reports = {BrokerId(one): report() for one in (1, 2, 3)}

    after, losses = settle_all(
        spec, ALL_AGAIN, Answers(reports={(TOPIC, ZERO): reports}), NOTHING_ACCEPTED
    )

    assert after is spec
    assert losses == ()


# -- the map went back


def test_all_replicas_are_waited_for_where_the_map_went_back() -> None:
    """Two would be enough for a comparison."""
    newer = report("2@1 3@1", leader_epoch=7, epoch=12)
    reports = {1: newer, 2: newer}

    for leader in (None, "1@1"):
        before = asked(leader=leader)
        assert settled(before, ALL_ALIVE, reports)[0] is before
        after, _ = settled(before, ALL_ALIVE, {**reports, 3: newer})
        assert shown(after) == ("2@1", "2@1 3@1", 8, 13)
        assert not after.reports_wanted


def test_a_leader_that_the_map_names_was_asked_for_the_metadata() -> None:
    """Though nobody says more than the map: all have to."""
    before = asked(leader="1@1")
    reports = {1: report(), 2: report()}

    assert settled(before, ALL_ALIVE, reports)[0] is before
    assert shown(settled(before, ALL_ALIVE, {**reports, 3: report()})[0])[0] == "1@1"


def test_what_the_dead_knew_of_the_metadata_counts_and_the_retired_are_not_waited_for() -> None:
    newer = report("2@1 3@1", leader_epoch=7, epoch=12)
    retired = replace(broker_state("3@1", GONE), is_retired=True)
    known = broker_states(broker_state("1@1", GONE), broker_state("2@1"), retired)

    after, _ = settled(asked(leader="1@1"), known, {1: newer, 2: newer})

    assert shown(after) == ("2@1", "2@1 3@1", 8, 13)


def test_who_has_not_compared_its_disk_since_has_not_answered() -> None:
    """Its status may be as old as the map."""
    newer = report("1@1 2@1 3@1", leader_epoch=7, epoch=12)
    before = asked(leader="1@1")
    known = replace(ALL_ALIVE, unchecked=frozenset({BrokerId(3)}))

    assert settled(before, known, dict.fromkeys((1, 2, 3), newer))[0] is before


def test_a_broker_that_lost_its_disk_and_that_only_newer_metadata_names_is_not_waited_for() -> None:
    """It was in the ISR. What it says after a comparison of its new disk is nothing, for ever."""
    newer = replace(
        report("2@1 3@1 4@1", leader_epoch=7, epoch=12), replicas=tuple(map(BrokerId, (2, 3, 4)))
    )
    brokers = broker_states(
        *(broker_state(f"{one}@1") for one in (1, 2, 3)), broker_state("4@2", storage_since=2)
    )
    all_but_fourth = dict.fromkeys((1, 2, 3), newer)
    before = asked(leader="1@1")

    assert settled(before, brokers, all_but_fourth)[0] is before, "it has not compared its disk"
    checked = replace(brokers, checked=frozenset(map(BrokerId, (1, 2, 3, 4))))
    after, losses = settled(before, checked, all_but_fourth)

    assert after.leader is not None
    assert after.leader.broker_id in {2, 3}
    assert (after.leader_epoch, after.partition_epoch) == (8, 13)
    assert losses == ()


MOVED_ON = replace(report("4@1", leader_epoch=7, epoch=12), replicas=(BrokerId(4),))
"""Broker 1 knows that its replica went to broker 4. The map does not."""
MOVED_AGAIN = replace(report("5@1", leader_epoch=9, epoch=20), replicas=(BrokerId(5),))
"""And broker 5 that it went there from broker 4, which then deleted its data."""


def moved_twice(checked: Iterable[int], fourth: BrokerState | None = None) -> BrokerStates:
    """Brokers 1, 4 and 5, of which these have compared their disks with the restored map."""
    fourth = fourth or broker_state("4@1")
    everybody = {BrokerId(one) for one in (1, 4, 5)}
    known = frozenset(map(BrokerId, checked))
    return replace(
        broker_states(broker_state("1@2"), fourth, broker_state("5@1")),
        checked=known,
        unchecked=frozenset(everybody - known),
        unchecked_alive=frozenset(everybody - known),
    )


@pytest.mark.parametrize(
    "checked",
    [
        pytest.param((1, 4), id="the broker that has the records is slower"),
        pytest.param((1, 4, 5), id="it has lost them"),
    ],
)
def test_a_broker_that_gave_its_replica_away_does_not_lead_by_an_old_report(
    checked: tuple[int, ...],
) -> None:
    """By the newest report it is in sync, it lives in that session, and it has nothing."""
    before = replace(asked("1@1", leader="1@1"), replicas=(BrokerId(1),))

    assert settled(before, moved_twice(checked), {1: MOVED_ON})[0] is before


@pytest.mark.parametrize("leftovers", [(), leftovers_on((BrokerId(4),))])
def test_a_broker_that_gave_its_replica_away_is_not_waited_for_once_that_is_reported(
    leftovers: tuple[Leftover, ...],
) -> None:
    before = replace(asked("1@1", leader="1@1"), replicas=(BrokerId(1),))
    newest = replace(MOVED_AGAIN, leftovers=leftovers)

    after, losses = settled(before, moved_twice((1, 4, 5)), {1: MOVED_ON, 5: newest})

    assert shown(after) == ("5@1", "5@1", 10, 21)
    assert losses == ()


@pytest.mark.parametrize(
    "newest",
    [
        pytest.param(replace(MOVED_AGAIN, replicas=()), id="it is by an older version"),
        pytest.param(
            replace(MOVED_AGAIN, replicas=(BrokerId(4), BrokerId(5))), id="it names the replica"
        ),
        pytest.param(
            replace(MOVED_AGAIN, leader_epoch=LeaderEpoch(6)), id="it is of an older epoch"
        ),
    ],
)
def test_a_report_that_does_not_show_that_a_replica_was_moved_away(newest: ReplicaReport) -> None:
    before = replace(asked("1@1", leader="1@1"), replicas=(BrokerId(1),))
    known = replace(moved_twice((1, 4)), unchecked=frozenset(), unchecked_alive=frozenset())
    dead = frozenset({BrokerId(6)})
    reports = {1: MOVED_ON, 5: newest}

    assert settled(before, replace(known, unchecked=dead), reports)[0] is before


@pytest.mark.parametrize("is_alive", [True, False])
def test_where_a_broker_has_nothing_more_to_say_all_others_are_waited_for(is_alive: bool) -> None:
    """Its replica may have been moved before its disk was lost, and anybody may have it now."""
    older = replace(MOVED_ON, isr=(ref("1@1"), ref("4@1")), replicas=(BrokerId(1), BrokerId(4)))
    before = replace(asked("1@1", leader="1@1"), replicas=(BrokerId(1),))
    lost = broker_state("4@2", storage_since=2)
    slow = moved_twice((1, 4), lost)
    if not is_alive:
        slow = replace(slow, unchecked_alive=frozenset())

    assert settled(before, slow, {1: older})[0] is before

    after, _ = settled(before, moved_twice((1, 4, 5), lost), {1: older})
    assert after is not before, "nobody knows more"


def test_a_broker_that_may_not_have_heard_of_its_replica_may_have_given_it_away() -> None:
    older = replace(MOVED_ON, isr=(ref("1@2"),), replicas=(BrokerId(1), BrokerId(4)))
    before = replace(asked("1@2", leader="1@2"), replicas=(BrokerId(1),))

    assert settled(before, moved_twice((1, 4)), {1: older})[0] is before

    after, _ = settled(before, moved_twice((1, 4, 5)), {1: older})
    assert shown(after)[:2] == ("1@2", "1@2")


def test_what_was_adopted_stays_adopted_where_nobody_can_lead() -> None:
    """The comparison goes on from there."""
    newer = report("1@1 2@1", leader_epoch=7, epoch=12)
    known = broker_states(*(broker_state(f"{one}@1", GONE) for one in (1, 2, 3)))

    after, losses = settled(asked(leader="1@1"), known, dict.fromkeys((1, 2, 3), newer))

    assert shown(after) == (None, "1@1 2@1", 8, 13)
    assert after.reports_wanted
    assert losses == ()


def test_what_was_adopted_has_new_epochs_also_while_one_is_awaited_that_a_person_waived() -> None:
    """It lives, so nobody is elected before it has compared its disk with the maps."""
    newer = report("1@1 2@1", leader_epoch=7, epoch=12)
    dead = (broker_state(f"{one}@1", GONE) for one in (1, 2))
    third = frozenset({BrokerId(3)})
    known = replace(
        broker_states(*dead, broker_state("3@1")), unchecked=third, unchecked_alive=third
    )

    after, _ = settled(asked(leader="1@1"), known, {1: newer, 2: newer}, accepted=waived(3))

    assert shown(after) == (None, "1@1 2@1", 7 + LEAP, 13)


def test_the_epochs_are_above_what_leaders_propose_by() -> None:
    """Their statuses are newer than their reports."""
    newer = report(leader_epoch=7, epoch=12)
    claims = [claim("1@1 2@1 3@1", epoch=20, base=30)]

    after, _ = settled(asked(), ALL_ALIVE, dict.fromkeys((1, 2, 3), newer), claims=claims)

    assert (after.leader_epoch, after.partition_epoch) == (21, 31)


@pytest.mark.parametrize(
    ("reports", "claims", "expected"),
    [
        pytest.param([report("2@1 3@1")], [], ("2@1 3@1", 5, 9), id="of equals a report wins"),
        pytest.param(
            [report("2@1", epoch=8)], [], ("1@1 2@1 3@1", 5, 9), id="an older one says nothing"
        ),
        pytest.param(
            [report("2@1", leader_epoch=6, epoch=8), report("3@1", epoch=11)],
            [],
            ("2@1", 6, 11),
            id="the leader epoch goes first, and no epoch is used again",
        ),
        pytest.param(
            [report(log=(12, 8)), report(log=(None, 0))],
            [],
            ("1@1 2@1 3@1", 12, 9),
            id="nor one that a log remembers",
        ),
        pytest.param(
            [], [claim("1@1", epoch=14, base=15)], ("1@1 2@1 3@1", 14, 15), id="nor a leader's"
        ),
    ],
)
def test_the_newest_metadata_is_adopted(
    reports: list[ReplicaReport], claims: list[Claim], expected: tuple[str, int, int]
) -> None:
    before = asked(leader="1@1")

    isr, leader_epoch, partition_epoch = expected
    assert adopt(before, reports, claims) == replace(
        before,
        isr=tuple(map(ref, isr.split())),
        leader=None,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        reports_wanted=False,
    )


def test_in_sync_brokers_that_the_map_does_not_name_are_adopted_as_replicas() -> None:
    after = adopt(asked(), [report("3@1 7@1", unclean=4), report(epoch=8, unclean=3)])

    assert after.replicas == (1, 2, 3, 7)
    assert after.unclean_epoch == 4


@pytest.mark.parametrize(
    ("older", "leftovers"),
    [
        pytest.param({"replicas": (1, 2, 3, 4)}, (4,), id="a replica"),
        pytest.param({"leftovers": leftovers_on((BrokerId(4),))}, (4,), id="a leftover"),
        pytest.param({}, (), id="it knows of no data here"),
    ],
)
def test_who_reports_data_that_the_newest_metadata_does_not_name_is_a_leftover(
    older: dict[str, Any], leftovers: tuple[int, ...]
) -> None:
    """It was down while an earlier restore was settled: nobody who reported then knew of it."""
    newest = replace(report(leader_epoch=7, epoch=12), replicas=THREE)
    its_own = replace(report(leader_epoch=6, epoch=11), **{"replicas": THREE, **older})

    after, _ = settled(
        asked(leader="1@1"),
        broker_states(*(broker_state(f"{one}@1") for one in (1, 2, 3, 4))),
        {**dict.fromkeys((1, 2, 3), newest), 4: its_own},
    )

    assert after.replicas == THREE
    assert after.leftovers == leftovers_on(tuple(map(BrokerId, leftovers)))


# -- one goes on after all


def test_a_process_that_was_there_all_along_leads_at_once() -> None:
    """Nobody has to report."""
    known = broker_states(
        broker_state("1@2", process_since=1), *(broker_state(f"{one}@1", GONE) for one in (2, 3))
    )
    spec = partition_map(asked())

    after, losses = settle_all(spec, known, Answers(reports={}), NOTHING_ACCEPTED)

    assert shown(after.generations[0].partitions[0]) == ("1@2", "1@2 2@1 3@1", 6, 10)
    assert losses == ()


def test_but_not_if_its_copy_is_damaged() -> None:
    known = broker_states(broker_state("1@2", process_since=1), again(2), again(3), damaged=1)

    after, _ = settled(asked(), known, {2: report(), 3: report(log=(5, 7))})

    assert shown(after) == ("2@2", "1@1 2@2 3@1", 6, 10)


# -- the comparison


def test_a_damaged_copy_is_not_compared() -> None:
    known = broker_states(*map(again, (1, 2, 3)), damaged=1)
    reports = {1: report(log=(5, 20)), 2: report(), 3: report(log=(5, 7))}

    after, _ = settled(asked(), known, reports)

    assert shown(after) == ("2@2", "1@1 2@2 3@1", 6, 10)


@pytest.mark.parametrize("damaged", [None, 3])
def test_after_a_minute_one_that_vouches_is_enough(damaged: int | None) -> None:
    known = broker_states(
        again(1), *(broker_state(f"{one}@1", GONE) for one in (2, 3)), damaged=damaged
    )
    before = asked()

    assert settled(before, known, {1: report()}, open_ms=WAIT_MS - 1)[0] is before
    after, losses = settled(before, known, {1: report()}, open_ms=WAIT_MS)
    assert shown(after) == ("1@2", "1@2 2@1 3@1", 6, 10), "nobody was waived, so the epoch is next"
    assert losses == ()


# -- losses


def waived(*brokers: int) -> Accepted:
    return accepted_losses(acceptance(asked(), map(BrokerId, brokers)))


def test_without_those_that_a_person_waived_the_epoch_is_far_above_all_that_they_may_know() -> None:
    known = broker_states(again(1), again(2), broker_state("3@1", GONE))

    reports = {1: report(cut=True), 2: report(log=(5, 9), cut=True)}
    after, (loss,) = settled(asked(), known, reports, accepted=waived(3))

    assert shown(after) == ("2@2", "2@2", 5 + LEAP, 10)
    assert after.unclean_epoch == 5 + LEAP
    assert (loss.partition, loss.winner, loss.report) == (0, 2, reports[2])
    after, _ = settled(asked(), known, {**reports, 3: report()}, accepted=waived(3))
    assert after.leader_epoch == 5 + LEAP, "its answer is of a process that has ended"


def test_where_all_answered_the_next_epoch_is_far_enough() -> None:
    moved = [replace(again(one), storage_since=again(one).ref.session) for one in (1, 2, 3)]  # type: ignore[union-attr]

    after, _ = settled(
        asked(), broker_states(*moved), dict.fromkeys((1, 2, 3), report()), accepted=waived()
    )

    assert shown(after) == ("1@2", "1@2", 6, 10), "of equal logs the first of the replicas"


def test_who_can_lead_by_consent_is_alive_undamaged_and_has_answered() -> None:
    """The longest logs are on a damaged disk, in a dead process, and with a broker that says
    nothing; one replica has no broker at all."""
    before = replace(asked("1@1 2@1 3@1"), replicas=tuple(map(BrokerId, (1, 2, 3, 4, 5))))
    known = broker_states(again(1), broker_state("2@2", GONE), again(3), again(5), damaged=1)
    reports = {1: report(log=(5, 30)), 2: report(log=(5, 20)), 5: report(log=(None, 0))}

    after, (loss,) = settled(before, known, reports, accepted=waived(2, 3, 4))

    assert after.leader == ref("5@2")
    assert loss.winner == 5


def test_an_answer_from_before_the_question_is_none() -> None:
    """It is of the same leader epoch, which the question did not end."""
    known = broker_states(again(1), again(2), again(3))
    stale = report(epoch=8, log=(5, 30), cut=True)
    reports = {1: stale, 2: report(cut=True), 3: report(log=(5, 7), cut=True)}

    after, (loss,) = settled(asked(), known, reports, accepted=waived(1))

    assert (after.leader, loss.winner) == (ref("2@2"), 2)


def test_a_page_cache_topic_with_a_damaged_copy_needs_leave() -> None:
    """Not only last writes are missing there."""
    suspect = [again(one, suspect=True) for one in (1, 2, 3)]
    reports = {one: report(log=(5, one)) for one in (1, 2, 3)}

    after, _ = settled(asked(), broker_states(*suspect), reports, page_cache=True)
    assert shown(after) == ("3@2", "3@2", 6, 10)

    before = asked()
    known = broker_states(*suspect, damaged=1)
    assert settled(before, known, reports, page_cache=True)[0] is before


# -- what people are told


def test_what_goes_on_by_itself_is_not_at_risk() -> None:
    """One vouches; the longest log is on a disk that failed."""
    failed = replace(again(1), may_lead=False)
    known = broker_states(failed, again(2), again(3, suspect=True))
    spec = partition_map(asked())
    reports = {BrokerId(one): report(log=(5, 10 - one)) for one in (1, 2, 3)}

    def why(open_ms: int, reports: dict[BrokerId, ReplicaReport] = reports) -> str:
        open_questions_ms = {Question(TOPIC, ZERO, PartitionEpoch(9)): open_ms}
        answers = Answers(
            reports={(TOPIC, ZERO): reports} if reports else {}, open_questions_ms=open_questions_ms
        )
        return why_at_risk(answers, spec, spec.generations[0].partitions[0], known)

    assert why(WAIT_MS - 1) == "the disk of broker 1, whose log is longer, failed"
    assert why(WAIT_MS) == ""
    assert why(0, {}) == "", "nobody has answered"


@pytest.mark.parametrize(
    ("page_cache", "unflushed", "damaged", "reason"),
    [
        pytest.param(False, (), None, "", id="what was synced may be there all the same"),
        pytest.param(True, (), None, NOBODY_VOUCHES, id="PageCache"),
        pytest.param(False, (BrokerId(1),), None, NOBODY_VOUCHES, id="until all have flushed"),
        pytest.param(False, (), 1, NOBODY_VOUCHES, id="one is damaged"),
    ],
)
def test_why_nobody_leads(
    page_cache: bool, unflushed: tuple[BrokerId, ...], damaged: int | None, reason: str
) -> None:
    """All disks are suspect."""
    known = broker_states(*(again(one, suspect=True) for one in (1, 2, 3)), damaged=damaged)
    durability = Durability.PAGE_CACHE if page_cache else Durability.FSYNC
    spec = replace(partition_map(asked()), durability=durability, unflushed=unflushed)
    answers = Answers(reports={(TOPIC, ZERO): {BrokerId(one): report() for one in (1, 2, 3)}})

    assert why_at_risk(answers, spec, spec.generations[0].partitions[0], known) == reason
