"""Applies the PartitionMaps of the Kubernetes API to the replicas of this broker.

Each map is stored durably before it is applied (R6). A map that is older than the applied one, or
that is missing, changes nothing here; it is reported. One task does everything, topic by topic; of
several changes in the meantime only the last state is applied.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from chiplog_broker.metadata.kubernetes.knowledge import why_older
from chiplog_broker.metadata.kubernetes.map_files import MapFiles
from chiplog_broker.metadata.kubernetes.topic_views import (
    current_generation,
    holds_any,
    ordered_removals,
    topic_view,
    uuid_of,
)
from chiplog_broker.metadata.port import LocalReplicas
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.ports.clock import Clock
from chiplog_broker.storage.errors import StorageError
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import BrokerId, PartitionEpoch, PartitionIndex, ReplicaRef, TopicId
from chiplog_core.model.broker_status import FlushedTopic
from chiplog_core.model.partition_map import PartitionMap, PartitionMapSpec
from chiplog_core.problems import InvalidManifest
from chiplog_kube.api import Manifest

logger = logging.getLogger(__name__)

MAX_CONCURRENT = 32
"""How many maps are stored at the same time."""
RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MapsParts:
    """The replicas and the view that maps are applied to, and the callbacks."""

    broker_id: BrokerId
    files: MapFiles
    cluster: ClusterView
    replicas: LocalReplicas
    clock: Clock
    live: Callable[[], frozenset[ReplicaRef]]
    """Replicas of live brokers, which may lead and be in sync; includes this process in its
    session."""
    may_lose_tail: Callable[[], Awaitable[None]]
    """Awaited before a topic is applied whose newest records may be in the page cache only."""
    on_applied: Callable[[str], None]
    """Called with a topic's name after its map was applied."""


