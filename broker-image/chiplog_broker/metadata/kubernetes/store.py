"""The `MetadataStore` on the Kubernetes API.

Callbacks of the caches only record what changed, and wake the task that acts on it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from chiplog_broker.metadata.kubernetes.access import AccessWatch
from chiplog_broker.metadata.kubernetes.admin_requests import AdminRequests
from chiplog_broker.metadata.kubernetes.brokers import Brokers
from chiplog_broker.metadata.kubernetes.certificate_reports import CertificateReports
from chiplog_broker.metadata.kubernetes.draining import can_be_handed_over
from chiplog_broker.metadata.kubernetes.maps import Maps, MapsParts
from chiplog_broker.metadata.kubernetes.maps_check import MapsCheck
from chiplog_broker.metadata.kubernetes.readiness import replicas_behind
from chiplog_broker.metadata.kubernetes.refetches import Refetches
from chiplog_broker.metadata.kubernetes.registration import Registration
from chiplog_broker.metadata.kubernetes.session_file import SessionRecord, write_session
from chiplog_broker.metadata.kubernetes.status import Attested, StatusParts, broker_status
from chiplog_broker.metadata.kubernetes.status_writer import StatusWriter
from chiplog_broker.metadata.kubernetes.store_parts import StoreParts
from chiplog_broker.metadata.kubernetes.user_changes import OperatorsUsers
from chiplog_broker.metadata.kubernetes.watching import watch
from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.ports.disk import DiskUsage
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_core.admin.operations import Request
from chiplog_core.ids import NEVER_ADMITTED, ReplicaRef, Session
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_status import BrokerStatus, Tail
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import BROKERS, PARTITION_MAPS

logger = logging.getLogger(__name__)

MEASURE_INTERVAL_S = 60.0
DRAINING_WRITE_TIMEOUT_S = 1.0
"""How long a stopping broker waits until `draining` is written to its status."""
DRAIN_S = 10.0
"""How long it waits after that for the operator to move leaderships."""
DRAIN_STEP_S = 0.05
MAX_NAMED_REPLICAS = 5
"""A readiness answer names at most this many replicas."""
RETRY_S = 1.0
ACCESS_WAIT_S = 10.0


class KubernetesStore:
    """Follows the Brokers and PartitionMaps of one cluster."""

    def __init__(
        self,
        parts: StoreParts,
        record: SessionRecord,
        attested: Attested,
        known: dict[str, PartitionMapSpec],
    ) -> None:
        """`record` is the stored session record, `attested` the result of attesting the data at
        this start, and `known` are the maps that the last process applied."""
        self._parts = parts
        self._record = record
        self._attested = attested
        self._settings = dict(parts.config)
        """The settings of the file, without those of the Broker object."""
        process, clock = parts.process, parts.clock
        self._cluster = parts.node.cluster
        self._record_lock = asyncio.Lock()
        self._is_draining = False
        self._counts_renewals = False
        self._is_online = True
        self._usage: DiskUsage | None = None
        self._log_bytes: int | None = None
        self._rack: str | None = None
        self._assigned_session = NEVER_ADMITTED
        """The session in the Broker object."""
        self._live: frozenset[ReplicaRef] = frozenset()
        self._intact_since = attested.intact_since
        """The oldest session since which this broker's disk has lost nothing."""
        self._ready_session = NEVER_ADMITTED
        """The last session in which this broker became ready."""
        self._tasks: list[asyncio.Task[None]] = []
        self._brokers = Brokers(process.cluster, clock, self._broker_changed)
        self._brokers_watch = watch(parts, BROKERS, self._brokers.broker_changed)
        self._writer = StatusWriter(
            parts.api,
            process,
            clock,
            parts.outages,
            self._status,
            self._brokers_watch.cache,
        )
        self._admin = AdminRequests(
            self._cluster, clock, process.incarnation[:12], self._writer.changed, parts.config
        )
        self._refetches = Refetches(
            self._cluster,
            parts.node.replicas,
            self._start_refetching,
            self._writer.changed,
        )
        self.registration = Registration(
            process, Session(record.session), self._keep_session, self._session_began
        )
        self._maps = Maps(
            MapsParts(
                broker_id=process.broker_id,
                files=parts.files,
                cluster=self._cluster,
                replicas=parts.node.replicas,
                clock=clock,
                live=lambda: self._live,
                may_lose_tail=self._may_lose_tail,
                on_applied=self._map_applied,
            ),
            known,
        )
        self._maps_watch = watch(
            parts, PARTITION_MAPS, self._maps.map_changed, self._maps.all_listed
        )
        access = parts.node.access
        self._access = None if access is None else AccessWatch(parts, access)
        self._certificates = CertificateReports(
            parts.node.certificates, clock, self._writer.changed
        )
        if access is not None:
            access.changes = OperatorsUsers(access, self._admin, process, parts.rng, parts.internal)
        self._check = MapsCheck(
            self._maps, self._maps_watch, clock, parts.outages, self._writer.changed
        )

    # -- the port

    async def submit(self, operation: Request, principal: str = ANONYMOUS) -> Outcome:
        return await self._admin.submit(operation, principal)

    # -- notifications of the replicas

    def status_changed(self) -> None:
        """The status of this broker may have changed."""
        self._writer.changed()

    def apply_again(self, topic: str) -> None:
        """Apply a topic's map again, as if it had changed."""
        self._maps.apply_again(topic)

    # -- start and end of a process

    def follow(self, own: Manifest) -> None:
        """Register, and follow all changes from now on. `own` is this broker's object."""
        self._measure()
        broker = Broker.from_manifest(own)
        self._assigned_session = broker.spec.session
        self._writer.observed(broker)
        start = self._parts.start
        self._tasks = [
            start("status", self._writer.run()),
            start("registration", self.registration.run()),
            start("brokers", self._brokers_watch.run()),
            start("brokers_gone", self._brokers.keep_view_current(self._cluster)),
            start("partition_maps", self._maps_watch.run()),
            start("disk_usage", self._keep_measuring()),
        ]
        if self._parts.node.certificates:
            self._tasks.append(start("certificates", self._certificates.run()))
        if self._access is not None:
            self._tasks += [
                start("access_list", self._access.reflector.run()),
                start("access", self._access.run()),
            ]

    async def up_to_date(self) -> None:
        """Start to apply the maps, and wait until each known map was applied, or tried once. Then
        start to answer the operator's checks of the maps."""
        await self._brokers_watch.synced.wait()
        await self._maps_watch.synced.wait()
        # Only now, so that no map is applied before it is known which brokers are alive.
        self._tasks.append(self._parts.start("maps", self._maps.run()))
        self._maps.reapply()
        await self._maps.idle()
        self._tasks.append(self._parts.start("maps_check", self._check.run()))

    async def access_known(self) -> None:
        """Wait until ACLs and users are known, for `ACCESS_WAIT_S` at most: clients give up after
        an error of authorization, which they would get before."""
        if self._access is None:
            return
        try:
            async with asyncio.timeout(ACCESS_WAIT_S):
                await self._access.known.wait()
        except TimeoutError:
            logger.error("users_not_known", extra={"after_s": ACCESS_WAIT_S})

    def is_ready(self) -> tuple[bool, str]:
        """Whether this broker is ready, and in words what is missing. It becomes ready when all its
        replicas are in sync in the present session, and stays so for the rest of the session."""
        session = self.registration.session
        if session == NEVER_ADMITTED:
            return False, "the broker is not admitted yet"
        if self._ready_session != session:
            own = self._parts.process.replica(session)
            late = replicas_behind(
                self._maps.applied.values(), own, self._intact_since, self._damaged_only_copies()
            )
            if late:
                shown = ", ".join(late[:MAX_NAMED_REPLICAS])
                return False, f"{len(late)} replicas are not in sync yet: {shown}"
            self._ready_session = session
        return True, "ready"

    def _damaged_only_copies(self) -> set[tuple[str, int]]:
        """Topic and partition of damaged replicas that are not being fetched again: no other broker
        has a replica to fetch from, so waiting for them would not help."""
        damaged = self._parts.node.replicas.damaged()
        return {
            (replica.topic, replica.partition) for replica in damaged if not replica.is_refetching
        }

    async def drain(self) -> None:
        """Report that this broker stops, and let others take over its leaderships."""
        if not self.registration.deposed.done():
            await self._hand_over()
        self._admin.close()

    async def _hand_over(self) -> None:
        """Set `draining` in the status, and wait until the operator has moved everything that other
        brokers can take over; at most `DRAIN_S`."""
        self._is_draining = True
        self._writer.changed()
        if not await self._writer.written(DRAINING_WRITE_TIMEOUT_S):
            return  # the operator cannot know of it
        deadline_s = self._parts.clock.monotonic_s() + DRAIN_S
        while self._can_still_hand_over() and self._parts.clock.monotonic_s() < deadline_s:
            await self._parts.clock.sleep(DRAIN_STEP_S)

    async def stop(self) -> None:
        """Stop following changes of the cluster; a map that is being applied is completed first."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._maps.finish()

    def disk_failed(self) -> None:
        """A write or sync failed. Report the directory as offline, and store that records in the
        page cache may be lost, which the next start must know."""
        self._is_online = False
        self._writer.changed()
        remember = partial(self._remember, disk_failed=True)
        self._tasks.append(self._parts.start("disk_failed", _best_effort(remember)))

    # -- observing

    def _broker_changed(self, broker: Broker) -> None:
        """A Broker object changed: update the view, and apply the maps again that name a broker
        which is alive now, or not any more."""
        self._brokers.show(self._cluster)
        if broker.spec.broker_id == self._parts.process.broker_id:
            self._own_changed(broker)
        before, self._live = self._live, self._find_live()
        for broker_id in {replica.broker_id for replica in before ^ self._live}:
            self._maps.reapply(broker_id)

    def _own_changed(self, broker: Broker) -> None:
        """This broker's own object changed: pass the operator's part of it on to those it
        concerns."""
        self.registration.observed(broker)
        self._writer.observed(broker)
        self._check.requested(broker.spec.maps_check)
        config = self._settings | dict(broker.spec.config)
        if config != self._parts.config:
            # Changed in place, because all parts of the broker read this mapping.
            self._parts.config.clear()
            self._parts.config.update(config)
        # After the configuration, in which clients see what an answered request has changed.
        self._admin.answered(broker.spec.answers)
        self._refetches.orders_changed(broker.spec.refetches)
        self._rack = broker.spec.rack
        self._assigned_session = broker.spec.session
        # The operator's session is later if this broker has run on another disk in between.
        self._intact_since = max(self._attested.intact_since, broker.spec.intact_since)

    def _find_live(self) -> frozenset[ReplicaRef]:
        """The live brokers with their sessions: the others by their Broker objects, this one by the
        session that this process has begun."""
        process, session = self._parts.process, self.registration.session
        others = {
            replica for replica in self._brokers.live if replica.broker_id != process.broker_id
        }
        own = set() if session == NEVER_ADMITTED else {process.replica(session)}
        return frozenset(others | own)

    def _map_applied(self, topic: str) -> None:
        """A map was applied: admin requests may see their effect, and the status may change."""
        self._admin.topic_changed(topic)
        self._writer.changed()

    def _can_still_hand_over(self) -> bool:
        """Whether the operator can still move a leadership away from this broker, or remove it from
        an ISR."""
        own = self._parts.process.broker_id
        return any(
            can_be_handed_over(own, partition, topic.min_isr)
            for topic in self._cluster
            for partition in topic.partitions
        )

    # -- acting

    async def _keep_session(self, session: Session) -> None:
        """Store a new session durably before it is used; retry until the disk accepts it."""
        while True:
            try:
                await self._remember(session=session)
                return
            except OSError as error:
                logger.error("session_not_kept", extra={"reason": str(error)})
                await self._parts.clock.sleep(RETRY_S)

    def _session_began(self, session: Session) -> None:
        """The operator has admitted this process with a session that is now durable here."""
        self._cluster.session = session
        self._live = self._find_live()
        self._maps.reapply(self._parts.process.broker_id)
        self._refetches.reapply()
        self._writer.changed()
        if not self._counts_renewals:
            # Only now: the operator knows what this start found out about the disk.
            self._counts_renewals = True
            self._tasks.append(self._parts.start("renewals", self._parts.renewals.run()))
        logger.info("admitted", extra={"session": session})

    async def _may_lose_tail(self) -> None:
        """Store, before it is so, that a topic here may have acknowledged records in the page cache
        only: a crash of the machine would lose them."""
        if self._record.fsync_only:
            await self._remember(fsync_only=False)

    async def _remember(self, **changes: Any) -> None:
        """Store the session record durably with these changed fields. Raises `OSError`."""
        async with self._record_lock:
            record = replace(self._record, **changes)
            await write_session(self._parts.metadata, record)
            self._record = record

    def _start_refetching(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self._parts.start("refetches", work))

    async def _keep_measuring(self) -> None:
        """Report the usage of the disk every `MEASURE_INTERVAL_S`, until cancelled."""
        while True:
            await self._parts.clock.sleep(MEASURE_INTERVAL_S)
            self._measure()
            # Not at the start, when replicas may not have been opened yet.
            self._log_bytes = self._parts.node.replicas.log_bytes
            self._writer.changed()

    def _measure(self) -> None:
        """Measure the usage of the disk for the status; None if the disk does not answer."""
        try:
            self._usage = self._parts.data.usage()
        except OSError:
            self._usage = None

    # -- reporting

    def _status(self) -> BrokerStatus | None:
        """The status; None if another process owns the object."""
        if self.registration.deposed.done():
            return None
        return broker_status(
            StatusParts(
                process=self._parts.process,
                session=self._session_to_report(),
                rack=self._rack,
                is_draining=self._is_draining,
                is_online=self._is_online,
                attested=self._attested_now(),
                usage=self._usage,
                log_bytes=self._log_bytes,
                node=self._parts.node,
                maps=self._maps,
                requests=self._admin.outstanding(),
                refetches=self._refetches.answers,
                maps_checked=self._check.answer,
                certificates=self._certificates.reports,
            )
        )

    def _attested_now(self) -> Attested:
        """The attestation for the status. A process that was admitted has lost nothing since then,
        so it can be admitted again even if the operator has forgotten its session."""
        is_admitted = self.registration.session != NEVER_ADMITTED
        if not is_admitted:
            return self._attested
        return replace(self._attested, tail=Tail.INTACT, went_back=False)

    def _session_to_report(self) -> Session:
        """The session for the status. Before admission it is 0, unless the operator has forgotten a
        session.

        After the operator's objects were restored from a backup, it could assign a session again
        that was used here. The report of the last used session prevents that.
        """
        used = Session(self._record.session)
        return self.registration.session or (
            used if used > self._assigned_session else NEVER_ADMITTED
        )


async def _best_effort(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Await a disk write, and only log its failure: the disk has failed already."""
    try:
        await work()
    except OSError as error:
        logger.warning("session_file_not_written", extra={"reason": str(error)})
