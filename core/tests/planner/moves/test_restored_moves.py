"""Maps are restored from a backup that is older than a move, or are lost: nothing is believed or
removed before the brokers that the replicas moved to have spoken."""

from copy import deepcopy
from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.partition_map import PartitionMap
from tests.planner.copying import Copying
from tests.planner.moves.test_reassignments import act, ask
from tests.planner.moves.test_wanted_replicas import check_complete, states, with_topic
from tests.planner.objects import topic


def move(kubernetes: Copying, target: tuple[int, ...], asked: int = 1) -> None:
    """Ask for the move of partition 0, and begin it."""
    ask(kubernetes, {0: target}, asked=asked)
    act(kubernetes, 2)
    status = kubernetes.brokers[BrokerId(asked)].status
    kubernetes.status(asked, replace(status, requests=()))


def restore(kubernetes: Copying, *backup: PartitionMap) -> None:
    """Put etcd back to these maps."""
    kubernetes.maps = {one.spec.topic_name: kubernetes.stored(one) for one in backup}
    kubernetes.maps_check = "check-1"


def test_old_replicas_do_not_lead_before_all_living_brokers_have_compared() -> None:
    """Two of three were dead during the whole move, and do not know of it; the third, which knows,
    is dead now."""
    kubernetes = with_topic(6, partitions=1, replicas=3)
    before = states(kubernetes)[0]
    assert before.leader is not None
    witness = before.leader.broker_id
    ignorant = [one for one in before.replicas if one != witness]
    target = tuple(BrokerId(one) for one in range(1, 7) if one not in before.replicas)
    backup = kubernetes.maps["orders"]
    for one in ignorant:
        kubernetes.kill(one)
    move(kubernetes, target, asked=target[0])
    for _ in range(8):
        kubernetes.obey()
        act(kubernetes)
    assert states(kubernetes)[0].replicas == target
    kubernetes.kill(witness)

    restore(kubernetes, backup)
    for one in ignorant:
        kubernetes.start(one)
    for _ in range(10):
        act(kubernetes)
        for one in ignorant:
            kubernetes.obey_one(one)  # the others live, and are slower
    leader = states(kubernetes)[0].leader
    assert leader is None or leader.broker_id == witness

    kubernetes.start(witness)
    kubernetes.settle()
    assert states(kubernetes)[0].replicas == target


def test_no_broker_is_retired_before_it_has_compared() -> None:
    kubernetes = with_topic(4, partitions=1, replicas=1)
    assert states(kubernetes)[0].replicas != (4,)
    kubernetes.configure(3)
    act(kubernetes)
    assert kubernetes.brokers[BrokerId(4)].spec.intent is BrokerIntent.REMOVE
    backup = deepcopy(kubernetes)
    kubernetes.configure(4)
    act(kubernetes)
    kubernetes.obey()
    move(kubernetes, (4,))
    kubernetes.settle()
    assert states(kubernetes)[0].replicas == (4,)

    restore(kubernetes, *backup.maps.values())
    kubernetes.brokers = {
        broker_id: kubernetes.stored(broker) for broker_id, broker in backup.brokers.items()
    }
    kubernetes.cluster = kubernetes.stored(backup.cluster)
    act(kubernetes, 2)
    assert not kubernetes.brokers[BrokerId(4)].spec.retired

    kubernetes.settle()
    assert kubernetes.brokers[BrokerId(4)].spec.retired
    check_complete(kubernetes)


def test_a_replica_that_was_to_go_and_came_back_is_taken_from_the_reports() -> None:
    kubernetes = with_topic(3, partitions=1, replicas=2)
    first, second = states(kubernetes)[0].replicas
    (third,) = {BrokerId(1), BrokerId(2), BrokerId(3)} - {first, second}
    move(kubernetes, (first, third))
    for _ in range(20):
        if any(one.removable_since for one in states(kubernetes)[0].leftovers):
            break
        kubernetes.obey()
        act(kubernetes)
    backup = kubernetes.maps["orders"]
    assert any(one.removable_since for one in backup.spec.current_partitions[0].leftovers)
    kubernetes.settle()
    move(kubernetes, (first, second))
    kubernetes.settle()
    assert set(states(kubernetes)[0].replicas) == {first, second}

    restore(kubernetes, backup)
    kubernetes.obey()
    kubernetes.settle()
    check_complete(kubernetes)
    assert set(states(kubernetes)[0].replicas) == {first, second}


