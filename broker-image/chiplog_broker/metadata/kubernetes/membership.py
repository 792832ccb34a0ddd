"""One broker process as a member of a cluster on Kubernetes: creates and starts its parts.

Start: an incarnation, and a Lease that is renewed from then on. Join, once the logs are open:
report what was found, be admitted, apply the maps. Every part that waits has its own task.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any

from chiplog_broker.errors import CannotStart
from chiplog_broker.metadata.kubernetes.attestation import FoundData, attest, intact_since
from chiplog_broker.metadata.kubernetes.lease_keeper import LeaseKeeper
from chiplog_broker.metadata.kubernetes.map_files import MapFiles
from chiplog_broker.metadata.kubernetes.maps import is_synced_before_ack
from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.metadata.kubernetes.process import Process
from chiplog_broker.metadata.kubernetes.renewals import Renewals
from chiplog_broker.metadata.kubernetes.session_file import (
    SessionRecord,
    read_session,
    write_session,
)
from chiplog_broker.metadata.kubernetes.status import Attested
from chiplog_broker.metadata.kubernetes.store import KubernetesStore
from chiplog_broker.metadata.kubernetes.store_parts import StoreParts
from chiplog_broker.metadata.kubernetes.topic_views import topic_view
from chiplog_broker.metadata.port import MembershipEvents, Node
from chiplog_broker.metadata.view import BrokerView, TopicView
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.machine import Machine
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.credentials import CredentialSource
from chiplog_core.ids import Session, StorageUuid
from chiplog_core.model.broker import Broker
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.model.termination_message import TerminationMessage
from chiplog_core.problems import InvalidManifest
from chiplog_kube.api import ApiError, KubeApi, Manifest
from chiplog_kube.kinds import BROKERS

logger = logging.getLogger(__name__)

RETRY_S = 1.0
REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPorts:
    """The ports of a member: disk, network, clock, API server."""

    api: KubeApi
    clock: Clock
    rng: Rng
    metadata: Disk
    data: Disk
    machine: Machine
    close_api: Callable[[], Coroutine[Any, Any, None]]
    internal: CredentialSource | None = None
    """The secret of the cluster's processes; None if this process has none."""


