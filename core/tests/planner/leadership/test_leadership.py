"""Where leaderships go when nothing is broken: preferred leaders, draining, admin clients."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.admin.answers import Verdict, from_answer
from chiplog_core.admin.bodies import from_body, to_body
from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import ElectLeaders
from chiplog_core.ids import BrokerId, Incarnation, ReplicaRef, Session
from chiplog_core.model.actions import Replace
from chiplog_core.model.admin import AdminRequest
from chiplog_core.model.broker_status import Tail
from chiplog_core.naming import labels
from chiplog_core.planner.leadership.comparison import WAIT_MS
from chiplog_core.planner.leadership.epochs import LEAP
from chiplog_core.planner.leadership.preferred import REST
from tests.planner.leadership.test_proposals import isr, propose, replicated
from tests.planner.model import Kubernetes
from tests.planner.objects import of_users, partitions_of, topic

PAGE_CACHE = {"chiplog.durability": "PageCache"}


def cluster(partitions: int = 3, **spec: Any) -> Kubernetes:
    kubernetes = Kubernetes(3)
    kubernetes.apply(topic(partitions=partitions, replicas=3, **spec))
    kubernetes.run()
    return kubernetes


def leaders(kubernetes: Kubernetes) -> str:
    states = (state for _, _, state in partitions_of(of_users(kubernetes.maps).values()))
    return " ".join(str(state.leader) for state in states)


def isrs(kubernetes: Kubernetes) -> list[str]:
    states = (state for _, _, state in partitions_of(of_users(kubernetes.maps).values()))
    return [" ".join(map(str, sorted(state.isr))) for state in states]


def test_user_activity_as_it_is_written_down() -> None:
    kubernetes = Kubernetes(3, rack={"topologyKey": "zone"})
    kubernetes.apply(topic("user-activity", partitions=6, replicas=3))
    kubernetes.run()

    spec = kubernetes.maps["user-activity"].spec
    assert [state.replicas for state in spec.generations[0].partitions] == [
        (1, 2, 3),
        (2, 3, 1),
        (3, 1, 2),
        (1, 3, 2),
        (2, 1, 3),
        (3, 2, 1),
    ]
    assert spec.min_isr == 2


def test_leaderships_come_back_when_all_has_been_well_for_some_time() -> None:
    kubernetes = cluster()
    kubernetes.kill(1)
    kubernetes.execute(kubernetes.plan().actions)
    assert leaders(kubernetes) == "2@1 2@1 3@1"
    kubernetes.start(1)
    kubernetes.settle()
    rejoin(kubernetes)

    assert leaders(kubernetes) == "2@1 2@1 3@1"
    wait_ms = kubernetes.plan().requeue_after_ms
    assert wait_ms is not None
    assert wait_ms <= REST / timedelta(milliseconds=1) + 1

    kubernetes.now += REST
    kubernetes.settle()
    assert leaders(kubernetes) == "1@2 2@1 3@1"


def rejoin(kubernetes: Kubernetes) -> None:
    """As if broker 1 had been let in again everywhere."""
    one = kubernetes.maps["orders"]
    of = {broker_id: broker.spec.session for broker_id, broker in kubernetes.brokers.items()}
    (generation,) = one.spec.generations
    states = tuple(
        replace(
            state,
            isr=tuple(ReplicaRef(broker_id, of[broker_id]) for broker_id in state.replicas),
        )
        for state in generation.partitions
    )
    generation = replace(generation, partitions=states)
    kubernetes.maps["orders"] = replace(one, spec=replace(one.spec, generations=(generation,)))
    kubernetes.settle()


def test_they_stay_while_anything_is_not_in_sync() -> None:
    kubernetes = cluster()
    kubernetes.kill(1)
    kubernetes.settle()
    kubernetes.start(1)
    kubernetes.settle()

    kubernetes.now += 10 * REST
    kubernetes.settle()

    assert leaders(kubernetes) == "2@1 2@1 3@1"


def test_a_broker_that_stops_leaves_every_isr_above_the_floor_in_one_write() -> None:
    kubernetes = cluster()
    status = kubernetes.brokers[BrokerId(1)].status
    kubernetes.status(1, replace(status, draining=True))

    writes = [one for one in kubernetes.plan().actions if isinstance(one, Replace)]
    kubernetes.execute(writes)

    assert len(writes) == 1
    assert leaders(kubernetes) == "2@1 2@1 3@1"
    assert isrs(kubernetes) == ["2@1 3@1"] * 3


def test_at_the_floor_it_only_hands_over() -> None:
    kubernetes = cluster()
    kubernetes.kill(3)
    kubernetes.settle()
    status = kubernetes.brokers[BrokerId(1)].status
    kubernetes.status(1, replace(status, draining=True))
    kubernetes.settle()

    assert leaders(kubernetes) == "2@1 2@1 2@1"
    assert isrs(kubernetes) == ["1@1 2@1"] * 3


# -- ElectLeaders


def ask(kubernetes: Kubernetes, operation: ElectLeaders, number: int = 1) -> None:
    op, body = to_body(operation)
    assert from_body(op, body) == operation
    request = AdminRequest(
        id=f"r-{number}",
        principal="User:a",
        op=op,
        body=body,
        deadline=kubernetes.now + timedelta(seconds=30),
    )
    status = kubernetes.brokers[BrokerId(2)].status
    kubernetes.status(2, replace(status, requests=(*status.requests, request)))


def answer(kubernetes: Kubernetes) -> Verdict:
    (found,) = kubernetes.brokers[BrokerId(2)].spec.answers
    return from_answer(found)


def codes(kubernetes: Kubernetes) -> list[tuple[int, str]]:
    return [(one.partition, one.code.name) for one in answer(kubernetes).partitions]


def test_a_client_gets_its_election_at_once() -> None:
    kubernetes = cluster()
    kubernetes.kill(1)
    kubernetes.settle()
    kubernetes.start(1)
    kubernetes.settle()
    rejoin(kubernetes)

    ask(kubernetes, ElectLeaders(name="orders", partitions={0: 1, 1: 0, 7: 0}))
    kubernetes.settle()

    assert leaders(kubernetes) == "1@2 2@1 3@1"
    assert codes(kubernetes) == [
        (0, "NONE"),
        (1, "ELECTION_NOT_NEEDED"),
        (7, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_a_preferred_leader_out_of_sync_is_not_available() -> None:
    kubernetes = cluster()
    kubernetes.kill(1)
    kubernetes.settle()

    ask(kubernetes, ElectLeaders(name="orders", partitions={0: 1}))
    kubernetes.settle()

    assert codes(kubernetes) == [(0, "PREFERRED_LEADER_NOT_AVAILABLE")]


@pytest.mark.parametrize("name", ["nothing", "orders"])
def test_another_topic_is_unknown(name: str) -> None:
    kubernetes = cluster()
    ask(kubernetes, ElectLeaders(name=name, partitions={0: 0}, topic_id=kubernetes.new_topic_id()))
    kubernetes.settle()

    assert answer(kubernetes).code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_with_a_live_leader_needs_no_unclean_election() -> None:
    kubernetes = cluster()
    before = leaders(kubernetes)

    ask(kubernetes, ElectLeaders(name="orders", partitions={0: 1}, is_unclean=True))
    kubernetes.settle()

    assert codes(kubernetes) == [(0, "ELECTION_NOT_NEEDED")]
    assert leaders(kubernetes) == before


def test_no_client_gets_an_unclean_election() -> None:
    kubernetes = cluster()
    for broker_id in (1, 2, 3):
        kubernetes.kill(broker_id)
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.start(2, tail=Tail.SUSPECT)
    kubernetes.settle()

    ask(kubernetes, ElectLeaders(name="orders", partitions={0: 1}, is_unclean=True))
    kubernetes.settle()

    assert codes(kubernetes) == [(0, "POLICY_VIOLATION")]
    assert leaders(kubernetes) == "None None None"


# -- what a person may decide, and what a minute does


def test_an_annotation_names_those_who_are_not_waited_for() -> None:
    kubernetes = replicated()
    for broker_id in (1, 2, 3):
        kubernetes.kill(broker_id)
    kubernetes.settle()
    kubernetes.start(3, tail=Tail.SUSPECT)
    kubernetes.settle()
    message = kubernetes.topics["orders"].status.conditions[0].message
    epoch = kubernetes.maps["orders"].spec.generations[0].partitions[0].partition_epoch
    assert f'"0@{epoch}/1+2"' in message

    for text in (f"0@{epoch}/1", f"0@{epoch}/1+2"):
        assert leaders(kubernetes) == "None"
        annotations = {labels.UNCLEAN_ELECTION: text}
        kubernetes.apply(topic(partitions=1, replicas=3, annotations=annotations))
        kubernetes.settle()

    assert (leaders(kubernetes), isr(kubernetes)) == ("3@2", "3@2")


def test_suspect_tails_are_compared_after_a_minute_without_those_that_do_not_answer() -> None:
    kubernetes = cluster(1, config=PAGE_CACHE)
    for broker_id in (1, 2, 3):
        kubernetes.start(broker_id, tail=Tail.SUSPECT)
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.kill(1)
    kubernetes.settle()
    assert leaders(kubernetes) == "None"
    assert kubernetes.plan().requeue_after_ms == WAIT_MS

    kubernetes.now += timedelta(milliseconds=WAIT_MS)
    kubernetes.settle()

    assert leaders(kubernetes) == "2@2"
    assert [one.reason for one in kubernetes.announced] == ["UncleanElection"]


def test_an_fsync_topic_whose_volumes_all_went_back_waits_for_ever() -> None:
    kubernetes = cluster(1)
    for broker_id in (1, 2, 3):
        kubernetes.start(broker_id, went_back=True)
    kubernetes.settle()

    kubernetes.now += timedelta(days=1)
    kubernetes.settle()

    assert leaders(kubernetes) == "None"


# -- R6: nothing before the brokers have looked


def test_no_election_before_the_living_have_compared_their_disks() -> None:
    kubernetes = replicated()
    kubernetes.maps_check = "one"
    kubernetes.kill(1)
    kubernetes.execute(kubernetes.plan().actions)
    assert leaders(kubernetes) == "1@1"

    kubernetes.obey_one(BrokerId(2))
    kubernetes.execute(kubernetes.plan().actions)
    assert leaders(kubernetes) == "1@1", "broker 3 may know more"

    kubernetes.obey_one(BrokerId(3))
    kubernetes.execute(kubernetes.plan().actions)
    assert leaders(kubernetes) == "2@1"


def test_a_process_that_a_restored_object_does_not_know_is_waited_for() -> None:
    """The process named there is dead, but another one has held the Lease since the copy."""
    kubernetes = replicated()
    kubernetes.maps_check = "one"
    kubernetes.settle()
    kubernetes.kill(1)
    kubernetes.holders[BrokerId(1)] = Incarnation("f" * 32)
    kubernetes.maps_check = "two"
    kubernetes.execute(kubernetes.plan().actions)
    for broker_id in (2, 3):
        kubernetes.obey_one(BrokerId(broker_id))
    kubernetes.execute(kubernetes.plan().actions)
    assert leaders(kubernetes) == "1@1"

    kubernetes.ended[Incarnation("f" * 32)] = "was killed"
    kubernetes.execute(kubernetes.plan().actions)
    assert leaders(kubernetes) == "2@1"


def test_nobody_is_waited_for_who_died_before_the_first_admission() -> None:
    kubernetes = replicated(min_isr=1)
    status = kubernetes.brokers[BrokerId(3)].status
    fresh = replace(kubernetes.brokers[BrokerId(3)].spec, admitted_incarnation=None)
    broker = replace(kubernetes.brokers[BrokerId(3)], spec=fresh, status=status)
    kubernetes.brokers[BrokerId(3)] = kubernetes.stored(broker)
    kubernetes.maps_check = "one"
    kubernetes.kill(3)
    kubernetes.kill(1)
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.obey_one(BrokerId(2))
    kubernetes.execute(kubernetes.plan().actions)
    assert leaders(kubernetes) == "2@1"


def test_nor_is_a_proposal_judged_before() -> None:
    kubernetes = replicated()
    kubernetes.maps_check = "one"
    propose(kubernetes, "1@1 2@1")
    kubernetes.execute(kubernetes.plan().actions)
    assert isr(kubernetes) == "1@1 2@1 3@1"

    kubernetes.settle()
    assert isr(kubernetes) == "1@1 2@1"


def test_a_session_that_the_object_has_forgotten_is_not_gone_on_with() -> None:
    kubernetes = replicated()
    status = kubernetes.brokers[BrokerId(1)].status
    kubernetes.status(1, replace(status, session=Session(5)))
    kubernetes.execute(kubernetes.plan().actions)

    assert kubernetes.brokers[BrokerId(1)].spec.session == 6


# -- epochs that only the dead know (decision 17)


def silenced(*broker_ids: int) -> Kubernetes:
    """These die, and then all maps are looked at anew: they cannot say what they know."""
    kubernetes = replicated()
    kubernetes.maps_check = "one"
    kubernetes.settle()
    for broker_id in broker_ids:
        kubernetes.kill(broker_id)
    kubernetes.maps_check = "two"
    kubernetes.settle()
    return kubernetes


def epoch(kubernetes: Kubernetes) -> int:
    (state,) = kubernetes.maps["orders"].spec.generations[0].partitions
    return state.leader_epoch


def test_an_epoch_that_a_silent_broker_may_know_is_leapt_over() -> None:
    before = epoch(replicated())

    kubernetes = silenced(1)
    assert leaders(kubernetes) == "2@1"
    assert epoch(kubernetes) == before + LEAP

    kubernetes.kill(2)
    kubernetes.start(1)
    kubernetes.settle()
    assert epoch(kubernetes) == before + LEAP + 1, "all that live and the last leader have spoken"


def test_nobody_leads_while_those_who_are_silent_could_have_been_a_whole_isr() -> None:
    kubernetes = silenced(1, 2)
    assert leaders(kubernetes) == "1@1"

    kubernetes.start(2)
    kubernetes.settle()
    assert leaders(kubernetes) == "3@1", "the one that went on"
    assert epoch(kubernetes) >= LEAP


def test_with_a_min_isr_of_one_an_operator_that_starts_stops_no_failover() -> None:
    kubernetes = replicated(min_isr=1)
    kubernetes.kill(1)
    kubernetes.kill(2)
    kubernetes.maps_check = "new"
    kubernetes.settle()
    assert leaders(kubernetes) == "3@1"


def test_a_person_may_go_on_without_those_who_are_silent() -> None:
    kubernetes = silenced(1, 2)
    (state,) = kubernetes.maps["orders"].spec.generations[0].partitions
    consent = f"0@{state.partition_epoch}/1+2"
    condition = next(
        one for one in kubernetes.topics["orders"].status.conditions if one.type == "Ready"
    )
    assert consent in condition.message

    found = kubernetes.topics["orders"]
    annotations = {labels.UNCLEAN_ELECTION: consent}
    kubernetes.topics["orders"] = kubernetes.stored(
        replace(found, metadata=replace(found.metadata, annotations=annotations))
    )
    kubernetes.settle()
    kubernetes.settle()
    assert leaders(kubernetes) == "3@1"
    assert epoch(kubernetes) >= LEAP