def test_what_is_adopted_is_written_before_the_deleted_replica_is_forgotten() -> None:
    """The restored map names the old replica, whose deletion is confirmed: it must become a
    leftover in one write, and disappear in the next."""
    kubernetes = with_topic(3, partitions=1, replicas=1)
    (old,) = states(kubernetes)[0].replicas
    new = BrokerId(1 if old != 1 else 2)
    backup = kubernetes.maps["orders"]
    move(kubernetes, (new,), asked=new)
    for _ in range(20):
        if any(one.removable_since for one in states(kubernetes)[0].leftovers):
            break
        kubernetes.obey()
        act(kubernetes)
    kubernetes.obey()
    assert kubernetes.brokers[old].status.removed_replicas

    restore(kubernetes, backup)
    kubernetes.obey()
    act(kubernetes)
    assert states(kubernetes)[0].reports_wanted
    kubernetes.obey()
    act(kubernetes)
    assert states(kubernetes)[0].replicas == (new,)
    assert [one.broker for one in states(kubernetes)[0].leftovers] == [old]
    kubernetes.settle()
    check_complete(kubernetes)
    assert states(kubernetes)[0].replicas == (new,)


def test_a_lost_map_is_made_again_with_the_move_that_was_in_progress() -> None:
    kubernetes = with_topic(4, partitions=1, replicas=1)
    kubernetes.apply(topic(partitions=1, replicas=2))
    act(kubernetes, 2)
    kubernetes.obey()
    kubernetes.apply(topic(partitions=1, replicas=1))
    for _ in range(10):
        act(kubernetes)
        if states(kubernetes)[0].leftovers:
            break
        kubernetes.obey()
    holders = states(kubernetes)[0].holders
    assert states(kubernetes)[0].leftovers
    kubernetes.obey()

    del kubernetes.maps["orders"]
    kubernetes.obey()
    for _ in range(10):
        act(kubernetes)
        if "orders" in kubernetes.maps:
            break
        kubernetes.obey()
    assert states(kubernetes)[0].holders >= holders


def test_a_broker_that_never_heard_of_its_new_replica_is_not_waited_for() -> None:
    """Only the old replica applied the map with which the move began. It names the new one in its
    report, which has nothing to report itself."""
    kubernetes = with_topic(3, partitions=1, replicas=1)
    (old,) = states(kubernetes)[0].replicas
    new = BrokerId(1 if old != 1 else 2)
    backup = kubernetes.maps["orders"]
    move(kubernetes, (new,), asked=old)
    kubernetes.obey_one(old)
    assert new in kubernetes.disks[old].known["orders"].spec.current_partitions[0].adding

    restore(kubernetes, backup)
    kubernetes.settle()
    state = states(kubernetes)[0]
    assert not state.reports_wanted
    assert state.leader is not None
    check_complete(kubernetes)


def test_a_new_disk_does_not_get_a_session_in_which_the_lost_one_was_in_sync() -> None:
    """The restored Broker object has forgotten the session, and so has the new disk; the others,
    which know it, are slower. They would follow an empty log."""
    kubernetes = with_topic(3, partitions=1, replicas=3)
    backup = deepcopy(kubernetes)
    lost = states(kubernetes)[0].replicas[0]
    kubernetes.start(lost)
    kubernetes.settle()
    assert kubernetes.ref_of(lost) in states(kubernetes)[0].isr

    for broker_id in kubernetes.brokers:
        kubernetes.kill(broker_id)
    restore(kubernetes, *backup.maps.values())
    kubernetes.brokers = {
        broker_id: kubernetes.stored(broker) for broker_id, broker in backup.brokers.items()
    }
    kubernetes.start(lost, new_disk=True)
    act(kubernetes)
    for broker_id in kubernetes.brokers:
        if broker_id != lost:
            kubernetes.start(broker_id)
    for _ in range(6):
        act(kubernetes)
        kubernetes.obey()

    leader = states(kubernetes)[0].leader
    assert leader is None or leader.broker_id != lost
    kubernetes.settle()
    assert {ref.broker_id for ref in states(kubernetes)[0].isr} == {1, 2, 3}


def test_a_new_disk_gets_the_next_session_where_all_others_have_compared() -> None:
    """Then it is known that nothing went back, and the sessions of a broker must last for long."""
    kubernetes = with_topic(3)
    kubernetes.maps_check = "check-1"
    kubernetes.settle()

    kubernetes.start(1, new_disk=True)
    act(kubernetes)

    assert kubernetes.brokers[BrokerId(1)].spec.session == 2


def test_two_restores_of_one_copy_do_not_lead_to_the_same_session() -> None:
    kubernetes = with_topic(3)
    kubernetes.maps_check = "check-1"
    backup = kubernetes.brokers
    sessions = set()
    for _ in range(2):
        kubernetes.brokers = {
            broker_id: kubernetes.stored(broker) for broker_id, broker in backup.items()
        }
        kubernetes.start(1, new_disk=True)
        act(kubernetes)
        sessions.add(kubernetes.brokers[BrokerId(1)].spec.session)

    assert len(sessions) == 2
    assert min(sessions) > 500
