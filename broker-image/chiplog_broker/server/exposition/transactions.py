"""The metrics of transactions: of the coordinator, and of partitions with hanging transactions."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.settings import setting
from chiplog_broker.transactions.figures import TransactionCounters, TransactionFigures
from chiplog_core.config.transaction_keys import TRANSACTION_MAX_TIMEOUT_MS
from chiplog_core.durations import MINUTE_MS

LATE_MS: Final = 5 * MINUTE_MS
"""Beyond the longest timeout, as in Kafka (KIP-664): the coordinator aborts a transaction some time
after its timeout, and then its markers have to be written."""


class Transactions(Protocol):
    """The transactions that this broker coordinates."""

    @property
    def counters(self) -> TransactionCounters: ...

    def figures(self) -> TransactionFigures: ...


class TransactionCollector(Collector):
    """Collects the metrics of transactions at each scrape."""

    def __init__(
        self, transactions: Transactions, replicas: Replicas, config: Mapping[str, str]
    ) -> None:
        """`config` is the broker's configuration, which may change at run time."""
        self._transactions = transactions
        self._replicas = replicas
        self._config = config

    def collect(self) -> Iterator[Metric]:
        figures, prefix = self._transactions.figures(), "chiplog_broker_transactions"
        for name, text, value in (
            (
                "chiplog_broker_transactional_ids",
                "Transactional ids that this broker coordinates.",
                figures.ids,
            ),
            (
                f"{prefix}_open",
                "Transactions that this broker coordinates and that are open.",
                figures.open,
            ),
            (
                f"{prefix}_oldest_open_seconds",
                "For how long the oldest open transaction that this broker coordinates is open.",
                figures.oldest_open_ms / 1000,
            ),
            (
                f"{prefix}_incomplete",
                (
                    "Transactions that this broker coordinates and that are committed or aborted, "
                    "but not all of whose markers are written."
                ),
                figures.decided,
            ),
            (
                f"{prefix}_oldest_incomplete_seconds",
                "How long ago the first of these transactions was committed or aborted.",
                figures.oldest_decided_ms / 1000,
            ),
            (
                f"{prefix}_unwritten_markers",
                "Partitions that still have to get a marker of such a transaction.",
                figures.unwritten_markers,
            ),
            (
                "kafka_server_replicamanager_partitionswithlatetransactionscount",
                (
                    "Partitions that this broker leads and that have an open transaction whose "
                    "producer has not written for transaction.max.timeout.ms and five minutes."
                ),
                self._late_partitions(),
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        counters = self._transactions.counters
        for name, text, count in (
            ("committed", "Transactions that were committed.", counters.committed),
            ("aborted", "Transactions that were aborted.", counters.aborted),
            (
                "timed_out",
                "Transactions that were aborted because they were open for too long.",
                counters.timed_out,
            ),
        ):
            yield CounterMetricFamily(f"{prefix}_{name}", text, count)

    def _late_partitions(self) -> int:
        """The number of partitions led here with a transaction that should have ended."""
        late_ms = setting(self._config, TRANSACTION_MAX_TIMEOUT_MS) + LATE_MS
        return sum(
            partition.is_leader and partition.log.longest_idle_transaction_ms() > late_ms
            for partition in self._replicas
        )
