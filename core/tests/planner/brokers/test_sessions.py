"""Which process may act for a broker, and what its disks vouch for."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, Session
from chiplog_core.model.actions import Replace
from chiplog_core.model.broker import BrokerSpec
from chiplog_core.model.broker_status import BrokerStatus, Tail
from chiplog_core.model.conditions import ConditionStatus
from tests.planner.model import Kubernetes
from tests.planner.objects import topic

ONE = BrokerId(1)


def running(replicas: int = 1, **spec: Any) -> Kubernetes:
    kubernetes = Kubernetes(replicas)
    kubernetes.apply(topic(partitions=1, **spec))
    kubernetes.run()
    return kubernetes


def spec_of(kubernetes: Kubernetes, broker_id: int = 1) -> BrokerSpec:
    return kubernetes.brokers[BrokerId(broker_id)].spec


def partition(kubernetes: Kubernetes) -> tuple[str, str, int]:
    """(leader, isr, leader epoch) of the only one."""
    state = kubernetes.maps["orders"].spec.generations[0].partitions[0]
    return str(state.leader), ",".join(map(str, state.isr)), state.leader_epoch


def test_the_first_process_is_admitted_to_session_1() -> None:
    kubernetes = Kubernetes(1)
    kubernetes.settle()
    assert spec_of(kubernetes).session == 0

    kubernetes.start(1)
    (write,) = (one for one in kubernetes.plan().actions if isinstance(one, Replace))

    spec = write.resource.spec
    assert isinstance(spec, BrokerSpec)
    assert spec.admitted_incarnation == kubernetes.brokers[ONE].status.incarnation
    assert (spec.session, spec.fenced) == (1, False)
    assert (spec.storage_since, spec.intact_since) == (1, 1)
    assert len(spec.storage_uuids) == 1


def test_a_restarted_process_with_intact_disks_goes_on_under_a_new_epoch() -> None:
    kubernetes = running()
    assert partition(kubernetes) == ("1@1", "1@1", 0)

    kubernetes.start(1)
    kubernetes.settle()

    assert partition(kubernetes) == ("1@2", "1@2", 2), "one for the time without a leader"


def test_a_dead_process_is_fenced_and_its_partition_goes_offline_in_one_plan() -> None:
    kubernetes = running()

    kubernetes.kill(1)
    kubernetes.execute(kubernetes.plan().actions)

    assert spec_of(kubernetes).fenced
    assert partition(kubernetes) == ("None", "1@1", 1)


def test_it_comes_back_after_a_kill() -> None:
    kubernetes = running()
    kubernetes.kill(1)
    kubernetes.settle()
    (ready,) = kubernetes.topics["orders"].status.conditions
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "PartitionsOffline")
    assert ready.message == ("no live leader for partition 0; the replicas are on broker 1")

    kubernetes.start(1)
    kubernetes.settle()

    assert partition(kubernetes) == ("1@2", "1@2", 2)
    (ready,) = kubernetes.topics["orders"].status.conditions
    assert ready.status is ConditionStatus.TRUE


def test_maps_follow_in_the_plan_after_the_admission_never_in_the_same() -> None:
    kubernetes = running()
    kubernetes.start(1)

    first = kubernetes.plan().actions
    assert [type(one.resource.spec) for one in first if isinstance(one, Replace)] == [BrokerSpec]


def test_a_process_that_has_ended_already_is_not_admitted() -> None:
    kubernetes = Kubernetes(1)
    kubernetes.settle()
    kubernetes.start(1)
    kubernetes.kill(1)

    kubernetes.settle()

    assert spec_of(kubernetes).session == 0


def test_a_falsely_fenced_process_gets_a_new_session_and_keeps_what_it_had() -> None:
    kubernetes = running()
    process = kubernetes.brokers[ONE].status.incarnation
    assert process is not None
    kubernetes.kill(1)
    kubernetes.settle()

    del kubernetes.ended[process]
    kubernetes.settle()
    assert spec_of(kubernetes).fenced, "an operator that has just started knows nothing"

    kubernetes.renewing.add(process)
    kubernetes.settle()

    assert (spec_of(kubernetes).session, spec_of(kubernetes).fenced) == (2, False)
    assert partition(kubernetes) == ("1@2", "1@2", 2)


def test_a_falsely_fenced_process_that_once_started_suspect_vouches_for_what_it_wrote() -> None:
    kubernetes = running(config={"chiplog.durability": "PageCache"})
    kubernetes.start(1, tail=Tail.SUSPECT)
    kubernetes.settle()
    assert partition(kubernetes)[1] == "1@2"
    process = kubernetes.brokers[ONE].status.incarnation
    assert process is not None
    kubernetes.kill(1)
    kubernetes.settle()

    del kubernetes.ended[process]
    kubernetes.renewing.add(process)
    kubernetes.settle()

    assert partition(kubernetes)[:2] == ("1@3", "1@3")


def test_a_suspect_tail_of_an_fsync_topic_leads_when_all_have_answered() -> None:
    kubernetes = running()

    kubernetes.start(1, tail=Tail.SUSPECT)
    kubernetes.settle()

    assert partition(kubernetes)[:2] == ("1@2", "1@2")
    assert kubernetes.announced == []


def test_a_volume_that_went_back_counts_as_another_one() -> None:
    kubernetes = running()

    kubernetes.start(1, went_back=True)
    kubernetes.settle()

    assert (spec_of(kubernetes).storage_since, spec_of(kubernetes).intact_since) == (2, 2)
    assert partition(kubernetes)[:2] == ("None", "1@1")
    (ready,) = kubernetes.topics["orders"].status.conditions
    assert ready.reason == "RecordsAtRisk"
    assert 'chiplog.dev/unclean-election to "0@1"' in ready.message


def test_a_process_goes_on_through_every_session_it_is_given() -> None:
    kubernetes = running()
    process = kubernetes.brokers[ONE].status.incarnation
    assert process is not None
    for session in (2, 3):
        kubernetes.kill(1)
        kubernetes.settle()
        del kubernetes.ended[process]
        kubernetes.renewing.add(process)
        kubernetes.settle()
        assert (spec_of(kubernetes).session, spec_of(kubernetes).process_since) == (session, 1)
        assert partition(kubernetes)[:2] == (f"1@{session}", f"1@{session}")

    kubernetes.start(1)
    kubernetes.settle()
    assert (spec_of(kubernetes).session, spec_of(kubernetes).process_since) == (4, 4)


def test_a_process_that_an_older_operator_admitted_goes_on_in_its_session_only() -> None:
    kubernetes = running()
    broker = kubernetes.brokers[ONE]
    older = replace(broker.spec, process_since=Session(0))
    kubernetes.brokers[ONE] = kubernetes.stored(replace(broker, spec=older))

    assert not [one for one in kubernetes.plan().actions if isinstance(one, Replace)]

    kubernetes.start(1)
    kubernetes.settle()
    assert partition(kubernetes)[:2] == ("1@2", "1@2")


def test_no_later_process_vouches_for_a_session_in_which_the_disk_failed() -> None:
    kubernetes = running()
    status = kubernetes.brokers[ONE].status
    failed = replace(status.directories[0], online=False)
    kubernetes.status(1, replace(status, directories=(failed,)))
    kubernetes.settle()
    assert spec_of(kubernetes).disk_failed_session == 1

    for session in (2, 3):
        kubernetes.start(1)
        kubernetes.settle()
        assert spec_of(kubernetes).disk_failed_session == 1
        assert (spec_of(kubernetes).session, spec_of(kubernetes).intact_since) == (session, 2)


def test_a_disk_that_failed_is_known_from_the_last_word_of_its_process() -> None:
    """Its status said nothing, as the API server was away, and the next process runs already."""
    kubernetes = running()
    process = kubernetes.brokers[ONE].status.incarnation
    assert process is not None
    kubernetes.failed_disks.add(process)
    kubernetes.start(1)
    kubernetes.settle()

    assert spec_of(kubernetes).disk_failed_session == 1
    assert (spec_of(kubernetes).session, spec_of(kubernetes).intact_since) == (2, 2)


def test_the_disk_of_a_process_that_goes_on_failed_in_the_session_it_had() -> None:
    """It dies right after its second admission, before anything else was decided about it."""
    kubernetes = running()
    process = kubernetes.brokers[ONE].status.incarnation
    assert process is not None
    kubernetes.kill(1)
    kubernetes.settle()
    del kubernetes.ended[process]
    kubernetes.renewing.add(process)
    status = kubernetes.brokers[ONE].status
    failed = replace(status.directories[0], online=False)
    kubernetes.status(1, replace(status, directories=(failed,)))
    kubernetes.execute(kubernetes.plan().actions)
    assert spec_of(kubernetes).session == 2

    kubernetes.start(1)
    kubernetes.settle()

    assert spec_of(kubernetes).intact_since > 1


def test_another_disk_is_not_carried_over_though_it_calls_itself_intact() -> None:
    kubernetes = running(config={"chiplog.durability": "PageCache"})
    disk = kubernetes.disks[ONE]

    kubernetes.start(1, new_disk=True)
    kubernetes.disks[ONE].intact_since = disk.intact_since
    directory = kubernetes.brokers[ONE].status.directories[0]
    status = replace(
        kubernetes.brokers[ONE].status,
        directories=(replace(directory, intact_since=Session(1)),),
    )
    kubernetes.status(1, status)
    kubernetes.settle()

    assert spec_of(kubernetes).storage_since == 2
    assert partition(kubernetes)[:2] == ("None", "1@1")


def test_after_a_new_disk_the_old_sessions_stay_lost_over_further_restarts() -> None:
    kubernetes = running()
    kubernetes.start(1, new_disk=True)
    kubernetes.settle()

    kubernetes.start(1)
    kubernetes.settle()

    assert (spec_of(kubernetes).session, spec_of(kubernetes).intact_since) == (3, 2)
    assert partition(kubernetes)[1] == "1@1"


def test_a_session_is_above_all_that_a_restored_backup_has_forgotten() -> None:
    kubernetes = running()
    for _ in range(4):
        kubernetes.start(1)
        kubernetes.settle()
    assert partition(kubernetes)[1] == "1@5"

    broker = kubernetes.brokers[ONE]
    kubernetes.brokers[ONE] = replace(broker, spec=replace(broker.spec, session=Session(2)))
    kubernetes.start(1)
    kubernetes.settle()

    assert partition(kubernetes)[1] == "1@6"


def test_a_status_that_was_lost_in_a_restore_deposes_nobody() -> None:
    kubernetes = running()
    before = partition(kubernetes)

    kubernetes.status(1, BrokerStatus())

    assert partition(kubernetes) == before
    assert not [one for one in kubernetes.plan().actions if isinstance(one, Replace)]


def test_a_broker_object_that_is_missing_deposes_nobody() -> None:
    kubernetes = running(2)
    broker = kubernetes.brokers.pop(ONE)

    actions = kubernetes.plan(is_complete=False).actions
    assert not [one for one in actions if isinstance(one, Replace)]

    kubernetes.brokers[ONE] = broker
    assert not kubernetes.plan().actions


def test_a_session_that_a_restored_backup_forgot_is_given_anew() -> None:
    """The process serves in session 2, the backup knows its first one and no fence."""
    kubernetes = running()
    backup = kubernetes.brokers[ONE]
    status = kubernetes.brokers[ONE].status
    assert spec_of(kubernetes).session == 1

    kubernetes.status(1, replace(status, session=Session(2)))
    kubernetes.settle()

    assert spec_of(kubernetes).session == 3
    assert spec_of(kubernetes).admitted_incarnation == backup.spec.admitted_incarnation


def starting(since: int, **found: Any) -> Kubernetes:
    """The second process, whose disk says that it vouches for all since that session."""
    kubernetes = running()
    kubernetes.start(1)
    status = kubernetes.brokers[ONE].status
    directory = replace(status.directories[0], intact_since=Session(since), **found)
    kubernetes.status(1, replace(status, directories=(directory,)))
    return kubernetes


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"tail": Tail.SUSPECT}, id="a suspect tail"),
        pytest.param({"online": False}, id="a disk that does not work"),
    ],
)
def test_what_is_not_intact_vouches_for_no_older_session(found: dict[str, Any]) -> None:
    """Whatever else it says of itself."""
    kubernetes = starting(1, **found)
    kubernetes.settle()

    assert (spec_of(kubernetes).storage_since, spec_of(kubernetes).intact_since) == (1, 2)


def test_a_disk_vouches_for_no_more_than_it_says() -> None:
    kubernetes = starting(2)
    kubernetes.settle()

    assert spec_of(kubernetes).intact_since == 2


def test_what_the_operator_once_found_lacking_no_later_start_vouches_for() -> None:
    """A process that was suspect may end before its disk knows of its session."""
    kubernetes = starting(2, tail=Tail.SUSPECT)
    kubernetes.settle()
    kubernetes.start(1)
    status = kubernetes.brokers[ONE].status
    forgot = replace(status.directories[0], intact_since=Session(1))
    kubernetes.status(1, replace(status, directories=(forgot,)))
    kubernetes.settle()

    assert (spec_of(kubernetes).session, spec_of(kubernetes).intact_since) == (3, 2)
