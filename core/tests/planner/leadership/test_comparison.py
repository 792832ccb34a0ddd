"""Who leads where every member of an ISR was started again: each clause of the rule, and each way
around it that somebody thought of."""

from dataclasses import dataclass, replace

import pytest

from chiplog_core.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, PartitionIndex
from chiplog_core.model.broker_status import ReplicaReport
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.broker_states import BrokerState, BrokerStates, ProcessState
from chiplog_core.planner.leadership.comparison import (
    AtRisk,
    Elected,
    Outcome,
    Terms,
    Waiting,
    compare,
)
from tests.planner.leadership.test_elections import TOPIC, broker_state, state

ASKED = 9
"""The partition epoch of the question."""


@dataclass(frozen=True)
class Log:
    """What a replica reports, and what is known of its broker."""

    epoch: int | None
    end: int
    committed: int | None = None
    cut: bool = False
    of: BrokerState | None = None
    """Its broker, where not one in session 2 that vouches for session 1."""
    asked: int = ASKED
    is_damaged: bool = False


FSYNC = Terms(min_isr=2, counts_as_page_cache=False)
PAGE_CACHE = replace(FSYNC, counts_as_page_cache=True)
OVERDUE = replace(FSYNC, is_overdue=True)

NOBODY_VOUCHES = "at risk: no in-sync replica can prove that its disk lost nothing"
NOBODY_LEADS = "at risk: no in-sync replica that returned can lead"


def suspect(broker_id: int) -> BrokerState:
    return broker_state(f"{broker_id}@2", intact_since=2)


def moved(broker_id: int) -> BrokerState:
    """On another volume, or on an older copy of its own."""
    return broker_state(f"{broker_id}@2", intact_since=2, storage_since=2)


def failing(broker_id: int) -> BrokerState:
    """Its disk failed after its start."""
    return replace(broker_state(f"{broker_id}@2"), may_lead=False)


def compared(
    logs: dict[int, Log],
    terms: Terms = FSYNC,
    isr: str = "1@1 2@1 3@1",
    *,
    asked: PartitionState | None = None,
) -> Outcome:
    """Brokers in `logs` are back; the others are dead."""
    asked = asked or replace(state(isr, None), reports_wanted=True)
    of = {
        one: logs[one].of or broker_state(f"{one}@2")
        if one in logs
        else broker_state(f"{one}@1", ProcessState.GONE)
        for one in {*asked.replicas, *map(BrokerId, logs)}
    }
    broken = {
        (BrokerId(one), TOPIC, PartitionIndex(0)) for one, log in logs.items() if log.is_damaged
    }
    broker_states = BrokerStates(of, frozenset(), frozenset(broken))
    reports = {BrokerId(one): _report(log, asked) for one, log in logs.items()}
    return compare(asked, TOPIC, broker_states, reports, terms)


def _report(log: Log, asked: PartitionState) -> ReplicaReport:
    return ReplicaReport(
        topic_id=TOPIC,
        partition=PartitionIndex(0),
        leader_epoch=asked.leader_epoch,
        partition_epoch=PartitionEpoch(log.asked),
        isr=asked.isr,
        log_leader_epoch=None if log.epoch is None else LeaderEpoch(log.epoch),
        log_end_offset=Offset(log.end),
        high_watermark=None if log.committed is None else Offset(log.committed),
        cut=log.cut,
    )


def shown(outcome: Outcome) -> str:
    match outcome:
        case Elected(leader=leader, isr=isr):
            return f"{leader} of {' '.join(map(str, isr))}"
        case Waiting(brokers=brokers):
            return f"waits for {' '.join(map(str, brokers))}"
        case AtRisk(reason=reason):
            return f"at risk: {reason}"


