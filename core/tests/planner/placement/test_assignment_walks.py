"""Users place partitions by hand, and everything else of `test_scaling_walks` happens, too."""

from typing import Any

import pytest

from chiplog_core.planner.placement.assignments import in_force
from tests.planner.moves.test_scaling_walks import MOST_BROKERS, PARTITIONS, Walk
from tests.planner.objects import topic


class PlacedWalk(Walk):
    """Topics name brokers for some of their partitions: also such as do not exist."""

    def apply(self) -> None:
        name = self.rng.choice(sorted(PARTITIONS))
        known = self.kubernetes.topics.get(name)
        if known is not None and known.metadata.deletion_timestamp is not None:
            return
        replicas = self.rng.choice((1, 2, 3))
        partitions = PARTITIONS[name]
        brokers = range(1, MOST_BROKERS + 2)
        placed = [
            {"partition": one, "replicas": self.rng.sample(brokers, replicas)}
            for one in self.rng.sample(range(partitions), self.rng.choice((0, 1, partitions)))
        ]
        field = self.rng.choice(("assignments", "assignments", "initialAssignments"))
        spec: dict[str, Any] = {"partitions": partitions, "replicas": replicas, field: placed}
        self.kubernetes.apply(topic(name, **spec))

    def check(self) -> None:
        for name, one in list(self.kubernetes.topics.items()):
            found = self.kubernetes.maps.get(name)
            if found is None or found.spec.current is None:
                reason = next(said.reason for said in one.status.conditions)
                assert reason in {"AssignmentNotPossible", "InvalidConfig"}
                del self.kubernetes.topics[name]
        super().check()
        wanted = self.kubernetes.cluster.spec.replicas
        for name, one in self.kubernetes.topics.items():
            assigned = in_force(one.spec, self.kubernetes.brokers)
            if (one.spec.replicas or 1) <= wanted:
                for state in self.kubernetes.maps[name].spec.current_partitions:
                    assert state.replicas == assigned.get(state.partition, state.replicas)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_whatever_happens_partitions_end_where_their_topics_place_them(first: int) -> None:
    for seed in range(first, first + 20):
        walk = PlacedWalk(seed)
        for _ in range(walk.rng.randint(10, 60)):
            walk.step()
        walk.end()
        walk.check()
