"""Observes moves of replicas during the simulation, for the checkers, without side effects.

It reads PartitionMaps and Broker objects when they are written, the memory of brokers at that
moment, and the disks when a broker deletes a replica.
"""

from collections.abc import Iterator
from uuid import UUID

from chiplog_broker.metadata.view import PartitionView
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_kube import kinds
from e2e.sim.api_store import Change
from e2e.sim.disk import Disks
from e2e.sim.history import Decision, Leadership, broker_of
from e2e.sim.kubelet import Node
from e2e.sim.logs import label_of
from e2e.sim.move_history import (
    Adopted,
    Deleted,
    GivenToLeaving,
    LeaderToGo,
    Released,
    StillThere,
    Unasked,
)
from e2e.sim.observer import Observer, Scenery, directories_on
from e2e.sim.wire import TopicPartition


class MoveWatch(Observer):
    """Notes in the history of moves what the changes of maps alone do not show."""

    def __init__(self, scenery: Scenery) -> None:
        super().__init__(scenery)
        self._moves = scenery.history.moves
        self._ordered: dict[tuple[str, int], int] = {}
        """(partition, broker) -> partition epoch of the last order to delete its replica."""
        self._buried: set[tuple[str, int]] = set()
        """(topic id as in labels, broker) of each order to delete a topic."""
        self._leaving_since: dict[int, float] = {}
        self._lost_holders: dict[str, set[int]] = {}
        """Partition -> brokers that may have data of it by maps that a restore of etcd lost; until
        the operator settles the partition."""
        self._decisions.on_spec.append(self._note_orders)
        self._decisions.on_first.append(self._placed)
        self._decisions.on_decision.append(self._decided)
        self._decisions.on_restored.append(self._restored)
        self._store.on_change.append(self._changed)

    def _changed(self, change: Change) -> None:
        if change.kind is kinds.BROKERS:
            spec = change.object["spec"]
            if spec.get("intent") == BrokerIntent.REMOVE:
                self._leaving_since.setdefault(spec["brokerId"], self._now_s())
            else:
                self._leaving_since.pop(spec["brokerId"], None)

    def _note_orders(self, spec: PartitionMapSpec) -> None:
        """Note what a map that was written orders brokers to delete."""
        for generation in spec.generations:
            topic_id = UUID(bytes=generation.topic_id.value)
            for state in generation.partitions:
                for one in state.leftovers:
                    if one.removable_since is not None:
                        label = str(TopicPartition(spec.topic_name, int(state.partition), topic_id))
                        self._ordered[label, int(one.broker)] = int(one.removable_since)
        for tombstone in spec.tombstones:
            topic_id = UUID(bytes=tombstone.topic_id.value)
            buried = topic_of(str(TopicPartition(spec.topic_name, 0, topic_id)))
            self._buried |= {(buried, int(broker)) for broker in tombstone.brokers}

    def deletes(self, broker_id: int, disks: Disks, directory: str) -> None:
        """Called just before a broker deletes the replica in this directory."""
        if not (label := label_of(disks.data, directory, disks.before_damage)):
            return  # its name on the disk was lost
        order = self._ordered.get((label, broker_id))
        is_buried = (topic_of(label), broker_id) in self._buried
        entry = self._decisions.known.get(label)
        is_replica = (
            entry is not None
            and not is_buried
            and not entry.is_asking
            and broker_id in entry.replicas
            and order is not None
            and entry.partition_epoch > order
        )
        was_ordered = is_buried or order is not None
        self._moves.deletions.append(
            Deleted(self._now_s(), broker_id, label, was_ordered, is_replica)
        )

    # -- decisions of the operator

    def _placed(self, label: str, entry: Leadership) -> None:
        """Note which brokers of a new partition are being removed."""
        self._note_leaving(label, entry.replicas)

    def _decided(self, decision: Decision) -> None:
        """Note what a change of a partition's entry shows. A change that adopts what replicas have
        reported follows other rules than all others."""
        before, after, label = decision.before, decision.after, decision.partition
        if before.is_asking:
            if not after.is_asking:
                self._note_adoption(label, before, after)
                self._note_unasked(label, before, after)
            return
        self._note_leaving(label, (one for one in after.replicas if one not in before.replicas))
        if after.removable - before.removable:
            self._note_release(label, after)
        for broker_id in sorted(before.removable - after.removable):
            if self._is_there(broker_id, label) and not self.broker(broker_id).get("retired"):
                gone = StillThere(decision.at_s, broker_id, label)
                self._moves.forgotten.append(gone)
        self._note_leader(decision)

    def _note_adoption(self, label: str, before: Leadership, after: Leadership) -> None:
        """Note the adopted replicas, if a running replica knew a newer map than the one before."""
        found = [
            view
            for broker_id, node in self._nodes.items()
            if (view := view_of(node, label)) is not None and broker_id in view.replicas
        ]
        newest = max(found, key=epochs_of, default=None)
        if newest is None or epochs_of(newest) <= (before.leader_epoch, before.partition_epoch):
            return
        known_target = tuple(one for one in newest.replicas if one not in newest.removing)
        self._moves.adopted.append(Adopted(self._now_s(), label, after.target, known_target))

    def _restored(self, before: dict[str, Leadership]) -> None:
        """Note which brokers have data by the maps `before` a restore of etcd, and not by those
        after it."""
        for label, entry in before.items():
            after = self._decisions.known.get(label)
            lost = entry.holders - (after.holders if after is not None else frozenset())
            self._lost_holders.setdefault(label, set()).update(lost)

    def _note_unasked(self, label: str, before: Leadership, after: Leadership) -> None:
        """Note the holders by lost maps that the operator could not know of when it settled the
        partition: they have not compared their disks, and no running broker has such a map."""
        views = (view_of(node, label) for node in self._nodes.values())
        newer = [
            view
            for view in views
            if view is not None and epochs_of(view) > (before.leader_epoch, before.partition_epoch)
        ]
        for broker_id in sorted(self._lost_holders.pop(label, set()) - after.holders):
            is_named = any(broker_id in view.replicas for view in newer)
            if not is_named and not self.has_compared(broker_id):
                self._moves.unasked.append(Unasked(self._now_s(), broker_id, label))

    def _note_leaving(self, label: str, added: "Iterator[int] | tuple[int, ...]") -> None:
        now_s = self._now_s()
        for broker_id in added:
            if self.broker(broker_id).get("intent") == BrokerIntent.REMOVE:
                leaving_s = now_s - self._leaving_since.get(broker_id, now_s)
                given = GivenToLeaving(now_s, broker_id, label, leaving_s)
                self._moves.given_to_leaving.append(given)

    def _note_release(self, label: str, after: Leadership) -> None:
        """Note which map each in-sync replica had applied when the proof was recorded."""
        for member in after.isr:
            broker_id = broker_of(member)
            known = view_of(self._nodes.get(broker_id), label)
            if known is not None and self.is_in_session(member):
                epochs = known.leader_epoch, after.leader_epoch
                self._moves.released.append(Released(self._now_s(), label, broker_id, *epochs))

    def _note_leader(self, decision: Decision) -> None:
        """Note a new leader that is to be removed, if a member that stays could lead. Brokers that
        are drained lead only what nobody else can."""
        before, after = decision.before, decision.after
        if not after.leader or broker_of(after.leader) not in after.removing:
            return
        if before.leader and broker_of(before.leader) == broker_of(after.leader):
            return
        able = tuple(
            one
            for one in after.isr
            if broker_of(one) in after.target and one in before.isr and self.can_lead(one)
            if self.broker(broker_of(one)).get("intent") == BrokerIntent.SERVE
        )
        if able:
            self._moves.leaders_to_go.append(
                LeaderToGo(decision.at_s, decision.partition, after.leader, able)
            )

    # -- disks

    def _is_there(self, broker_id: int, label: str) -> bool:
        """Whether the broker's disk has this replica. Disks that had faults do not count: a volume
        that was replaced by a snapshot has replicas again that were deleted since."""
        node = self._nodes.get(broker_id)
        return (
            node is not None and not node.disks.error_count and label in directories_on(node.disks)
        )

    def note_leaks(self) -> None:
        """Note data of existing partitions on brokers that hold no replica of them. To be called
        at the end, when all moves are complete."""
        for broker_id, node in sorted(self._nodes.items()):
            if node.disks.error_count or self.broker(broker_id).get("retired"):
                continue
            for label in sorted(directories_on(node.disks)):
                entry = self._decisions.known.get(label)
                if entry is not None and broker_id not in entry.holders:
                    self._moves.leaked.append(StillThere(self._now_s(), broker_id, label))


def topic_of(label: str) -> str:
    """The part of a partition's label that names its topic id."""
    return label.partition("/")[2]


def view_of(node: Node | None, label: str) -> PartitionView | None:
    """A partition in the map that the node's running broker has applied; None if it has none."""
    for topic in getattr(node and node.broker, "_cluster", None) or ():
        for view in topic.partitions:
            if str(TopicPartition(topic.name, view.index, topic.topic_id)) == label:
                found: PartitionView = view
                return found
    return None


def epochs_of(view: PartitionView) -> tuple[int, int]:
    """Leader epoch and partition epoch, which say which of two views is newer."""
    return view.leader_epoch, view.partition_epoch