@pytest.mark.parametrize(
    ("logs", "terms", "expected"),
    [
        # When it is decided.
        pytest.param({1: Log(3, 8)}, FSYNC, "waits for 2 3", id="one of two that must vouch"),
        pytest.param(
            {1: Log(3, 8), 2: Log(3, 7)}, FSYNC, "1@2 of 1@2 2@1 3@1", id="as many as min ISR vouch"
        ),
        pytest.param(
            {2: Log(3, 8)}, replace(FSYNC, min_isr=1), "2@2 of 1@1 2@2 3@1", id="min ISR of one"
        ),
        pytest.param({2: Log(3, 8)}, OVERDUE, "2@2 of 1@1 2@2 3@1", id="one, after a minute"),
        pytest.param(
            {2: Log(3, 8, cut=True)}, OVERDUE, "waits for 1 3", id="not one that does not vouch"
        ),
        pytest.param(
            {1: Log(3, 8, cut=True), 2: Log(3, 7)},
            FSYNC,
            "waits for 3",
            id="a cut log does not vouch",
        ),
        pytest.param(
            {1: Log(3, 8, of=suspect(1)), 2: Log(3, 7)},
            FSYNC,
            "waits for 3",
            id="nor a disk that is not intact since then",
        ),
        pytest.param(
            {1: Log(3, 8, is_damaged=True), 2: Log(3, 7)},
            FSYNC,
            "waits for 3",
            id="nor a damaged copy",
        ),
        pytest.param(
            {1: Log(3, 8, of=failing(1)), 2: Log(3, 7)},
            FSYNC,
            "waits for 3",
            id="nor a disk that has failed since",
        ),
        pytest.param(
            {1: Log(3, 8), 2: Log(3, 7, of=moved(2)), 3: Log(3, 6, cut=True)},
            FSYNC,
            "1@2 of 1@2 2@1 3@1",
            id="one vouches, all answered",
        ),
        pytest.param(
            {1: Log(3, 6, cut=True), 2: Log(3, 8, cut=True), 3: Log(3, 7, cut=True)},
            FSYNC,
            "2@2 of 1@1 2@2 3@1",
            id="all are doubtful, and all answered: torn ends were acknowledged nowhere",
        ),
        pytest.param(
            {1: Log(3, 6, cut=True), 2: Log(3, 8, cut=True), 3: Log(3, 7, of=moved(3))},
            FSYNC,
            NOBODY_VOUCHES,
            id="one of them is lost, and nobody vouches",
        ),
        pytest.param(
            {1: Log(3, 6, cut=True), 2: Log(3, 8, cut=True)},
            replace(FSYNC, waived=(BrokerId(3),)),
            NOBODY_VOUCHES,
            id="a waived one may have had more",
        ),
        pytest.param(
            {1: Log(3, 6)},
            replace(FSYNC, waived=(BrokerId(2), BrokerId(3))),
            "1@2 of 1@2 2@1 3@1",
            id="without those who never return",
        ),
        # What counts as an answer.
        pytest.param(
            {1: Log(3, 8), 2: Log(3, 9, asked=ASKED - 1)},
            FSYNC,
            "waits for 2 3",
            id="a report of before the question",
        ),
        pytest.param(
            {1: Log(3, 8), 2: Log(3, 9, of=broker_state("2@2", ProcessState.GONE))},
            FSYNC,
            "waits for 2 3",
            id="a report of a process that has ended since",
        ),
        pytest.param(
            {1: Log(3, 8), 2: Log(3, 9, of=replace(broker_state("2@2"), is_in_session=False))},
            FSYNC,
            "waits for 2 3",
            id="a report whose disk does not remember the session",
        ),
        # Who wins.
        pytest.param(
            {1: Log(2, 90), 2: Log(3, 7), 3: Log(3, 6)},
            FSYNC,
            "2@2 of 1@1 2@2 3@1",
            id="the later epoch before the longer log",
        ),
        pytest.param(
            {1: Log(3, 7), 2: Log(3, 9, cut=True), 3: Log(3, 7)},
            FSYNC,
            "2@2 of 1@1 2@2 3@1",
            id="the longest, though it does not vouch itself",
        ),
        pytest.param(
            {1: Log(3, 8), 2: Log(3, 7), 3: Log(3, 8)},
            FSYNC,
            "1@2 of 1@2 2@1 3@2",
            id="who has the very same log is in sync with it",
        ),
        pytest.param(
            {1: Log(None, 0), 2: Log(None, 0)},
            FSYNC,
            "1@2 of 1@2 2@2 3@1",
            id="where nothing was ever written, too",
        ),
        pytest.param(
            {1: Log(None, 0), 2: Log(0, 0)},
            FSYNC,
            "2@2 of 1@1 2@2 3@1",
            id="a log that was emptied is of an epoch",
        ),
        pytest.param(
            {1: Log(3, 8, of=broker_state("1@2", leaving=True)), 2: Log(3, 8)},
            FSYNC,
            "2@2 of 1@2 2@2 3@1",
            id="of equal ones, one that is not about to go",
        ),
        # Who cannot.
        pytest.param(
            {1: Log(2, 9, of=moved(1)), 2: Log(3, 7), 3: Log(3, 6)},
            FSYNC,
            "2@2 of 1@1 2@2 3@1",
            id="an older volume with a longer log",
        ),
        pytest.param(
            {1: Log(4, 9, of=moved(1)), 2: Log(3, 7), 3: Log(3, 6)},
            FSYNC,
            "2@2 of 1@1 2@2 3@1",
            id="another volume, whatever is on it",
        ),
        pytest.param(
            {1: Log(3, 9, is_damaged=True), 2: Log(3, 7), 3: Log(3, 6)},
            FSYNC,
            "2@2 of 1@1 2@2 3@1",
            id="a damaged one",
        ),
        pytest.param(
            {1: Log(3, 6, committed=8), 2: Log(3, 7), 3: Log(3, 8)},
            FSYNC,
            "3@2 of 1@1 2@1 3@2",
            id="one that ends below what it knows to be committed",
        ),
        pytest.param(
            {1: Log(3, 9), 2: Log(3, 8), 3: Log(3, 5, committed=10)},
            FSYNC,
            "at risk: the longest log ends at 9, and records up to 10 were committed",
            id="the longest is below what somebody knows to be committed",
        ),
        pytest.param(
            {1: Log(3, 9, of=failing(1)), 2: Log(3, 7, cut=True), 3: Log(3, 8)},
            FSYNC,
            "at risk: the disk of broker 1, whose log is longer, failed",
            id="the longest is on a disk that failed, and it may be the honest one",
        ),
        pytest.param(
            {1: Log(3, 9, of=failing(1)), 2: Log(3, 8), 3: Log(3, 8)},
            FSYNC,
            "2@2 of 1@1 2@2 3@2",
            id="it does not matter where enough others vouch",
        ),
        pytest.param(
            {1: Log(3, 9, of=failing(1)), 2: Log(3, 7, of=failing(2)), 3: Log(3, 8, of=failing(3))},
            FSYNC,
            NOBODY_LEADS,
            id="all disks have failed",
        ),
        # PageCache: what is not intact is lost.
        pytest.param(
            {1: Log(3, 9, of=suspect(1)), 2: Log(3, 7), 3: Log(3, 6)},
            PAGE_CACHE,
            "2@2 of 1@1 2@2 3@1",
            id="PageCache: a longer log on a suspect disk",
        ),
        pytest.param(
            {one: Log(3, 9, of=suspect(one)) for one in (1, 2, 3)},
            PAGE_CACHE,
            NOBODY_VOUCHES,
            id="PageCache: all lost power",
        ),
    ],
)
def test_the_rule(logs: dict[int, Log], terms: Terms, expected: str) -> None:
    assert shown(compared(logs, terms)) == expected