class KubernetesMembership:
    """The `Membership` of a broker in Kubernetes."""

    def __init__(
        self, process: Process, ports: MemberPorts, config: MutableMapping[str, str]
    ) -> None:
        """`config` is kept equal to the settings of the file and the Broker object."""
        self._process = process
        self._ports = ports
        self._config = config
        self._outages: Outages
        self._files = MapFiles(ports.metadata)
        self._known: dict[str, PartitionMapSpec] = {}
        """Topic -> the map that the last process applied."""
        self._last_record: SessionRecord | None = None
        self._events: MembershipEvents
        self._lease: asyncio.Task[None] | None = None
        self._renewals = Renewals(ports.metadata, ports.clock)
        self._store: KubernetesStore | None = None
        self._failed: asyncio.Future[str]
        """Completed with the reason when a task of this process has failed."""

    @property
    def incarnation(self) -> str:
        return self._process.incarnation

    @property
    def authority(self) -> Outages:
        return self._outages

    async def begin(self, events: MembershipEvents) -> str:
        """Renew the Lease from now on, and read the files of the last process. Returns the cluster
        id. Raises `CannotStart` if the data directory belongs to another broker."""
        self._events = events
        self._failed = asyncio.get_running_loop().create_future()
        ports = self._ports
        self._outages = Outages(ports.clock, events.authority_answered)
        # After the end of this process, the operator reads there which incarnation has ended.
        ports.machine.leave(str(TerminationMessage(self._process.incarnation)))
        keeper = LeaseKeeper(ports.api, self._process, ports.clock, self._outages, self._renewals)
        self._lease = self.start("lease", keeper.run())
        self._last_record = read_session(ports.metadata)
        self._known = await self._files.read_all()
        if self._last_record is None:
            # A new volume: only the operator's object has the cluster id.
            broker, _ = await self._own_broker()
            return broker.spec.cluster_id
        if self._last_record.broker_id != self._process.broker_id:
            raise CannotStart(
                f"the data directory belongs to broker {self._last_record.broker_id}, not to "
                f"{self._process.broker_id}: give each broker its own volume"
            )
        return self._last_record.cluster_id

    def known_topics(self) -> list[TopicView]:
        """The topics of the maps that the last process applied."""
        views = (topic_view(spec, frozenset()) for spec in self._known.values())
        return [view for view in views if view is not None]

    async def join(self, node: Node) -> KubernetesStore:
        """Report what was found on the disk, wait to be admitted, and apply all maps. Raises
        `CannotStart` if the data belongs to another cluster, or another process takes over."""
        broker, manifest = await self._own_broker()
        if broker.spec.cluster_id != node.cluster.cluster_id:
            raise CannotStart(
                f"the data directory belongs to cluster {node.cluster.cluster_id}, but "
                f"{self._process.broker_name} is a broker of {broker.spec.cluster_id}: give each "
                "broker its own volume"
            )
        record, attested = await self._attest(node, broker)
        self._store = store = KubernetesStore(
            StoreParts(
                process=self._process,
                api=self._ports.api,
                clock=self._ports.clock,
                rng=self._ports.rng,
                metadata=self._ports.metadata,
                data=self._ports.data,
                outages=self._outages,
                files=self._files,
                node=node,
                config=self._config,
                start=self.start,
                renewals=self._renewals,
                internal=self._ports.internal,
            ),
            record,
            attested,
            self._known,
        )
        store.follow(manifest)
        self._events.waits_for("waiting to be admitted by the operator")
        await self._unless_ended(store.registration.admitted.wait())
        self._events.waits_for("waiting for the metadata of the topics")
        await self._unless_ended(store.up_to_date())
        self._events.waits_for("waiting for the users of the cluster")
        await self._unless_ended(store.access_known())
        return store

    def listening(self, view: BrokerView) -> None:
        """Set the bound addresses; clients get the addresses that the operator determines."""

    def is_ready(self) -> tuple[bool, str]:
        return self._store.is_ready() if self._store else (False, "the broker is not admitted yet")

    def proposals_changed(self) -> None:
        """Write the status again, which contains the proposals of leaders here."""
        if self._store is not None:
            self._store.status_changed()

    def problems_changed(self) -> None:
        """Write the status again, which contains damaged and halted replicas."""
        if self._store is not None:
            self._store.status_changed()

    def partition_settled(self) -> None:
        """Write the status again, which contains the settled partitions."""
        if self._store is not None:
            self._store.status_changed()

    def topic_outdated(self, topic: str) -> None:
        """Apply the topic's map again, because a replica here differs from it."""
        if self._store is not None:
            self._store.apply_again(topic)

    def disk_failed(self) -> None:
        """Report that a write or sync failed, in the termination message and in the status."""
        # The kubelet reports the termination message even if neither this disk nor the API server
        # can store that the disk failed.
        words = TerminationMessage(self._process.incarnation, has_failed_disk=True)
        self._ports.machine.leave(str(words))
        if self._store is not None:
            self._store.disk_failed()

    async def drain(self) -> None:
        """Let other brokers take over the leaderships, if this process was admitted."""
        if self._store is not None:
            await self._store.drain()

    async def leave(self) -> None:
        """Stop following changes of the cluster, before the logs are closed."""
        if self._store is not None:
            await self._store.stop()

    async def close(self) -> None:
        """Stop renewing the Lease, and close the client of the API server."""
        if self._lease is not None:
            self._lease.cancel()
            await asyncio.wait([self._lease])
        await self._ports.close_api()

    async def deposed(self) -> str:
        """Wait until another process is admitted as this broker, or a task of this one fails;
        returns the reason."""
        assert self._store is not None, "join comes first"
        deposed = self._store.registration.deposed
        await asyncio.wait({deposed, self._failed}, return_when=asyncio.FIRST_COMPLETED)
        return deposed.result() if deposed.done() else self._failed.result()

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start the task of a part; if it fails, the process must end."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._check)
        return task

    def _check(self, task: "asyncio.Task[None]") -> None:
        """If a task has failed, log it and let `deposed` return: the process must end."""
        if task.cancelled() or task.exception() is None:
            return
        logger.error("task_failed", extra={"task": task.get_name()}, exc_info=task.exception())
        if not self._failed.done():
            self._failed.set_result(f"its task {task.get_name()} failed: {task.exception()!r}")

    async def _unless_ended(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for `work`. Raises `CannotStart` if this process must not continue."""
        loop = asyncio.get_running_loop()
        wanted, ended = loop.create_task(work), loop.create_task(self.deposed())
        try:
            await asyncio.wait({wanted, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise CannotStart(ended.result())
            await wanted
        finally:
            wanted.cancel()
            ended.cancel()

    async def _own_broker(self) -> tuple[Broker, Manifest]:
        """This broker's own object; waits until it can be read."""
        process, was_logged = self._process, False
        while True:
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    manifest = await self._ports.api.get(
                        BROKERS, process.namespace, process.broker_name
                    )
                self._outages.worked()
                return Broker.from_manifest(manifest), manifest
            except (ApiError, TimeoutError, InvalidManifest) as error:
                why = f"{type(error).__name__} {error}"
                what = f"waiting for the Broker object {process.broker_name}: {why}"
                self._events.waits_for(what)
                if not was_logged:
                    logger.warning("broker_object_not_read", extra={"reason": what})
                    was_logged = True
                await self._ports.clock.sleep(RETRY_S)

    async def _attest(self, node: Node, broker: Broker) -> tuple[SessionRecord, Attested]:
        """Find out whether this data directory has lost acknowledged records, and store what the
        next process needs for the same decision. Returns the stored record and the result."""
        storage_uuid = StorageUuid(node.data.storage_uuid.bytes)
        boot_id = self._ports.machine.boot_id()
        is_older = await self._renewals.compare(self._ports.api, self._process, self._outages)
        found = FoundData(
            storage_uuid=str(storage_uuid),
            boot_id=boot_id,
            closed_in_session=node.data.closed_in_session,
            went_back=is_older or self._is_older_than(broker),
            damaged=len(node.replicas.damaged()),
        )
        verdict = attest(self._last_record, found)
        since = intact_since(self._last_record, verdict, broker.spec.session)
        logger.info(
            "data_attested",
            extra={"tail": verdict.tail.value, "reason": verdict.reason, "intact_since": since},
        )
        if found.went_back:
            # The API server is newer than this copy, and so are its maps. Topics that are only in
            # the copy have been deleted since, and no tombstone for them will come.
            await self._files.remove_all()
            self._known = {}
        own = self._process.broker_id
        record = SessionRecord(
            cluster_id=node.cluster.cluster_id,
            broker_id=own,
            session=self._last_record.session if self._last_record else 0,
            incarnation=self._process.incarnation,
            intact_since=since,
            boot_id=boot_id,
            storage_uuid=str(storage_uuid),
            fsync_only=all(is_synced_before_ack(spec, own) for spec in self._known.values()),
        )
        await write_session(self._ports.metadata, record)
        return record, Attested(storage_uuid, verdict.tail, Session(since), found.went_back)

    def _is_older_than(self, broker: Broker) -> bool:
        """Whether the Broker's status has a later session than this disk: the volume is an older
        copy."""
        if self._last_record is None:
            return False  # a new volume, or one without a readable session
        return self._last_record.session < (broker.status.session or 0)
