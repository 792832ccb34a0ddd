"""Replication of a partition that is moved from broker to broker all the time.

What must hold on top: a broker deletes what it has of a partition only when all members of the ISR
have everything that was acknowledged.
"""

from dataclasses import replace
from random import Random

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Replace
from chiplog_core.model.broker_status import SettledPartition
from chiplog_core.observed.broker_states import find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.planner.moves.reassignment import begin, why_not_target
from tests.planner.objects import partitions_of, removable
from tests.planner.replicas import TOPIC, Key, Process, Replication

BROKERS = 5


class Moving(Replication):
    """Five brokers, and one topic whose replicas are moved."""

    def __init__(self, rng: Random, durability: str = "Fsync") -> None:
        self.deletions = 0
        self.told: dict[BrokerId, list[tuple[SettledPartition, ...]]] = {}
        super().__init__(rng, durability, brokers=BROKERS)

    def move(self, broker_id: BrokerId) -> None:
        """A user wants the replicas elsewhere, or as they were."""
        key = next(self.keys())
        state = self.states[key]
        others = [one for one in self.kubernetes.brokers if one != broker_id]
        target = (broker_id, *self.rng.sample(others, self.rng.choice((0, 1, 2, 2, 2, 3))))
        if self.rng.random() < 0.2:
            target = state.assigned
        world = self.kubernetes.world()
        known = find_broker_states(world, awaiting_admission(world))
        observed = self.kubernetes.maps[TOPIC]
        if why_not_target(state, target, observed.spec, known):
            return
        after = begin(state, target, key[0], known)
        (generation,) = observed.spec.generations
        spec = replace(observed.spec, generations=(replace(generation, partitions=(after,)),))
        action = Replace(resource=replace(observed, spec=spec), before=observed)
        if self.rng.random() < 0.2:
            self.late.append(action)
        else:
            self.kubernetes.do(action)

    def see(self, broker_id: BrokerId) -> None:
        super().see(broker_id)
        if self._speaks(broker_id) is None:
            return
        removed = {
            (one.topic_id, one.partition)
            for one in self.kubernetes.brokers[broker_id].status.removed_replicas
        }
        for _, generation, state in partitions_of(self.kubernetes.disks[broker_id].known.values()):
            key = generation.topic_id, state.partition
            if key in removed and broker_id in removable(state) and self.log(broker_id, key):
                self._delete(broker_id, key)

    def _delete(self, broker_id: BrokerId, key: Key) -> None:
        """The broker deletes what it has of the partition."""
        self.deletions += 1
        acknowledged = self.acknowledged.get(key, set())
        for ref in self.states[key].isr:
            missing = acknowledged - set(self.log(ref.broker_id, key))
            assert not missing or ref.broker_id in self.short, f"{ref} lacks {len(missing)} records"
        self.log(broker_id, key).clear()
        self.checkpoints.pop((broker_id, key), None)

    def publish(self, broker_id: BrokerId, *, is_old: bool = False) -> None:
        super().publish(broker_id, is_old=is_old)
        process = self._speaks(broker_id)
        if process is None:
            return
        told = self.told.setdefault(broker_id, [])
        if not is_old or not told:
            told.append(tuple(filter(None, (self._settled(process, key) for key in self.keys()))))
        said = self.rng.choice(told) if is_old else told[-1]
        status = self.kubernetes.brokers[broker_id].status
        if status.settled_partitions != said:
            self.kubernetes.status(broker_id, replace(status, settled_partitions=said))

    def _settled(self, process: Process, key: Key) -> SettledPartition | None:
        """The leader's proof that leftovers are not needed, if it has one."""
        leadership, view = process.leaderships.get(key), process.views.get(key)
        if leadership is None or view is None or not view.leftovers or process.session is None:
            return None
        fetched = {ref.broker_id for ref, end in leadership.ends.items() if end >= leadership.start}
        if not set(view.replicas) <= fetched | {process.broker_id}:
            return None
        return SettledPartition(
            topic_id=key[0],
            partition=key[1],
            session=process.session,
            leader_epoch=leadership.epoch,
        )
