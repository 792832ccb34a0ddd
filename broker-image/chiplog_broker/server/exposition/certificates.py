"""The metrics of TLS: when served certificates expire, and handshakes that failed."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_broker.server.metrics import RequestMetrics


class CertificateCollector(Collector):
    """Collects the metrics of listeners with TLS at each scrape."""

    def __init__(self, requests: RequestMetrics) -> None:
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        expiry = GaugeMetricFamily(
            "chiplog_broker_certificate_expiry_timestamp_seconds",
            "When the certificate that the listener serves expires, in seconds since 1970.",
            labels=["listener"],
        )
        for name, files in self._requests.certificates.items():
            if files is not None:
                expiry.add_metric([name], files.current().not_after_s)
        yield expiry
        yield CounterMetricFamily(
            "chiplog_broker_tls_handshakes_failed",
            "Connections closed because their TLS handshake failed.",
            self._requests.failed_handshakes_total,
        )
