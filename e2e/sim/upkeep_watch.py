"""Observes what the operator makes of placements, Rebalances, drained brokers and rebuilt volumes.

It reads objects when they are written, and twice a second who leads.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import EventType, Manifest
from e2e.sim.api_store import Change
from e2e.sim.durable import durable_end
from e2e.sim.history import POLL_S, Decision, Leadership, broker_of
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.maps import states_in
from e2e.sim.observer import Observer, Scenery, directories_on
from e2e.sim.upkeep_history import (
    LedWhileDrained,
    MovedOff,
    NotPlaced,
    OldProposal,
    Rebuilt,
)
from e2e.sim.watch import Watch, logs_of

LATE_S: Final = 5.0
"""A write that was decided before a spec or a status changed may arrive so much later."""
DRAINED_S: Final = 20.0
"""So long a drained broker may lead while everything else is well."""

LASTING: Final = frozenset({RebalanceState.PROPOSAL_READY, RebalanceState.REBALANCING})
"""The states in which a proposal is carried out, or may still be."""

Place = tuple[str, int]
"""A partition by its topic's name and its number."""


class UpkeepWatch(Observer):
    """Notes in the history of upkeep what the operator decides about it."""

    def __init__(self, scenery: Scenery, watch: Watch) -> None:
        super().__init__(scenery)
        self._watch = watch
        self._found = scenery.history.upkeep
        self.asked: set[tuple[str, tuple[int, ...]]] = set()
        """(partition's label, replicas) of all that tools have asked for."""
        self.by_hand: set[str] = set()
        """Uids of volume claims that a user deleted."""
        self._placed: dict[Place, tuple[tuple[int, ...], float]] = {}
        """What `spec.assignments` names, and since when."""
        self._created: dict[Place, tuple[int, ...]] = {}
        """What `spec.initialAssignments` names."""
        self._proposed: dict[str, dict[Place, tuple[int, ...]]] = {}
        """Id of a proposal -> the replicas of the partitions that it moves."""
        self._ended_s: dict[str, float] = {}
        """Id of a proposal that was stopped, refreshed or replaced -> since when."""
        self._leading: dict[tuple[str, int], float] = {}
        """(partition, drained broker) -> since when it leads although another one could."""
        self._decisions.on_first.append(self._created_first)
        self._decisions.on_decision.append(self._decided)
        self._store.on_change.append(self._changed)

    # -- what users ask for

    def _changed(self, change: Change) -> None:
        if change.kind is kinds.TOPICS:
            is_gone = change.type is EventType.DELETED
            self._note_placement(
                change.object["metadata"]["name"], {} if is_gone else change.object["spec"]
            )
        elif change.kind is kinds.REBALANCES:
            self._note_proposals()
        elif change.kind is kinds.VOLUME_CLAIMS:
            self._note_claim(change)

    def _note_placement(self, name: str, spec: Manifest) -> None:
        """Note what a Topic's spec places, and what it wants to be created where."""
        placed = _entries(name, spec.get("assignments"))
        known = {place: one for place, one in self._placed.items() if place[0] == name}
        for place in known.keys() - placed.keys():
            del self._placed[place]
        for place, replicas in placed.items():
            if place not in known or known[place][0] != replicas:
                self._placed[place] = replicas, self._now_s()
        others = {place: one for place, one in self._created.items() if place[0] != name}
        self._created = others | _entries(name, spec.get("initialAssignments"))

    def _note_proposals(self) -> None:
        """Note the proposals of all Rebalances, and which of them are not carried out any more."""
        in_force = set()
        for one in self._store.all_of(kinds.REBALANCES):
            status = one.get("status") or {}
            proposal = status.get("proposal")
            if not proposal:
                continue
            self._proposed[proposal["id"]] = {
                (move["topic"], move["partition"]): tuple(move["replicas"])
                for move in proposal.get("replicaMoves") or []
            }
            if status.get("state") in LASTING:
                in_force.add(proposal["id"])
        for name in self._proposed:
            if name in in_force:
                self._ended_s.pop(name, None)
            else:
                self._ended_s.setdefault(name, self._now_s())

    # -- decisions of the operator

    def _created_first(self, label: str, entry: Leadership) -> None:
        """Note a new partition that is not on the brokers on which it was to be created."""
        place = place_of(label)
        placed = self._placed.get(place)
        wanted = self._created.get(place) if placed is None else placed[0]
        if wanted is not None and wanted != entry.replicas:
            self._found.not_placed.append(NotPlaced(self._now_s(), label, wanted, entry.replicas))

    def _decided(self, decision: Decision) -> None:
        """Note a change of a partition's target that nobody asked for any more."""
        before, after, label = decision.before, decision.after, decision.partition
        taken_back = tuple(one for one in before.replicas if one not in before.adding)
        if before.is_asking or after.target in {before.target, taken_back}:
            return
        placed, since_s = self._placed.get(place_of(label), ((), self._now_s()))
        # An entry with another number of brokers than `spec.replicas` is refused.
        is_valid = len(placed) == len(after.target)
        is_off = is_valid and set(placed) != set(after.target)
        if is_off and self._now_s() - since_s > LATE_S:
            self._found.moved_off.append(MovedOff(decision.at_s, label, placed, after.target))
        self._note_old_proposal(decision, placed)

    def _note_old_proposal(self, decision: Decision, placed: tuple[int, ...]) -> None:
        """Note a target that only a Rebalance wanted that has been stopped or refreshed since."""
        before, after, label = decision.before, decision.after, decision.partition
        lost = set(before.target) - set(after.target)
        is_asked = (label, after.target) in self.asked or placed == after.target
        is_forced = any(self.broker(one).get("intent") == BrokerIntent.REMOVE for one in lost)
        if is_asked or is_forced or len(before.target) != len(after.target):
            return
        place = place_of(label)
        names = [one for one, moves in self._proposed.items() if moves.get(place) == after.target]
        if not names or any(one not in self._ended_s for one in names):
            return
        newest = max(names, key=self._ended_s.__getitem__)
        if self._now_s() - self._ended_s[newest] > LATE_S:
            ended_s = self._ended_s[newest]
            self._found.old_proposals.append(
                OldProposal(decision.at_s, label, newest, ended_s, after.target)
            )

    # -- volumes

    def _note_claim(self, change: Change) -> None:
        """Note which other replicas have everything, if the operator begins to delete a claim."""
        meta, before = change.object["metadata"], change.before
        was_kept = before is not None and "deletionTimestamp" not in before["metadata"]
        if not was_kept or "deletionTimestamp" not in meta or meta["uid"] in self.by_hand:
            return
        broker_id = int(meta["labels"][labels.BROKER_ID])
        losing = {
            int(one["metadata"]["labels"][labels.BROKER_ID])
            for one in self._store.all_of(kinds.VOLUME_CLAIMS)
            if "deletionTimestamp" in one["metadata"]
        }
        self._watch.observe()
        for partition, state in states_in(self._store):
            label = str(partition)
            is_deleted = label in self._history.deleted or state.reports_wanted
            if is_deleted or broker_id not in map(int, state.replicas):
                continue
            others = tuple(
                (member, self._durable_end(broker_of(member), label))
                for member in map(str, state.isr)
                if broker_of(member) not in losing and self.is_in_session(member)
            )
            committed = self._watch.committed_end(label)
            rebuilt = Rebuilt(self._now_s(), label, broker_id, committed, others)
            self._found.rebuilt.append(rebuilt)

    def _durable_end(self, broker_id: int, label: str) -> int:
        """Up to which offset a replica would survive a power cut now; 0 if it is not there."""
        disks = self._nodes[broker_id].disks
        directory = directories_on(disks).get(label)
        if directory is None:
            return 0
        starts = [
            one.log_start_offset
            for one in logs_of(self._nodes[broker_id])
            if one.partition.directory == directory
        ]
        return durable_end(disks.data, directory, max(starts, default=0))

    # -- drained brokers

    async def run(self, is_calm: Callable[[], bool]) -> None:
        """Observe until cancelled who leads. `is_calm`: whether an operator is at work, and
        everything reaches everything else."""
        while True:
            if is_calm():
                self._observe_leaders()
            else:
                self._leading.clear()
            await asyncio.sleep(POLL_S)

    def _observe_leaders(self) -> None:
        """Note drained brokers that have led for long although another one could."""
        drained = self.drained()
        leading = {}
        for partition, state in states_in(self._store) if drained else ():
            if state.leader is None or int(state.leader.broker_id) not in drained:
                continue
            able = tuple(
                member
                for member in map(str, state.isr)
                if broker_of(member) in map(int, state.target)
                and broker_of(member) not in drained
                and self.broker(broker_of(member)).get("intent") != BrokerIntent.DRAIN
                and self.can_lead(member)
            )
            if not able or state.reports_wanted:
                continue
            key = str(partition), int(state.leader.broker_id)
            since_s = leading[key] = self._leading.get(key, self._now_s())
            if self._now_s() - since_s > DRAINED_S:
                leading[key] = self._now_s()
                led = LedWhileDrained(self._now_s(), *key, since_s, able)
                self._found.led_while_drained.append(led)
        self._leading = leading

    def drained(self) -> frozenset[int]:
        """The brokers that are under maintenance, or run on cordoned nodes."""
        cluster = self._store.peek(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER) or {"spec": {}}
        listed = (cluster["spec"].get("maintenance") or {}).get("brokers") or []
        cordoned = [number for number in self._nodes if self._is_cordoned(number)]
        return frozenset((*listed, *cordoned))

    def _is_cordoned(self, number: int) -> bool:
        node = self._store.peek(kinds.NODES, "", f"node-{number}") or {}
        return bool(node.get("spec", {}).get("unschedulable"))

    # -- the end

    def note_places(self) -> None:
        """Note partitions that are not where their Topics place them. To be called when the
        cluster has recovered and all moves are complete."""
        for partition, state in states_in(self._store):
            placed, since_s = self._placed.get((partition.topic, partition.number), ((), 0.0))
            target = tuple(map(int, state.target))
            if placed and set(placed) != set(target) and self._now_s() - since_s > LATE_S:
                missed = NotPlaced(self._now_s(), str(partition), placed, target)
                self._found.not_placed.append(missed)


def _entries(name: str, given: Any) -> dict[Place, tuple[int, ...]]:
    """The entries of `spec.assignments` or `spec.initialAssignments` of a Topic."""
    return {(name, one["partition"]): tuple(one["replicas"]) for one in given or []}


def place_of(label: str) -> Place:
    """The topic's name and the number in a partition's label."""
    topic, _, number = label.partition("/")[0].rpartition("-")
    return topic, int(number)
