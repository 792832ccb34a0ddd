"""What repairs of replicas are decided by, and the orders for them in Brokers' specs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from chiplog_core.model.actions import Replace
from chiplog_core.model.broker import Broker, BrokerSpec
from chiplog_core.model.verification import ReplicaRepair, Verification
from chiplog_core.observed.settings import paused
from chiplog_core.spark.repair_fleet import ClusterState
from chiplog_core.spark.repairs import damaged_in, ended_orders
from chiplog_core.spark.steps import OrderRefetch
from chiplog_kube import kinds
from chiplog_kube.api import Conflict
from chiplog_kube.manifests import ObjectKey
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.execute import Executor
from chiplog_operator.observe import Observer


@dataclass(frozen=True, slots=True)
class Repairing:
    """Reads and writes for repairs, by one operator process."""

    caches: Caches
    observer: Observer
    executor: Executor

    def cluster_state(
        self, key: ClusterKey, resource: Verification, all_of_them: Iterable[Verification]
    ) -> ClusterState | None:
        """The state of the cluster on which repairs depend, including the replicas that other
        Verifications found damaged. None if anything about the cluster is unknown."""
        world = self.observer.from_caches(key)
        if not world.is_complete or world.unreadable_brokers or world.unreadable_maps:
            return None
        others = (
            repair
            for verification in all_of_them
            if verification.metadata.uid != resource.metadata.uid
            for repair in verification.status.repairs
        )
        why_no_orders = ""
        if world.cluster is None or paused(world.metadata):
            why_no_orders = f"BrokerCluster {key.name} is paused, missing or cannot be parsed"
        return ClusterState(
            brokers=world.brokers,
            maps=world.maps,
            damaged_elsewhere=damaged_in(others),
            why_no_orders=why_no_orders,
        )

    async def order(self, key: ClusterKey, wanted: OrderRefetch) -> None:
        """Add the order to fetch a replica again to the Broker's spec. Raises `Conflict` if it is
        not written."""
        for broker in self._brokers(key):
            if broker.spec.broker_id == wanted.replica:
                refetches = (*broker.spec.refetches, wanted.order)
                await self._write(key, replace(broker.spec, refetches=refetches), broker)
                return
        raise Conflict(f"BrokerCluster {key} has no Broker object for broker {wanted.replica}")

    async def withdraw(self, known: Mapping[ObjectKey, Verification]) -> None:
        """Remove the orders that no repair needs any more from Brokers' specs. `known` must have
        all Verifications, because an order whose Verification is missing is removed."""
        repairs: dict[ClusterKey, list[ReplicaRepair]] = {}
        for verification in known.values():
            reference = verification.spec.cluster_ref
            cluster = ClusterKey(
                reference.namespace or verification.metadata.namespace, reference.name
            )
            repairs.setdefault(cluster, []).extend(verification.status.repairs)
        for key in self._clusters_with_orders():
            for broker, kept in ended_orders(self._brokers(key), repairs.get(key, ())):
                try:
                    await self._write(key, replace(broker.spec, refetches=kept), broker)
                except Conflict:
                    continue  # the next pass observes it again

    async def _write(self, key: ClusterKey, spec: BrokerSpec, broker: Broker) -> None:
        """Write the Broker's spec. Raises `Conflict` if that fails for any reason."""
        action = Replace(resource=replace(broker, spec=spec))
        outcome = await self.executor.execute(key, [action])
        if not outcome.is_complete:
            raise Conflict(
                f"the API server did not accept the change of Broker {broker.metadata.name}"
            )

    def _brokers(self, key: ClusterKey) -> list[Broker]:
        return list(self.observer.from_caches(key).brokers.values())

    def _clusters_with_orders(self) -> list[ClusterKey]:
        """The clusters of Brokers whose specs have orders to fetch replicas again."""
        found = set()
        for manifest in self.caches[kinds.BROKERS].objects.values():
            spec = manifest.get("spec") or {}
            if spec.get("refetches"):
                found.add(ClusterKey(manifest["metadata"]["namespace"], spec["cluster"]))
        return sorted(found)
