"""One broker put together: its parts made, started in order and stopped in reverse.

A broker begins a session, opens its logs, learns its topics and only then listens. It
stops listening first and marks its logs as cleanly closed last.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from chiplog_broker.errors import CannotStart
from chiplog_broker.handlers.table import Parts, handler_table
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.metadata.standalone import StandaloneStore, admit
from chiplog_broker.metadata.standalone_plan import Defaults
from chiplog_broker.metadata.view import BrokerView, ClusterView, TopicView
from chiplog_broker.partitions.housekeeping import Housekeeping
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.settings import log_config
from chiplog_broker.partitions.waiting import FetchWaiters
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.health import Health
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.loop_lag import measure_lag
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.settings import setting
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, Progress, StoragePorts
from chiplog_broker.storage.errors import StorageError
from chiplog_core.config import broker_keys as keys
from chiplog_core.config.effective import TopicConfig, broker_value, topic_defaults

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything of the world outside that a broker touches, but its sockets."""

    clock: Clock
    rng: Rng
    data: Disk
    metadata: Disk


class Broker:
    """A standalone broker: a whole cluster in one process."""

    def __init__(
        self,
        ports: Ports,
        config: Mapping[str, str],
        listeners: list[Listener],
        data_path: str,
    ) -> None:
        self._ports = ports
        self._config = config
        self._listeners = listeners
        self._data_path = data_path
        self.health = Health()
        self.requests = RequestMetrics()
        # What was begun, each part with how it ends; the last one begun ends first.
        self._begun = AsyncExitStack()
        self.acceptors: list[Acceptor] = []
        self._cluster: ClusterView
        self._replicas: Replicas
        self._directory: LogDirectory
        self._store: StandaloneStore
        self._session = 0

    async def start(self) -> None:
        """Recover the logs, then serve.

        Raises `CannotStart`, and then everything that was opened is closed again.
        """
        try:
            await self._start()
        except (OSError, ValueError, StorageError) as problem:
            await self._begun.aclose()
            raise CannotStart(str(problem)) from problem
        except BaseException:
            await self._begun.aclose()
            raise

    async def _start(self) -> None:
        ports = self._ports
        take_lock(ports.metadata, self._data_path)
        record = await admit(ports.metadata, ports.rng)
        self._session = record.session
        broker_id = setting(self._config, keys.NODE_ID)
        self._store = StandaloneStore(
            ports.metadata,
            ports.rng,
            Defaults(
                broker_id,
                setting(self._config, keys.NUM_PARTITIONS),
                record.session,
                topic_defaults(self._config),
            ),
        )
        self._cluster = ClusterView(record.cluster_id, broker_id)
        self._directory = await self._open_logs(record.cluster_id, broker_id)
        self._replicas = Replicas(broker_id, self._directory, FetchWaiters(), ports.clock)
        self._directory.health.on_failure(self._went_offline)
        self._begun.push_async_callback(self._close_logs)
        self._begun.push_async_callback(self._store.close)
        await self._store.start(self._topic_changed, self._topic_deleted)
        housekeeping = Housekeeping(self._directory, self._replicas, ports.clock, self._config)
        housekeeping.start()
        self._begun.push_async_callback(housekeeping.stop)
        self.health.started = True
        measuring = asyncio.get_running_loop().create_task(
            measure_lag(ports.clock, self.requests.event_loop_lag)
        )
        self._begun.callback(measuring.cancel)
        await self._listen()
        self.health.serving = True
        logger.info(
            "started",
            extra={"broker_id": broker_id, "session": record.session, "topics": len(self._cluster)},
        )

    async def stop(self) -> None:
        """Answer what waits, stop serving, and close the logs cleanly if the disk lets us."""
        self.health.serving = False
        await self._begun.aclose()
        logger.info("stopped", extra={"session": self._session})

    async def _close_logs(self) -> None:
        await self._replicas.close()
        try:
            await self._directory.close(self._replicas.high_watermarks(), self._session)
        except StorageError as failed:
            # No mark is left, so the next start reads what is really there.
            logger.error("not_closed_cleanly", extra={"reason": str(failed)})

    def registry(self) -> "CollectorRegistry":
        """What `/metrics` serves."""
        from chiplog_broker.server.exposition import registry  # noqa: PLC0415

        return registry(self._cluster, self._replicas, self.requests)

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Listener -> the host and port that clients are told."""
        return dict(self._cluster.brokers[self._cluster.broker_id].endpoints)

    async def _open_logs(self, cluster_id: str, broker_id: int) -> LogDirectory:
        configs = {view.name: view.config for view in self._store.views()}
        unclaimed = TopicConfig({}, topic_defaults(self._config))

        def progress(now: Progress) -> None:
            self.health.logs_recovered = now.partitions_done
            self.health.logs_total = now.partitions_total

        ports = self._ports
        directory = await LogDirectory.open(
            StoragePorts(ports.data, ports.clock, ports.rng),
            OpenOptions(
                node_id=broker_id,
                cluster_id=cluster_id,
                config_of=lambda name: log_config(configs.get(name.topic, unclaimed)),
                on_progress=progress,
            ),
        )
        for report in directory.report.partitions:
            if report.reason:
                logger.warning(
                    "log_recovered",
                    extra={
                        "partition": str(report.partition),
                        "verdict": report.verdict.value,
                        "reason": report.reason,
                    },
                )
        return directory

    async def _topic_changed(self, topic: TopicView) -> None:
        await self._replicas.apply(topic)
        self._cluster.put(topic)

    async def _topic_deleted(self, name: str, topic_id: UUID) -> None:
        self._cluster.remove(name)
        await self._replicas.delete(name, topic_id)

    def _went_offline(self, failure: OSError) -> None:
        self.health.log_directory_offline = str(failure)
        logger.error("log_directory_offline", extra={"reason": str(failure)})

    async def _listen(self) -> None:
        table = handler_table(
            Parts(
                self._cluster,
                self._replicas,
                self._store,
                self._ports.clock,
                self._ports.data,
                self._config,
                self._data_path,
                self._session,
                self.requests,
            )
        )
        dispatcher = Dispatcher(table, self.requests)
        self._begun.push_async_callback(dispatcher.drain)
        quota = ConnectionQuota(connection_limits(self._config))
        self.acceptors = acceptors = [
            Acceptor(one, dispatcher, quota, self._ports.clock, self.requests)
            for one in self._listeners
        ]
        endpoints = {}
        for acceptor in acceptors:
            self._begun.push_async_callback(acceptor.close)
            bound = await acceptor.bind()
            endpoints[bound.name] = (bound.advertised_host, bound.advertised_port)
        # Nobody is accepted before all addresses are known: they are in the first answer.
        rack = broker_value(self._config, keys.BROKER_RACK)
        broker_id = self._cluster.broker_id
        self._cluster.brokers[broker_id] = BrokerView(broker_id, rack, endpoints)
        for acceptor in acceptors:
            await acceptor.accept()


def take_lock(metadata: Disk, data_path: str) -> None:
    """Raises `CannotStart` if another process has the directory."""
    try:
        metadata.lock(".lock")
    except BlockingIOError as held:
        raise CannotStart(
            f"{data_path} is in use by another broker: stop it, or name another directory"
        ) from held


def connection_limits(config: Mapping[str, str]) -> ConnectionLimits:
    """What clients are allowed, from Kafka's own keys."""
    idle_ms = setting(config, keys.CONNECTIONS_MAX_IDLE_MS)
    return ConnectionLimits(
        max_connections=setting(config, keys.MAX_CONNECTIONS),
        max_connections_per_ip=setting(config, keys.MAX_CONNECTIONS_PER_IP),
        max_frame_bytes=setting(config, keys.SOCKET_REQUEST_MAX_BYTES),
        max_idle_s=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
    )
