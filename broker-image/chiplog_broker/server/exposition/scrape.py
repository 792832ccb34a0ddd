"""All metrics for Prometheus, as one text."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest

from chiplog_broker.fetch_sessions.cache import FetchSessionCache
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.server.exposition.certificates import CertificateCollector
from chiplog_broker.server.exposition.cleaner import CleanerCollector
from chiplog_broker.server.exposition.disk import DiskCollector
from chiplog_broker.server.exposition.partitions import (
    PARTITION_SERIES,
    PARTITION_SIZE,
    led_rows,
    size_rows,
)
from chiplog_broker.server.exposition.replicas import ReplicaCollector
from chiplog_broker.server.exposition.requests import RequestCollector
from chiplog_broker.server.exposition.topics import SIZE_SERIES, TOPIC_SERIES, topic_rows
from chiplog_broker.server.exposition.transactions import TransactionCollector, Transactions
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.settings import setting
from chiplog_core.config.broker_keys import METRICS_PARTITIONS
from chiplog_core.telemetry.build_info import BUILD_INFO, BUILD_INFO_ABOUT, BUILD_LABELS
from chiplog_core.telemetry.series import series_text

FRESH_S: Final = 1.0
"""Scrapes within this time after a text was begun get the same text again."""


class Exposition:
    """The metrics of one broker."""

    def __init__(  # noqa: PLR0913, PLR0917 - one argument for each thing that is measured
        self,
        cluster: ClusterView,
        replicas: Replicas,
        requests: RequestMetrics,
        fetch_sessions: FetchSessionCache,
        config: Mapping[str, str],
        throttle: ReplicationThrottle,
        transactions: Transactions,
    ) -> None:
        """`config` is the broker's configuration, which may change at run time."""
        self._cluster = cluster
        self._replicas = replicas
        self._config = config
        self.registry = CollectorRegistry()
        """All metrics except those of single topics and partitions."""
        self.registry.register(RequestCollector(requests, fetch_sessions))
        self.registry.register(ReplicaCollector(cluster, replicas, requests, throttle))
        self.registry.register(DiskCollector(replicas))
        self.registry.register(CleanerCollector(replicas))
        self.registry.register(CertificateCollector(requests))
        self.registry.register(TransactionCollector(transactions, replicas, config))
        ProcessCollector(registry=self.registry)
        build = Gauge(BUILD_INFO, BUILD_INFO_ABOUT, tuple(BUILD_LABELS), registry=self.registry)
        build.labels(**BUILD_LABELS).set(1)
        self._text_task: asyncio.Task[bytes] | None = None
        """Makes the current text; when it is done, it has the latest text as its result."""
        self._began_s = 0.0

    async def scraped(self) -> bytes:
        """The text for a scrape. It is made once a second at most, and concurrent scrapes share
        it."""
        now_s = time.monotonic()
        if self._text_task is None or (self._text_task.done() and now_s - self._began_s >= FRESH_S):
            self._began_s = now_s
            self._text_task = asyncio.get_running_loop().create_task(self.text())
        # Shielded: other scrapes may wait for it when this one is cancelled.
        return await asyncio.shield(self._text_task)

    async def text(self) -> bytes:
        """The current values of all metrics, made in slices: other tasks run in between."""
        body = bytearray(generate_latest(self.registry))
        for piece in self._slices():
            await asyncio.sleep(0)
            body += piece.encode()
        return bytes(body)

    def _slices(self) -> Iterator[str]:
        """The text of single topics and partitions, in parts that are made quickly.

        If partitions have no series of their own, topics have the size of their logs instead.
        """
        names_partitions = setting(self._config, METRICS_PARTITIONS)
        topics = topic_rows(self._cluster, self._replicas)
        yield from chain.from_iterable(series_text(series, topics) for series in TOPIC_SERIES)
        if not names_partitions:
            yield from series_text(SIZE_SERIES, topics)
            return
        yield from series_text(PARTITION_SIZE, size_rows(self._replicas))
        led = led_rows(self._cluster, self._replicas)
        yield from chain.from_iterable(series_text(series, led) for series in PARTITION_SERIES)
