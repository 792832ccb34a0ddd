"""The operator's decisions about partitions, taken from the changes of PartitionMaps."""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from chiplog_core.model.partition_map import PartitionMap, PartitionMapSpec, PartitionState
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from e2e.sim.api_store import ApiStore, Change
from e2e.sim.history import Decision, Leadership
from e2e.sim.wire import TopicPartition

NO_ORDER: Final = -1


class DecisionTrace:
    """Notes every change of a partition's entry in its PartitionMap."""

    def __init__(self, store: ApiStore, now_s: Callable[[], float]) -> None:
        self.decisions: list[Decision] = []
        self._now_s = now_s
        self.known: dict[str, Leadership] = {}
        """Partition's label -> its present entry in the map."""
        self.on_spec: list[Callable[[PartitionMapSpec], None]] = []
        """Called with the spec of each map that is written."""
        self.on_decision: list[Callable[[Decision], None]] = []
        """Called with each change of a partition's entry."""
        self.on_first: list[Callable[[str, Leadership], None]] = []
        """Called with the label and the first entry of each new partition."""
        self.on_restored: list[Callable[[dict[str, Leadership]], None]] = []
        """Called after each restore of etcd with the entries from before it, by label."""
        self._is_restoring = False
        self._store = store
        store.on_change.append(self._changed)

    def restored(self) -> None:
        """After a restore of etcd, read all maps without comparing them with those before: the
        differences come from the restore, not from decisions of the operator."""
        before, self.known = self.known, {}
        self._is_restoring = True
        for manifest in self._store.all_of(kinds.PARTITION_MAPS):
            self._compare(manifest)
        self._is_restoring = False
        for notify in self.on_restored:
            notify(before)

    def _changed(self, change: Change) -> None:
        if change.kind is kinds.PARTITION_MAPS:
            self._compare(change.object)

    def _compare(self, manifest: Manifest) -> None:
        """Note each partition of a PartitionMap whose entry changed."""
        spec = PartitionMap.from_manifest(manifest).spec
        for notify in self.on_spec:
            notify(spec)
        for generation in spec.generations:
            topic_id = UUID(bytes=generation.topic_id.value)
            for state in generation.partitions:
                label = str(TopicPartition(spec.topic_name, int(state.partition), topic_id))
                self._note(label, spec, state)

    def _note(self, label: str, spec: PartitionMapSpec, state: PartitionState) -> None:
        """Note a partition's entry, and a decision if it was known and differs."""
        after = Leadership(
            leader=str(state.leader or ""),
            leader_epoch=int(state.leader_epoch),
            partition_epoch=int(state.partition_epoch),
            isr=tuple(map(str, state.isr)),
            min_isr=spec.min_isr,
            is_asking=state.reports_wanted,
            replicas=tuple(map(int, state.replicas)),
            adding=tuple(map(int, state.adding)),
            removing=tuple(map(int, state.removing)),
            leftovers=tuple(
                (int(one.broker), NO_ORDER if one.removable_since is None else one.removable_since)
                for one in state.leftovers
            ),
        )
        before = self.known.get(label)
        self.known[label] = after
        if before is None and not self._is_restoring:
            for first in self.on_first:
                first(label, after)
        if before is not None and before != after:
            decision = Decision(self._now_s(), label, before, after)
            self.decisions.append(decision)
            for notify in self.on_decision:
                notify(decision)
