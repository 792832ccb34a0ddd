"""A cluster whose brokers copy records at once: for tests of replicas that move."""

from collections.abc import Iterator
from dataclasses import replace

from chiplog_core.ids import BrokerId, ReplicaRef
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_status import IsrProposal, SettledPartition
from chiplog_core.model.partition_map import Generation, PartitionState
from tests.planner.lookups import look
from tests.planner.model import Kubernetes

ROUNDS = 200


class Copying(Kubernetes):
    """Each leader proposes every live replica for the ISR, and reports that moved partitions are
    settled."""

    def settle(self, rounds: int = ROUNDS, **changes: object) -> int:
        return super().settle(rounds, **changes)

    def _obey(self, broker_id: BrokerId, broker: Broker) -> None:
        super()._obey(broker_id, broker)
        broker = self.brokers[broker_id]
        status = replace(
            broker.status,
            proposals=tuple(self._proposals(broker)),
            settled_partitions=tuple(self._settled(broker)),
        )
        if status != broker.status:
            self.status(broker_id, status)

    def _led(self, broker: Broker) -> Iterator[tuple[Generation, PartitionState]]:
        """What the broker leads, by the maps that it has applied."""
        own = ReplicaRef(broker.spec.broker_id, broker.spec.session)
        for one in self.disks[broker.spec.broker_id].known.values():
            yield from look(one).led.get(own, ())

    def _proposals(self, broker: Broker) -> Iterator[IsrProposal]:
        for generation, state in self._led(broker):
            in_sync = state.isr
            refs = [ref for ref in map(self.ref_of, state.replicas) if ref not in in_sync]
            caught_up = [ref for ref in refs if self._is_alive(ref.broker_id)]
            if caught_up:
                again = {one.broker_id for one in caught_up}
                others = tuple(one for one in state.isr if one.broker_id not in again)
                yield IsrProposal(
                    topic_id=generation.topic_id,
                    partition=state.partition,
                    session=broker.spec.session,
                    leader_epoch=state.leader_epoch,
                    base_partition_epoch=state.partition_epoch,
                    isr=(*others, *caught_up),
                )

    def _settled(self, broker: Broker) -> Iterator[SettledPartition]:
        for generation, state in self._led(broker):
            if not state.leftovers:
                continue
            in_sync = {ref.broker_id for ref in state.isr if self.ref_of(ref.broker_id) == ref}
            if in_sync == set(state.replicas):
                yield SettledPartition(
                    topic_id=generation.topic_id,
                    partition=state.partition,
                    session=broker.spec.session,
                    leader_epoch=state.leader_epoch,
                )

    def ref_of(self, broker_id: BrokerId) -> ReplicaRef:
        return ReplicaRef(broker_id, self.brokers[broker_id].spec.session)

    def _is_alive(self, broker_id: BrokerId) -> bool:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.status.session != broker.spec.session:
            return False
        process = broker.status.incarnation
        return process == broker.spec.admitted_incarnation and process not in self.ended