class Maps:
    """Applies PartitionMaps. `applied` are the maps in force on this broker."""

    def __init__(self, parts: MapsParts, applied: dict[str, PartitionMapSpec]) -> None:
        """`applied` are the maps that the last process applied, by topic."""
        self._parts = parts
        self.applied = applied
        self.regressed: dict[str, PartitionMapSpec | None] = {}
        """Topic -> its map in the API, which is older than what was applied; None if it is
        missing."""
        self.deleted: dict[str, frozenset[TopicId]] = {}
        """Topic -> ids of deleted topics of this name whose data was deleted here, while the map
        has their tombstones."""
        self.removed: dict[tuple[TopicId, PartitionIndex], PartitionEpoch] = {}
        """The partitions that were moved away and whose data was deleted here, with the
        partitionEpoch of the order: another order for the same partition is carried out, too."""
        self.flushed: dict[TopicId, FlushedTopic] = {}
        self._unconfirmed = {topic for topic, spec in applied.items() if wants_confirmation(spec)}
        """Topics whose applied map waits for confirmations in brokers' statuses."""
        self._received: dict[str, PartitionMapSpec] = {}
        """Topic -> the newest map from the API that is not stored here yet."""
        self._missing: set[str] = set()
        """Topics without a map in the API, which is not handled yet."""
        self._due: set[str] = set(applied)
        """Topics whose `applied` map must be applied again."""
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._running: asyncio.Task[set[str]] | None = None
        self._expect(applied.values())

    # -- notifications

    def map_changed(self, before: Manifest | None, manifest: Manifest | None) -> None:
        """A map changed in the API. `manifest` is None if it was deleted."""
        spec = read_spec(manifest or before)
        if spec is None:
            return
        if manifest is None:
            self._missing.add(spec.topic_name)
        else:
            self._missing.discard(spec.topic_name)
            self._received[spec.topic_name] = spec
        self._wake()

    def all_listed(self, present: Iterable[Manifest]) -> None:
        """`present` is a consistent list of all maps: topics that are not in it have no map."""
        names = {manifest.get("spec", {}).get("topicName") for manifest in present}
        self._missing |= (self.applied.keys() | self._received.keys()) - names
        self._wake()

    def reapply(self, broker_id: BrokerId | None = None) -> None:
        """Apply the maps that name this broker again, or all maps for None: the live brokers have
        changed, which may affect leaders and in-sync replicas."""
        self._due |= {
            topic
            for topic, spec in self.applied.items()
            if broker_id is None or _names_broker(spec, broker_id)
        }
        self._wake()

    def apply_again(self, topic: str) -> None:
        """Apply the topic's map again, because a replica here differs from it."""
        self._due.add(topic)
        self._wake()

    async def idle(self) -> None:
        """Wait until every known change was applied, or tried once."""
        await self._idle.wait()

    def _wake(self) -> None:
        """Let `run` apply the pending changes, and `idle` wait for them."""
        self._idle.clear()
        self._work.set()

    # -- applying

    async def run(self) -> None:
        """Apply changes until cancelled. A failed one is tried again after `RETRY_S`, or with the
        next change if that comes sooner."""
        while True:
            await self._work.wait()
            self._work.clear()
            # A cancellation does not interrupt a change. `finish` awaits the change, so that it
            # does not continue while logs are being closed.
            self._running = asyncio.get_running_loop().create_task(self._apply_changes())
            failed = await asyncio.shield(self._running)
            if not self._work.is_set():
                self._idle.set()
            if failed:
                self._due |= failed
                await self._work_within(RETRY_S)
                self._work.set()

    async def _work_within(self, limit_s: float) -> None:
        """Return when a change arrives, at the latest after `limit_s`."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._work.wait())
        limit = loop.create_task(self._parts.clock.sleep(limit_s))
        try:
            await asyncio.wait({work, limit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            limit.cancel()

    async def finish(self) -> None:
        """After `run` was cancelled: wait for the change in progress."""
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _apply_changes(self) -> set[str]:
        """Apply all pending changes; returns the topics for which it failed."""
        received, self._received = self._received, {}
        newer = {topic: spec for topic, spec in received.items() if self._may_replace(spec)}
        self._expect(newer.values())
        failed = await self._store_maps(newer)
        for topic in failed:
            # A map that arrived in the meantime is newer, and stays.
            self._received.setdefault(topic, newer.pop(topic))
        self.applied |= newer
        for topic, spec in newer.items():
            if wants_confirmation(spec):
                self._unconfirmed.add(topic)
            else:
                self._unconfirmed.discard(topic)
        due, self._due = self._due | newer.keys(), set()
        for topic in sorted(due & self.applied.keys()):
            if not await self._apply(self.applied[topic]):
                failed.add(topic)
        missing, self._missing = self._missing, set()
        for topic in missing - self.applied.keys():
            self._parts.cluster.remove(topic)  # it was announced by `_expect`, but never applied
        for topic in missing & self.applied.keys():
            if not await self._apply_missing_map(topic):
                failed.add(topic)
        return failed

    def _expect(self, specs: Iterable[PartitionMapSpec]) -> None:
        """Announce in the cluster view which topics will be known soon. Requests that come before
        all maps are applied must not be answered that such a topic does not exist."""
        for spec in specs:
            if (generation := current_generation(spec)) is not None:
                self._parts.cluster.announce(spec.topic_name, uuid_of(generation.topic_id))

    def _may_replace(self, spec: PartitionMapSpec) -> bool:
        """Whether a map from the API may replace the applied one. An older map may not, because
        metadata must never go back: its topic is added to `regressed`, which the status reports."""
        topic = spec.topic_name
        applied = self.applied.get(topic)
        why = why_older(spec, applied, self._parts.broker_id) if applied else ""
        if why:
            if topic not in self.regressed:
                logger.error("metadata_regressed", extra={"topic": topic, "reason": why})
            self.regressed[topic] = spec
            self._parts.on_applied(topic)
            return False
        self.regressed.pop(topic, None)
        return True

    async def _store_maps(self, newer: dict[str, PartitionMapSpec]) -> set[str]:
        """Store these maps durably; returns the topics for which that failed."""
        failed: set[str] = set()

        async def store(spec: PartitionMapSpec) -> None:
            try:
                await self._parts.files.put(spec)
            except OSError as error:
                logger.error("map_not_kept", extra={"topic": spec.topic_name, "reason": str(error)})
                failed.add(spec.topic_name)

        changed = [spec for spec in newer.values() if spec != self.applied.get(spec.topic_name)]
        for start in range(0, len(changed), MAX_CONCURRENT):
            await asyncio.gather(*map(store, changed[start : start + MAX_CONCURRENT]))
        return failed

    async def _apply(self, spec: PartitionMapSpec) -> bool:
        """Apply a map to the view and the replicas here; returns whether that succeeded."""
        parts = self._parts
        try:
            await self._delete_tombstoned(spec)
            view = topic_view(spec, parts.live())
            if view is None:  # the topic was deleted, and no other has its name
                parts.cluster.remove(spec.topic_name)
                await parts.replicas.release(spec.topic_name)
            else:
                if not is_synced_before_ack(spec, parts.broker_id):
                    # Stored before the first record can be acknowledged from the page cache: after
                    # a crash of the machine, the next start must know that records may be lost.
                    await parts.may_lose_tail()
                parts.cluster.begin_to_apply(view)
                try:
                    await parts.replicas.apply(view)
                except (OSError, StorageError):
                    # If the disk is too full for another replica, this may make room for it.
                    await self._remove_leftovers(spec)
                    raise
                finally:
                    # One replica that fails must not hide the topic, nor the others that serve.
                    parts.cluster.put(view)
                await self._remove_leftovers(spec)
                await self._flush(spec)
        except (OSError, StorageError) as failed:
            logger.error("map_not_applied", extra={"topic": spec.topic_name, "reason": str(failed)})
            return False
        finally:
            parts.on_applied(spec.topic_name)
        return True

    async def _delete_tombstoned(self, spec: PartitionMapSpec) -> None:
        """Delete the data of each deleted topic whose tombstone in the map names this broker.

        A topic with the same name that replaces it is created after that. Raises `OSError` or
        `StorageError`; then all of them are deleted again.
        """
        topic = spec.topic_name
        to_delete = {
            tombstone.topic_id
            for tombstone in spec.tombstones
            if self._parts.broker_id in tombstone.brokers
        }
        already_deleted = self.deleted.pop(topic, frozenset()) & to_delete
        for topic_id in to_delete - already_deleted:
            await self._parts.replicas.delete(topic, uuid_of(topic_id))
            logger.info("topic_deleted", extra={"topic": topic, "topic_id": str(topic_id)})
        if to_delete:
            self.deleted[topic] = frozenset(to_delete)

    async def _remove_leftovers(self, spec: PartitionMapSpec) -> None:
        """Delete the data of the partitions that were moved away, as the map orders. Raises
        `OSError` or `StorageError`; then the map is applied again."""
        ordered = {
            (topic_id, partition): since
            for topic_id, partition, since in ordered_removals(spec, self._parts.broker_id)
        }
        for key, since in ordered.items():
            if self.removed.get(key) != since:
                topic_id, partition = key
                name = TopicPartition(spec.topic_name, partition)
                await self._parts.replicas.remove(uuid_of(topic_id), name)
                logger.info("moved_replica_deleted", extra={"partition": str(name)})
            self.removed[key] = since
        for generation in spec.generations:
            for state in generation.partitions:
                if (generation.topic_id, state.partition) not in ordered:
                    self.removed.pop((generation.topic_id, state.partition), None)

    async def _flush(self, spec: PartitionMapSpec) -> None:
        """Sync a topic that was switched to Fsync, once for each switch, if the map waits for this
        broker's confirmation: records from before the switch may be in the page cache only."""
        generation = current_generation(spec)
        is_awaited = spec.durability is Durability.FSYNC and self._parts.broker_id in spec.unflushed
        if generation is None or not is_awaited:
            return
        last_flush = self.flushed.get(generation.topic_id)
        if last_flush is None or last_flush.durability_switch != spec.durability_switch:
            await self._parts.replicas.flush(uuid_of(generation.topic_id))
            self.flushed[generation.topic_id] = FlushedTopic(
                topic_id=generation.topic_id, durability_switch=spec.durability_switch
            )

    async def _apply_missing_map(self, topic: str) -> bool:
        """Handle a topic whose map is missing in the API; returns whether that succeeded.

        Only a topic without data here may be forgotten. A topic with data is added to `regressed`.
        """
        parts, spec = self._parts, self.applied[topic]
        if holds_any(spec, parts.broker_id):
            if topic not in self.regressed:
                logger.error("map_missing", extra={"topic": topic})
            self.regressed[topic] = None
            parts.on_applied(topic)
            return True
        try:
            await parts.files.remove(topic)
        except OSError as error:
            logger.error("map_not_forgotten", extra={"topic": topic, "reason": str(error)})
            self._missing.add(topic)
            return False
        del self.applied[topic]
        self._unconfirmed.discard(topic)
        self.regressed.pop(topic, None)
        self.deleted.pop(topic, None)
        # A map whose topic was deleted said so before it was removed.
        parts.cluster.remove(topic, is_lost=current_generation(spec) is not None)
        await parts.replicas.release(topic)
        parts.on_applied(topic)
        return True

    def has_compared_all(self, listed: Iterable[Manifest]) -> bool:
        """Whether no applied map is newer than in this list of all maps, except those of
        `regressed`.

        This is not so while changes are pending that arrived after the list was requested. A map
        that cannot be parsed is ignored, and nothing is decided about it.
        """
        by_name = {manifest.get("spec", {}).get("topicName"): manifest for manifest in listed}
        return all(
            topic in self.regressed or self._agrees(applied, by_name.get(topic))
            for topic, applied in self.applied.items()
        )

    def _agrees(self, applied: PartitionMapSpec, manifest: Manifest | None) -> bool:
        """Whether the API's map, None if there is none, is at least as new as the applied one."""
        own = self._parts.broker_id
        if manifest is None:
            return not holds_any(applied, own)
        spec = read_spec(manifest)
        return spec is None or not why_older(spec, applied, own)

    # -- reports to the operator

    def maps_to_report(self) -> list[PartitionMapSpec]:
        """The applied maps about which the status reports something: those that wait for
        confirmations, and `regressed` ones. They are few."""
        topics = sorted(self._unconfirmed | self.regressed.keys())
        return [self.applied[topic] for topic in topics if topic in self.applied]

    def flushed_topics(self) -> tuple[FlushedTopic, ...]:
        """Topics that were synced after their last switch to Fsync, if their maps still wait for
        this broker's confirmation."""
        awaited = {
            spec.current: spec.durability_switch
            for spec in self.maps_to_report()
            if self._parts.broker_id in spec.unflushed
        }
        return tuple(
            topic
            for topic_id, topic in sorted(self.flushed.items())
            if awaited.get(topic_id) == topic.durability_switch
        )


def read_spec(manifest: Manifest | None) -> PartitionMapSpec | None:
    """The content of a map; None if there is no manifest, or this version cannot read it: then the
    applied map stays in force."""
    if manifest is None:
        return None
    try:
        return PartitionMap.from_manifest(manifest).spec
    except InvalidManifest as invalid:
        logger.error("map_unreadable", extra={"reason": str(invalid)})
        return None


def is_synced_before_ack(spec: PartitionMapSpec, broker_id: BrokerId) -> bool:
    """Whether no acknowledged record of the topic can be in this broker's page cache only."""
    if not holds_any(spec, broker_id):
        return True
    return spec.durability is Durability.FSYNC and broker_id not in spec.unflushed


def wants_confirmation(spec: PartitionMapSpec) -> bool:
    """Whether the map waits for brokers to confirm something in their status."""
    return bool(spec.tombstones or spec.unflushed) or any(
        state.reports_wanted or state.leftovers
        for generation in spec.generations
        for state in generation.partitions
    )


def _names_broker(spec: PartitionMapSpec, broker_id: BrokerId) -> bool:
    """Whether a partition of the map has a replica on this broker, or data of one."""
    return any(
        broker_id in state.holders
        for generation in spec.generations
        for state in generation.partitions
    )