@pytest.mark.parametrize("min_isr", [1, 2, 3])
@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param(Log(3, 8), "1@2 of 1@2", id="vouches"),
        pytest.param(Log(3, 8, cut=True), "1@2 of 1@2", id="torn"),
        pytest.param(Log(3, 8, cut=True, committed=9), NOBODY_VOUCHES, id="rotten"),
        pytest.param(Log(3, 8, of=moved(1)), NOBODY_VOUCHES, id="put back"),
        pytest.param(Log(3, 8, of=suspect(1)), "1@2 of 1@2", id="not intact"),
        pytest.param(Log(3, 8, of=failing(1)), NOBODY_LEADS, id="failed"),
        pytest.param(Log(3, 8, is_damaged=True), NOBODY_VOUCHES, id="damaged"),
    ],
)
def test_an_isr_of_one(log: Log, min_isr: int, expected: str) -> None:
    assert shown(compared({1: log}, replace(FSYNC, min_isr=min_isr), "1@1")) == expected


def test_what_was_committed_before_an_accepted_loss_is_not_asked_for() -> None:
    before = replace(state("1@1 2@1", None), reports_wanted=True)
    after = replace(before, unclean_epoch=LeaderEpoch(5))
    logs = {1: Log(5, 9), 2: Log(5, 9), 3: Log(4, 20, committed=20)}

    assert shown(compared(logs, asked=before)) == (
        "at risk: the longest log ends at 9, and records up to 20 were committed"
    )
    assert shown(compared(logs, asked=after)) == "1@2 of 1@2 2@2"


