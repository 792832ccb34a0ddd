"""Clusters in which moves of every kind are pending, for tests that stop the operator anywhere."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Final

from chiplog_core.admin.answers import from_answer
from chiplog_core.admin.bodies import to_body
from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import PartitionTarget, ReassignPartitions
from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.admin import AdminRequest
from chiplog_core.model.broker import Broker, BrokerIntent
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.model.rebalance_status import ReplicaMove
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.planner.moves.wanted_replicas import count_copies
from chiplog_core.topic_name import is_internal
from tests.planner.copying import Copying
from tests.planner.objects import of_users, partitions_of, removable, topic
from tests.planner.rebalances import rebalance

OFFSETS: Final[dict[str, object]] = {
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 3,
}
MOST_REPLICAS: Final = 4
MOST_COPIES: Final = 5
"""So many partitions a broker may copy at a time, but for those that a tool asks for."""
MOST_INTERNAL_COPIES: Final = 1
ASKED: Final = BrokerId(1)
"""The broker that gets requests of tools: its id is never among those that are removed."""

Place = tuple[str, PartitionIndex]
"""A topic and a partition of it."""


class Pending(Copying):
    """Brokers start when they can, and every write is checked for what only a walk can see."""

    def __init__(self, brokers: int, config: dict[str, object] | None = None) -> None:
        self.offsets = config or OFFSETS
        self.asked: dict[Place, tuple[BrokerId, ...]] = {}
        """What a tool asked for: such moves begin at once, however many they are."""
        self.proposed: dict[Place, tuple[BrokerId, ...]] = {}
        """What the Rebalance asks for."""
        self.changed: set[str] = set()
        """Topics whose number of replicas was changed."""
        super().__init__(brokers, config=self.offsets)

    def obey(self) -> None:
        for broker_id, broker in self.brokers.items():
            process = broker.status.incarnation
            if not broker.spec.retired and (process is None or process in self.ended):
                self.start(broker_id)
        super().obey()

    def _replace(self, new: Broker | PartitionMap) -> None:
        before = None if isinstance(new, Broker) else self.maps.get(new.spec.topic_name)
        super()._replace(new)
        if before is not None and self.maps[before.spec.topic_name] is not before:
            self._check(before, self.maps[before.spec.topic_name])

    def _check(self, before: PartitionMap, after: PartitionMap) -> None:
        """Nothing is released without a proof, and no broker copies too much at a time."""
        known = {
            (one.topic_id, state.partition): state for _, one, state in partitions_of([before])
        }
        begun: set[BrokerId] = set()
        for name, generation, state in partitions_of([after]):
            was = known.get((generation.topic_id, state.partition))
            if was is None or was is state:
                continue
            if removable(state) - removable(was):
                assert self._is_proven(generation.topic_id, was), f"{name}: released unproven"
            if (name, state.partition) not in self.asked:
                begun.update(set(state.adding) - set(was.adding))
        if begun:
            world = self.world()
            brokers = find_broker_states(world, awaiting_admission(world))
            counted = count_copies(self.maps, brokers, {})
            if is_internal(after.spec.topic_name):
                copies, most = counted.internal, MOST_INTERNAL_COPIES
            else:
                copies, most = counted.of_users, MOST_COPIES
            assert max(copies[one] for one in begun) <= most

    def _is_proven(self, topic_id: TopicId, state: PartitionState) -> bool:
        """Whether the leader has reported in this leadership that all replicas have everything."""
        leader = state.leader
        assert leader is not None
        return {ref.broker_id for ref in state.isr} == set(state.replicas) and any(
            (one.topic_id, one.partition) == (topic_id, state.partition)
            and (one.session, one.leader_epoch) == (leader.session, state.leader_epoch)
            for one in self.brokers[leader.broker_id].status.settled_partitions
        )

    # -- what users do

    @property
    def staying(self) -> list[BrokerId]:
        """The brokers that are not being removed."""
        return [
            one
            for one, broker in self.brokers.items()
            if not broker.spec.retired and broker.spec.intent is not BrokerIntent.REMOVE
        ]

    def make_topics(self, partitions: int, topics: int, rng: Random) -> None:
        """Topics with so many partitions together."""
        for number in range(topics):
            count = partitions // topics + (number < partitions % topics)
            if count:
                replicas = rng.randint(1, min(MOST_REPLICAS, len(self.staying)))
                self.apply(topic(f"t{number}", partitions=count, replicas=replicas))

    def change_replicas(self, rng: Random) -> None:
        name = rng.choice(sorted(self.topics))
        spec = self.topics[name].spec
        replicas = rng.randint(1, min(MOST_REPLICAS, len(self.staying)))
        self.changed.add(name)
        self.apply(topic(name, partitions=spec.partitions, replicas=replicas))

    def add_partitions(self, rng: Random) -> None:
        name = rng.choice(sorted(self.topics))
        spec = self.topics[name].spec
        more = (spec.partitions or 1) + rng.randint(1, 3)
        self.apply(topic(name, partitions=more, replicas=spec.replicas))

    def scale(self, rng: Random, most: int) -> None:
        """Never to fewer brokers than a topic has replicas."""
        least = max(one.spec.replicas or 1 for one in self.topics.values())
        self.configure(rng.randint(least, most), config=self.offsets)

    def restart(self, rng: Random) -> None:
        broker_id = rng.choice(self.staying)
        process = self.brokers[broker_id].status.incarnation
        if process is not None and process not in self.ended:
            self.kill(broker_id)

    def ask(self, rng: Random, most: int) -> None:
        """A tool's request for partitions of one topic, with other replicas for each."""
        name = rng.choice(sorted(of_users(self.maps)))
        targets = self._targets(name, rng, most)
        spec = self.maps[name].spec
        assert spec.current is not None
        epochs = {one.partition: one.partition_epoch for one in spec.current_partitions}
        operation = ReassignPartitions(
            name=name,
            topic_id=spec.current,
            targets={
                one: PartitionTarget(replicas=target, partition_epoch=epochs[one])
                for one, target in targets.items()
            },
        )
        op, body = to_body(operation)
        deadline = self.now + timedelta(seconds=30)
        request = AdminRequest(
            id=f"r-{next(self._numbers)}", principal="User:a", op=op, body=body, deadline=deadline
        )
        status = self.brokers[ASKED].status
        self.status(ASKED, replace(status, requests=(request,)))
        self.asked = {(name, one): target for one, target in targets.items()}

    def approve(self, rng: Random, most: int) -> None:
        """A Rebalance whose proposal moves replicas of each topic."""
        moves = []
        for name in sorted(of_users(self.maps)):
            targets = self._targets(name, rng, most)
            states = {one.partition: one for one in self.maps[name].spec.current_partitions}
            for one, target in targets.items():
                self.proposed[name, one] = target
                moves.append(
                    ReplicaMove(
                        topic=name,
                        partition=one,
                        replicas=target,
                        expected_replicas=states[one].replicas,
                    )
                )
        found = rebalance()
        proposal = found.status.proposal
        assert proposal is not None
        status = replace(found.status, proposal=replace(proposal, replica_moves=tuple(moves)))
        self.rebalances = (replace(found, status=status),)

    def _targets(
        self, name: str, rng: Random, most: int
    ) -> dict[PartitionIndex, tuple[BrokerId, ...]]:
        """Other replicas, as many as now, for some partitions at rest that nobody else moves."""
        free = [
            one
            for one in self.maps[name].spec.current_partitions
            if not one.is_moving
            and not one.leftovers
            and len(one.replicas) <= len(self.staying)
            and (name, one.partition) not in self.asked | self.proposed
        ]
        chosen = rng.sample(free, min(len(free), rng.randint(1, most)))
        return {one.partition: tuple(rng.sample(self.staying, len(one.replicas))) for one in chosen}

    # -- the end

    def check_wanted(self) -> None:
        """Everything is as the last specs and orders ask for, and nothing moves any more."""
        staying = set(self.staying)
        left = [one for one in self.brokers.values() if not one.spec.retired]
        assert len(left) == self.cluster.spec.replicas
        for _, _, state in partitions_of(self.maps.values()):
            assert not state.is_moving
            assert not state.leftovers
            assert state.leader is not None
            assert {ref.broker_id for ref in state.isr} == set(state.replicas) <= staying
        for name, one in self.topics.items():
            counts = Counter(len(s.replicas) for s in self.maps[name].spec.current_partitions)
            assert counts == {one.spec.replicas: one.spec.partitions}
        for place, target in {**self._accepted(), **self.proposed}.items():
            is_lasting = place[0] not in self.changed and staying.issuperset(target)
            if is_lasting and (place not in self.proposed or not self._was_scaled()):
                name, index = place
                assert self.maps[name].spec.current_partitions[index].replicas == target

    def _was_scaled(self) -> bool:
        """Whether a broker was removed, so that a move may have come before the Rebalance's."""
        return any(one.spec.retired for one in self.brokers.values())

    def _accepted(self) -> dict[Place, tuple[BrokerId, ...]]:
        """What a tool asked for and the operator has begun."""
        codes = {
            part.partition: part.code
            for one in self.brokers[ASKED].spec.answers
            for part in from_answer(one).partitions
        }
        return {
            place: target
            for place, target in self.asked.items()
            if codes.get(place[1]) is Code.NONE
        }


def small(rng: Random, brokers: int, partitions: int) -> Pending:
    """A cluster with a few changes pending, some of them begun."""
    found = Pending(brokers)
    found.run()
    found.make_topics(partitions, rng.randint(1, 3), rng)
    found.settle()
    changes: list[Callable[[], None]] = [
        partial(found.ask, rng, 6),
        partial(found.approve, rng, 4),
        partial(found.change_replicas, rng),
        partial(found.add_partitions, rng),
        partial(found.scale, rng, 6),
        partial(found.restart, rng),
    ]
    chosen = sorted(rng.sample(range(len(changes)), rng.randint(2, 5)))
    for number in chosen:
        changes[number]()
        for _ in range(rng.randint(0, 3)):
            found.execute(found.plan().actions)
            found.obey()
    return found
