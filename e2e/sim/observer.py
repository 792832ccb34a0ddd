"""What all observers of a simulation look at, and what they ask of it, without side effects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chiplog_core.model.broker import BrokerIntent
from chiplog_kube import kinds
from e2e.sim.api_store import ApiStore, Change
from e2e.sim.decisions import DecisionTrace
from e2e.sim.disk import Disks
from e2e.sim.history import History, broker_of
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node
from e2e.sim.logs import label_of

FRESH_S: Final = 3.0
"""A broker whose Lease was renewed within this time counts as alive, as it does for operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenery:
    """The parts of a simulation that observers look at, and the history that they write."""

    store: ApiStore
    nodes: Mapping[int, Node]
    decisions: DecisionTrace
    history: History
    now_s: Callable[[], float]


class Observer:
    """Questions about brokers that several observers have."""

    def __init__(self, scenery: Scenery) -> None:
        self._store = scenery.store
        self._nodes = scenery.nodes
        self._decisions = scenery.decisions
        self._history = scenery.history
        self._now_s = scenery.now_s
        self._renewed: dict[int, float] = {}
        """Broker -> when its Lease was renewed last."""
        self._store.on_change.append(self._note_renewal)

    def _note_renewal(self, change: Change) -> None:
        if change.kind is kinds.LEASES:
            name = change.object["metadata"]["name"].removeprefix(f"{CLUSTER}-")
            if name.isdigit():
                self._renewed[int(name)] = self._now_s()

    def can_lead(self, member: str) -> bool:
        """Whether this member of an ISR could certainly be elected."""
        broker_id = broker_of(member)
        node, broker = self._nodes[broker_id], self._store_broker(broker_id)
        if node.process is None or node.process.is_paused or node.disks.error_count:
            return False
        is_renewing = self._now_s() - self._renewed.get(broker_id, -FRESH_S) < FRESH_S
        is_serving = broker["spec"].get("intent") != BrokerIntent.REMOVE
        is_draining = broker.get("status", {}).get("draining", False)
        return is_renewing and is_serving and not is_draining and self.is_in_session(member)

    def is_in_session(self, member: str) -> bool:
        """Whether the broker is admitted in just this session, and not fenced."""
        spec = self.broker(broker_of(member))
        return not spec.get("fenced") and member == f"{broker_of(member)}@{spec.get('session', 0)}"

    def has_compared(self, broker_id: int) -> bool:
        """Whether the broker's status says that it has compared its disk with all maps since the
        operator asked for that last."""
        broker = self._store_broker(broker_id)
        asked = broker["spec"].get("mapsCheck")
        return asked is not None and asked == broker.get("status", {}).get("mapsChecked")

    def broker(self, broker_id: int) -> dict[str, Any]:
        """The spec of a Broker object; empty if there is none."""
        spec: dict[str, Any] = self._store_broker(broker_id)["spec"]
        return spec

    def _store_broker(self, broker_id: int) -> dict[str, Any]:
        found = self._store.peek(kinds.BROKERS, NAMESPACE, f"{CLUSTER}-{broker_id}")
        return found or {"spec": {}}


def directories_on(disks: Disks) -> dict[str, str]:
    """Label of each replica on a disk -> its directory."""
    found = {label_of(disks.data, one, disks.before_damage): one for one in disks.data.names("")}
    return {label: directory for label, directory in found.items() if label}
