"""One broker put together: its parts made, started in order and stopped in reverse.

A broker begins a session, opens its logs, learns its topics and only then listens. It
stops listening first and marks its logs as cleanly closed last.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

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
from chiplog_broker.server.listening import Acceptor, ConnectionLimits
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.settings import setting
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, Progress, StoragePorts
from chiplog_broker.storage.errors import StorageError
from chiplog_core.config import broker_keys as keys
from chiplog_core.config.effective import TopicConfig, broker_value, topic_defaults

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger(__name__)

STANDALONE_BROKER_ID = 1


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
        self._acceptors: list[Acceptor] = []
        self._cluster: ClusterView
        self._replicas: Replicas
        self._directory: LogDirectory
        self._store: StandaloneStore
        self._housekeeping: Housekeeping
        self._session = 0

    async def start(self) -> None:
        """Recover the logs, then serve.

        Raises `OSError` for a taken address or a directory in use, `ValueError` for
        metadata that does not read.
        """
        ports = self._ports
        ports.metadata.lock(".lock")
        record = await admit(ports.metadata, ports.rng)
        self._session = record.session
        broker_id = broker_value(self._config, keys.NODE_ID) or STANDALONE_BROKER_ID
        partitions = setting(self._config, keys.NUM_PARTITIONS)
        defaults = Defaults(broker_id, partitions, record.session)
        self._store = StandaloneStore(ports.metadata, ports.rng, defaults, self._config)
        self._cluster = ClusterView(record.cluster_id, broker_id)
        self._cluster.brokers[broker_id] = self._own_view(broker_id)
        self._directory = await self._open_logs(record.cluster_id, broker_id)
        self._replicas = Replicas(broker_id, self._directory, FetchWaiters(), self._went_offline)
        await self._store.start(self._topic_changed, self._topic_deleted)
        self._housekeeping = Housekeeping(
            self._directory, self._replicas, ports.clock, self._config
        )
        self._housekeeping.start()
        self.health.started = True
        await self._listen()
        self.health.serving = True
        log.info(
            "started",
            extra={"broker_id": broker_id, "session": record.session, "topics": len(self._cluster)},
        )

    async def stop(self) -> None:
        """Stop serving and close the logs cleanly."""
        self.health.serving = False
        for acceptor in self._acceptors:
            await acceptor.close()
        await self._housekeeping.stop()
        await self._store.close()
        await self._replicas.close()
        await self._directory.close(self._replicas.high_watermarks(), self._session)
        log.info("stopped", extra={"session": self._session})

    def registry(self) -> "CollectorRegistry":
        """What `/metrics` serves."""
        from chiplog_broker.server.exposition import registry  # noqa: PLC0415

        return registry(self._cluster, self._replicas, self.requests)

    def _own_view(self, broker_id: int) -> BrokerView:
        endpoints = {
            one.name: (one.advertised_host, one.advertised_port) for one in self._listeners
        }
        return BrokerView(broker_id, broker_value(self._config, keys.BROKER_RACK), endpoints)

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
                log.warning(
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

    def _went_offline(self, failed: StorageError) -> None:
        if not self.health.log_directory_offline:
            self.health.log_directory_offline = str(failed)
            log.error("log_directory_offline", extra={"reason": str(failed)})

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
            )
        )
        dispatcher = Dispatcher(table, self.requests)
        limits = connection_limits(self._config)
        for listener in self._listeners:
            acceptor = Acceptor(listener, dispatcher, limits, self._ports.clock, self.requests)
            await acceptor.listen()
            self._acceptors.append(acceptor)
            log.info("listening", extra={"listener": listener.name, "port": listener.port})


def connection_limits(config: Mapping[str, str]) -> ConnectionLimits:
    """What clients are allowed, from Kafka's own keys."""
    idle_ms = setting(config, keys.CONNECTIONS_MAX_IDLE_MS)
    return ConnectionLimits(
        max_connections=setting(config, keys.MAX_CONNECTIONS),
        max_frame_bytes=setting(config, keys.SOCKET_REQUEST_MAX_BYTES),
        max_idle_s=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
    )
