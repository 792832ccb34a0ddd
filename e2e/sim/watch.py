"""Observes every broker's replicas during the simulation, for the checkers, without side effects.

It reads brokers' memory and disks: log start offsets, the policies by which logs delete records,
and how much each member of an ISR has synced at the moment when a PartitionMap is written.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import lru_cache
from uuid import UUID

from chiplog_broker.partitions.partition import Partition
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.log import PartitionLog
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_kube import kinds
from e2e.sim.api_store import Change
from e2e.sim.durable import durable_end
from e2e.sim.history import POLL_S, Decision, InForce, LogStart, Policy, Vouched
from e2e.sim.kubelet import Node
from e2e.sim.observer import Observer, Scenery
from e2e.sim.wire import TopicPartition


class Watch(Observer):
    """Notes in the history what no client can observe."""

    def __init__(self, scenery: Scenery, now_ms: Callable[[], int]) -> None:
        super().__init__(scenery)
        self._now_ms = now_ms
        self._in_force: dict[tuple[str, Policy], InForce] = {}
        self._starts: dict[tuple[int, str], LogStart] = {}
        self._committed: dict[str, int] = {}
        self._cached_only: set[str] = set()
        """Partitions whose durability was PageCache at any time: records may be unsynced there."""
        self._newest_ms = 0
        self._decisions.on_spec.append(self._note_settings)
        self._decisions.on_decision.append(self._note_isr_members)
        self._store.on_change.append(self._changed)

    async def run(self) -> None:
        while True:
            self.observe()
            await asyncio.sleep(POLL_S)

    def observe(self) -> None:
        """Note the clocks, and the state of every log and partition of all brokers."""
        walls_ms = [one.clock.now_ms() for one in self._nodes.values()]
        self._newest_ms = max(walls_ms)
        history = self._history
        now_ms = self._now_ms()
        history.clock_lag_ms = max(history.clock_lag_ms, now_ms - min(walls_ms))
        history.clock_lead_ms = max(history.clock_lead_ms, max(walls_ms) - now_ms)
        for node in self._nodes.values():
            for log in logs_of(node):
                label = label_of(log)
                self._note_policy(label, log.config)
                self._note_start(node, label, log)
            for partition in _partitions(node):
                label = label_of(partition.log)
                known = self._committed.get(label, 0)
                self._committed[label] = max(known, partition.high_watermark)

    def committed_end(self, label: str) -> int:
        """The largest high watermark of this partition that any broker had so far; 0 if records may
        be unsynced below it, because the partition's durability was not always Fsync."""
        return 0 if label in self._cached_only else self._committed.get(label, 0)

    # -- policies and log starts

    def _note_policy(self, label: str, config: LogConfig) -> None:
        """Extend the time span in which this policy is in force, or begin a new one."""
        if config.durability is not Durability.FSYNC:
            self._cached_only.add(label)
        policy = policy_of(config)
        now_s, known = self._now_s(), self._in_force.get((label, policy))
        if known is None or now_s - known.to_s > 2 * POLL_S:
            known = InForce(
                partition=label, policy=policy, from_s=now_s, to_s=now_s, newest_ms=self._newest_ms
            )
            self._in_force[label, policy] = known
            self._history.in_force.append(known)
        known.to_s, known.newest_ms = now_s, max(known.newest_ms, self._newest_ms)

    def _note_start(self, node: Node, label: str, log: PartitionLog) -> None:
        """Note a replica's log start offset if it, or whether it is in sync, has changed."""
        is_in_sync = label in self._decisions.known and self._is_listed(node, label)
        is_in_sync = is_in_sync and not _is_incomplete_copy(node, log)
        offset = log.log_start_offset
        now = LogStart(self._now_s(), int(node.broker_id), label, offset, is_in_sync)
        before = self._starts.get((now.broker_id, label))
        if before is None or before[3:] != now[3:]:  # compares `offset` and `is_in_sync`
            self._starts[now.broker_id, label] = now
            self._history.log_starts.append(now)

    def _is_listed(self, node: Node, label: str) -> bool:
        """Whether the partition's ISR has this node's broker with its present session."""
        session = session_of(node)
        return session > 0 and f"{node.broker_id}@{session}" in self._decisions.known[label].isr

    # -- what is written to the API server

    def _changed(self, change: Change) -> None:
        if change.kind in {kinds.BROKERS, kinds.PARTITION_MAPS}:
            self.observe()

    def _note_settings(self, spec: PartitionMapSpec) -> None:
        """Note the settings of a topic, from a PartitionMap that was written."""
        known = self._history.asked_policies.setdefault(str(spec.topic_name), set())
        known.update(spec.config.items(), spec.inherited_config.items())

    def _note_isr_members(self, decision: Decision) -> None:
        """Note how much the members of an ISR have synced, when a map with this ISR is written.

        A running member in its listed session must have synced all records below the high
        watermark, if the topic's durability was always Fsync. A member that is dead or has a later
        session does not have to: it is only listed so that it is not forgotten, and cannot be
        elected. While the operator waits for reports, the map is an old one, and so is its ISR.
        """
        self.observe()
        label = decision.partition
        if decision.after.is_asking or label in self._cached_only:
            return
        for node in self._nodes.values():
            member = f"{node.broker_id}@{session_of(node)}"
            if member not in decision.after.isr:
                continue
            for log in logs_of(node):
                if label_of(log) == label and not _is_incomplete_copy(node, log):
                    self._note_synced(node, log, member)

    def _note_synced(self, node: Node, log: PartitionLog, member: str) -> None:
        """Note up to which offset this member's log would survive a power cut now.

        The offset below which all records are committed is noted with it, so that a checker can
        compare both.
        """
        label, directory = label_of(log), log.partition.directory
        durable = durable_end(node.disks.data, directory, log.log_start_offset)
        committed = self._committed.get(label, 0)
        self._history.vouched.append(Vouched(self._now_s(), label, member, durable, committed))


def policy_of(config: LogConfig) -> Policy:
    """The part of a log's settings that decides which records may be deleted, for the history."""
    return Policy(
        deletes=config.deletes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        compacts=config.compacts,
        delete_retention_ms=config.delete_retention_ms,
    )


def label_of(log: PartitionLog) -> str:
    return _label(*log.partition, log.topic_id)


@lru_cache(maxsize=1024)
def _label(topic: str, number: int, topic_id: UUID) -> str:
    return str(TopicPartition(topic, number, topic_id))


def logs_of(node: Node) -> Iterator[PartitionLog]:
    """The logs of a node whose process runs and has opened them."""
    directory = getattr(node.broker, "_directory", None)
    if directory is not None:
        yield from directory.logs.values()


def _partitions(node: Node) -> Iterator[Partition]:
    yield from getattr(node.broker, "_replicas", None) or ()


def _is_incomplete_copy(node: Node, log: PartitionLog) -> bool:
    """Whether this log replaces a damaged replica and is still shorter than that one was.

    Its records count for nothing until then, though the map may still list it in the ISR.
    """
    replicas = getattr(node.broker, "_replicas", None)
    found = replicas.damaged() if replicas is not None else ()
    return any(one.must_catch_up and (one.topic, one.partition) == log.partition for one in found)


def session_of(node: Node) -> int:
    """The session of the node's broker process; 0 while it has none."""
    cluster = getattr(node.broker, "_cluster", None)
    return int(cluster.session) if cluster is not None and cluster.session else 0
