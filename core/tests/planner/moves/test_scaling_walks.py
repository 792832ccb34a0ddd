"""Users change numbers of brokers and replicas, brokers die, operators are killed: in any order.

When all brokers are back and nothing changes any more, everything is as the last specs ask for. The
model checks every write of a map on the way.
"""

from random import Random

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.conditions import Condition
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.topic_name import CONSUMER_OFFSETS
from tests.planner.copying import Copying
from tests.planner.objects import partitions_of, topic

OFFSETS = {"offsets.topic.num.partitions": 2, "offsets.topic.replication.factor": 3}
PARTITIONS = {"few": 4, "more": 7}
MOST_BROKERS = 6


class Walk:
    """One cluster, and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311 - a walk is to be the same every time
        self.kubernetes = Copying(self.rng.choice((2, 3, 4)), config=OFFSETS)
        self.kubernetes.run()
        self.apply()
        self.kubernetes.settle()

    def step(self) -> None:
        """One thing happens."""
        steps = (
            *(self.apply, self.scale, self.name, self.kill, self.start, self.delete),
            *(self.plan, self.obey),
        )
        (one,) = self.rng.choices(steps, (15, 15, 5, 10, 20, 2, 18, 20))
        one()

    def apply(self) -> None:
        name = self.rng.choice(sorted(PARTITIONS))
        known = self.kubernetes.topics.get(name)
        if known is None or known.metadata.deletion_timestamp is None:
            replicas = self.rng.choice((1, 2, 3, 3, 4))
            self.kubernetes.apply(topic(name, partitions=PARTITIONS[name], replicas=replicas))

    def delete(self) -> None:
        name = self.rng.choice(sorted(PARTITIONS))
        if name in self.kubernetes.topics:
            self.kubernetes.delete(name)

    def scale(self) -> None:
        self.kubernetes.configure(self.rng.randint(1, MOST_BROKERS), config=OFFSETS)

    def name(self) -> None:
        """A user names brokers that are to go first."""
        known = sorted(self.kubernetes.brokers)
        named = self.rng.sample(known, self.rng.randint(0, min(2, len(known))))
        self.kubernetes.annotate(remove_broker_ids=",".join(map(str, named)) or None)

    def kill(self) -> None:
        alive = [one for one in self.kubernetes.brokers if self._is_running(one)]
        if alive:
            self.kubernetes.kill(self.rng.choice(alive))

    def start(self, share: float = 0.7) -> None:
        for broker_id, broker in sorted(self.kubernetes.brokers.items()):
            is_down = not broker.spec.retired and not self._is_running(broker_id)
            if is_down and self.rng.random() < share:
                self.kubernetes.start(broker_id)

    def plan(self) -> None:
        """An operator plans, and may be killed before it has written everything."""
        actions = self.kubernetes.plan().actions
        self.kubernetes.execute(actions[: self.rng.randint(0, len(actions))])

    def obey(self) -> None:
        for broker_id in sorted(self.kubernetes.brokers):
            if self.rng.random() < 0.7:
                self.kubernetes.obey_one(broker_id)

    def _is_running(self, broker_id: BrokerId) -> bool:
        process = self.kubernetes.brokers[broker_id].status.incarnation
        return process is not None and process not in self.kubernetes.ended

    def end(self) -> None:
        """All brokers come back, also those that are only made now, and nothing else happens."""
        for _ in range(6):
            self.start(share=1)
            self.kubernetes.settle()

    def check(self) -> None:
        maps, brokers = self.kubernetes.maps, self.kubernetes.brokers
        for _, _, state in partitions_of(maps.values()):
            assert not state.is_moving
            assert not state.leftovers
            assert state.leader is not None
            assert {ref.broker_id for ref in state.isr} == set(state.replicas)
        wanted = self.kubernetes.cluster.spec.replicas
        if self._ready().reason != "InvalidConfig":  # else a topic needs more brokers
            left = [one for one, broker in brokers.items() if not broker.spec.retired]
            assert len(left) == wanted
            assert _counts(maps[CONSUMER_OFFSETS].spec.current_partitions) == {min(3, wanted)}
        for one in self.kubernetes.topics.values():
            replicas = one.spec.replicas or 1
            if replicas <= wanted:
                assert _counts(maps[one.topic_name].spec.current_partitions) == {replicas}

    def _ready(self) -> Condition:
        conditions = self.kubernetes.cluster.status.conditions
        return next(one for one in conditions if one.type == "Ready")


def _counts(partitions: tuple[PartitionState, ...]) -> set[int]:
    return {len(state.replicas) for state in partitions}


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_whatever_happens_the_last_specs_are_met(first: int) -> None:
    for seed in range(first, first + 25):
        walk = Walk(seed)
        for _ in range(walk.rng.randint(10, 60)):
            walk.step()
        walk.end()
        walk.check()
