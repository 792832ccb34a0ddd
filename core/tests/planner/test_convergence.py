"""An operator that is killed anywhere does no harm, and the next one finishes its work.

The model checks every write as it is made: epochs only rise, no partition vanishes without a
tombstone, no ISR falls below its floor, no buried id comes back, what is written reads back.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.broker_status import Tail
from chiplog_core.model.conditions import ConditionStatus
from chiplog_core.topic_name import CONSUMER_OFFSETS
from tests.planner.model import Kubernetes
from tests.planner.objects import partitions_of, topic
from tests.planner.rebalances import move, rebalance

EXPECTED = {"Ready", "ResourceConflict", "NotSupported", "RecordsAtRisk"}
"""What may be the matter with a topic after all brokers have come back."""

REPLICATED_OFFSETS = {
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 3,
}
PAGE_CACHE = {"chiplog.durability": "PageCache"}


def busy() -> Kubernetes:
    """A cluster in which a little of everything is to be done at once."""
    kubernetes = Kubernetes(3)
    kubernetes.apply(topic("grows", partitions=2))
    kubernetes.apply(topic("goes", partitions=2))
    kubernetes.apply(topic("stays", partitions=2, deletionPolicy="Retain"))
    kubernetes.run()
    kubernetes.apply(topic("grows", partitions=5, config={"retention.ms": 9}))
    kubernetes.delete("goes")
    kubernetes.delete("stays")
    kubernetes.apply(topic("new", partitions=3))
    kubernetes.configure(4, config={"log.retention.hours": 3})
    kubernetes.kill(2)
    kubernetes.start(3)
    return kubernetes


def what_there_is(kubernetes: Kubernetes) -> Any:
    """All that matters in the end: no versions, no times, no numbers of epochs.

    Nor where new partitions went, which depends on who was alive at that moment.
    """
    maps, brokers = kubernetes.maps, kubernetes.brokers
    return (
        {name: (one.spec.config, one.spec.owner_uid) for name, one in maps.items()},
        {
            (name, one.partition): one.leader is None
            for name, _, one in partitions_of(maps.values())
        },
        {name: one.metadata.finalizers for name, one in kubernetes.topics.items()},
        {name: one.status.conditions[0].reason for name, one in kubernetes.topics.items()},
        {one: (broker.spec.session, broker.spec.fenced) for one, broker in brokers.items()},
        [(one.type, one.status) for one in kubernetes.cluster.status.conditions],
    )


def test_every_prefix_of_every_plan_leads_to_the_same_end() -> None:
    start = busy()
    straight = deepcopy(start)
    rounds = straight.settle()
    assert rounds <= 6

    for _ in range(rounds):
        actions = start.plan().actions
        for length in range(len(actions)):
            killed = deepcopy(start)
            killed.execute(actions[:length])
            assert killed.settle() <= 8
            assert what_there_is(killed) == what_there_is(straight)
        start.execute(actions)
        start.obey()


def test_every_single_action_of_a_plan_may_be_lost_or_come_late() -> None:
    start = busy()
    actions = start.plan().actions
    straight = deepcopy(start)
    straight.settle()

    for number, action in enumerate(actions):
        lossy = deepcopy(start)
        lossy.execute((*actions[:number], *actions[number + 1 :]))
        lossy.settle()
        lossy.do(action)  # it comes at last, after all was done without it
        lossy.settle()
        assert what_there_is(lossy) == what_there_is(straight)


def test_a_plan_for_nothing_to_do_is_empty() -> None:
    kubernetes = busy()
    kubernetes.settle()

    assert kubernetes.plan().actions == ()


class Cluster(RuleBasedStateMachine):
    """Users, brokers and a mortal operator, in any order."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.kubernetes = Kubernetes(3, config=REPLICATED_OFFSETS)
        self.replicas = 1
        self.offsets_id: TopicId | None = None

    @initialize(replicas=st.sampled_from([1, 3]))
    def begin(self, replicas: int) -> None:
        self.replicas = replicas
        self.kubernetes.run()

    @rule(
        target=names,
        name=st.sampled_from(["a", "b", "a.b", "a_b"]),
        partitions=st.integers(1, 5),
        policy=st.sampled_from(["Delete", "Retain"]),
        config=st.sampled_from([{}, PAGE_CACHE]),
    )
    def apply(self, name: str, partitions: int, policy: str, config: dict[str, str]) -> str:
        key = name.replace("_", "-")
        known = self.kubernetes.topics.get(key)
        if known is None or known.metadata.deletion_timestamp is None:
            self.kubernetes.apply(
                topic(
                    key,
                    topicName=known.topic_name if known else name,
                    partitions=partitions,
                    replicas=self.replicas,
                    deletionPolicy=policy,
                    config=config,
                )
            )
        return key

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self.kubernetes.topics:
            self.kubernetes.delete(name)

    @rule(name=names)
    def strip_the_object(self, name: str) -> None:
        self.kubernetes.topics.pop(name, None)

    @rule(broker_id=st.integers(1, 3))
    def kill(self, broker_id: int) -> None:
        self.kubernetes.kill(broker_id)

    @rule(
        broker_id=st.integers(1, 3), tail=st.sampled_from([Tail.INTACT, Tail.INTACT, Tail.SUSPECT])
    )
    def start(self, broker_id: int, tail: str) -> None:
        self.kubernetes.start(broker_id, tail=Tail(tail))

    @rule(broker_id=st.integers(1, 3))
    def drain(self, broker_id: int) -> None:
        broker = self.kubernetes.brokers[BrokerId(broker_id)]
        self.kubernetes.status(broker_id, replace(broker.status, draining=True))

    @precondition(lambda self: self.kubernetes.ended)
    @rule(data=st.data())
    def acquit(self, data: st.DataObject) -> None:
        """A process given up by its Lease renews again."""
        process = data.draw(st.sampled_from(sorted(self.kubernetes.ended)))
        del self.kubernetes.ended[process]
        self.kubernetes.renewing.add(process)

    @rule(data=st.data())
    def rebalance(self, data: st.DataObject) -> None:
        """Orders for the state there is, which may be another one when they are carried out."""
        moves = {}
        for name, one, state in partitions_of(self.kubernetes.maps.values()):
            is_current = one.topic_id == self.kubernetes.maps[name].spec.current
            if is_current and state.leader is not None and data.draw(st.booleans()):
                to = data.draw(st.sampled_from(state.replicas))
                moves[name, state.partition] = move(self.kubernetes, state.partition, to, name)
        self.kubernetes.rebalances = (rebalance(*moves.values()),)

    @rule()
    def obey(self) -> None:
        self.kubernetes.obey()

    @rule(data=st.data())
    def plan_and_die(self, data: st.DataObject) -> None:
        actions = self.kubernetes.plan().actions
        length = data.draw(st.integers(0, len(actions)))
        event("killed halfway" if length < len(actions) else "finished")
        self.kubernetes.execute(actions[:length])

    @rule()
    def plan_before_everything_was_listed(self) -> None:
        ids = set(self.kubernetes.maps)
        self.kubernetes.execute(self.kubernetes.plan(is_complete=False, topics=()).actions)
        assert set(self.kubernetes.maps) == ids

    @invariant()
    def names_are_told_apart(self) -> None:
        keys = [
            name.replace(".", "_")
            for name, one in self.kubernetes.maps.items()
            if one.spec.current is not None
        ]
        assert len(keys) == len(set(keys))

    @invariant()
    def the_offsets_of_groups_are_never_begun_anew(self) -> None:
        observed = self.kubernetes.maps[CONSUMER_OFFSETS].spec
        self.offsets_id = self.offsets_id or observed.current
        assert observed.current == self.offsets_id
        assert len(observed.generations[0].partitions) == 2

    @invariant()
    def nothing_buried_is_alive(self) -> None:
        alive = {one.topic_id for _, one, _ in partitions_of(self.kubernetes.maps.values())}
        assert not alive & self.kubernetes.buried

    def teardown(self) -> None:
        """All brokers come back intact: then every topic that is right gets its leaders."""
        for broker_id in self.kubernetes.brokers:
            self.kubernetes.start(broker_id)
        self.kubernetes.settle(rounds=15)
        for one in self.kubernetes.topics.values():
            ready = one.status.conditions[0]
            expected = {
                "Ready",
                "ResourceConflict",
                "NotSupported",
                "RecordsAtRisk",
                "InvalidConfig",
            }
            assert ready.reason in expected, ready
            if ready.status is ConditionStatus.TRUE:
                self._is_led(one.topic_name)

        told = {one.reason for one in self.kubernetes.cluster.status.conditions}
        if "RecordsAtRisk" not in told:
            self._is_led(CONSUMER_OFFSETS)

    def _is_led(self, name: str) -> None:
        sessions = {one: broker.spec.session for one, broker in self.kubernetes.brokers.items()}
        for state in self.kubernetes.maps[name].spec.generations[0].partitions:
            assert state.leader is not None
            assert state.leader.session == sessions[state.leader.broker_id]


@pytest.mark.timeout(300)
def test_any_order_of_events() -> None:
    run_state_machine_as_test(
        Cluster,
        settings=settings(
            max_examples=100,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