def test_a_winner_that_died_is_compared_again_with_those_that_had_not_caught_up() -> None:
    logs = {1: Log(3, 8, of=broker_state("1@3")), 2: Log(3, 7, of=broker_state("2@2"))}

    assert shown(compared(logs, isr="1@2 2@1 3@1")) == "1@3 of 1@3 2@1 3@1"


def test_a_retired_broker_is_not_waited_for_and_vouches_for_nothing() -> None:
    retired = replace(broker_state("3@1", ProcessState.GONE), is_retired=True)
    asked = replace(state("1@1 3@1", None), reports_wanted=True)
    of = {one: broker_state(f"{one}@2") for one in asked.replicas} | {BrokerId(3): retired}

    def outcome(log: Log) -> str:
        reports = {BrokerId(1): _report(log, asked)}
        return shown(
            compare(asked, TOPIC, BrokerStates(of, frozenset(), frozenset()), reports, FSYNC)
        )

    assert outcome(Log(3, 8)) == "1@2 of 1@2 3@1"
    assert outcome(Log(3, 8, cut=True)) == NOBODY_VOUCHES


def test_a_broker_without_an_object_is_waited_for() -> None:
    asked = replace(state("1@1 3@1", None), reports_wanted=True)
    broker_states = BrokerStates({BrokerId(1): broker_state("1@2")}, frozenset(), frozenset())

    reports = {BrokerId(1): _report(Log(3, 8), asked)}
    assert shown(compare(asked, TOPIC, broker_states, reports, FSYNC)) == "waits for 3"


def test_a_session_that_the_broker_object_has_forgotten_is_not_carried_back() -> None:
    logs = {1: Log(3, 8), 2: Log(3, 8)}

    assert shown(compared(logs, isr="1@9 2@1")) == "waits for 1"


def test_a_living_broker_that_has_said_nothing_is_waited_for() -> None:
    asked = replace(state("1@1 3@1", None), reports_wanted=True)
    of = {BrokerId(one): broker_state(f"{one}@2") for one in (1, 3)}
    reports = {BrokerId(1): _report(Log(3, 8), asked)}

    assert shown(
        compare(asked, TOPIC, BrokerStates(of, frozenset(), frozenset()), reports, FSYNC)
    ) == ("waits for 3")


def test_a_process_that_is_still_in_its_session_answers_too() -> None:
    """It cannot lead, for its copy is damaged: there is nothing to wait for."""
    outcome = compared({1: Log(3, 8, of=broker_state("1@1"), is_damaged=True)}, isr="1@1")

    assert shown(outcome) == NOBODY_VOUCHES


@pytest.mark.parametrize(
    ("replicas", "winner"),
    [
        pytest.param((3, 2, 1), 3, id="the order of the replicas, not that of the ISR"),
        pytest.param((2, 3), 2, id="one that is no replica any more is the last"),
    ],
)
def test_who_leads_of_equal_ones(replicas: tuple[int, ...], winner: int) -> None:
    asked = replace(state("1@1 2@1 3@1", None, replicas), reports_wanted=True)

    outcome = compared({one: Log(3, 8) for one in (1, 2, 3)}, asked=asked)

    assert isinstance(outcome, Elected)
    assert outcome.leader.broker_id == winner


def test_what_was_committed_since_an_accepted_loss_is_asked_for() -> None:
    asked = replace(state("1@1 2@1", None), reports_wanted=True, unclean_epoch=LeaderEpoch(5))
    logs = {1: Log(5, 9), 2: Log(5, 9), 3: Log(5, 8, committed=10)}

    assert shown(compared(logs, asked=asked)) == (
        "at risk: the longest log ends at 9, and records up to 10 were committed"
    )


def test_what_an_emptied_log_knows_to_be_committed_counts_where_no_loss_was_accepted() -> None:
    before = replace(state("1@1 2@1", None), reports_wanted=True)
    after = replace(before, unclean_epoch=LeaderEpoch(0))
    logs = {1: Log(0, 9), 2: Log(0, 9), 3: Log(None, 0, committed=10)}

    assert shown(compared(logs, asked=before)).startswith("at risk: the longest log ends at 9")
    assert shown(compared(logs, asked=after)) == "1@2 of 1@2 2@2"
