"""A user's quotas hold for real clients, and other users notice nothing."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer

from e2e.clients.by_librdkafka import QUIET, must_arrive
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.kafka.tools import run_tool
from e2e.lanes import is_full
from e2e.long_form import LONG_FORM
from e2e.measured import note

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]

RATE: Final = 1_000_000
LIMITED, FREE = "limited", "free"
DURATION_S: Final = 30 if is_full() else 3
BASELINE_S: Final = 10 if is_full() else 1
VALUE: Final = b"v" * 1_000
BURST_BYTES: Final = RATE
REQUEST_BYTES: Final = 1_100_000
"""The largest request of a producer, or answer of a broker, which may exceed what is left."""
TOLERANCE: Final = 0.10
GUARD: Final = 5
"""A short run on a busy machine is only held to this part of the rate."""


class LimitedBroker(StandaloneBroker):
    """A broker with a listener for two users, and one without logins that sets their quotas."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (port,) = free_ports(1)
        self.logins = f"{LOOPBACK}:{port}"
        self.options = tuple(
            word
            for user in (LIMITED, FREE)
            for word in ("--add-scram", f"SCRAM-SHA-512=[name={user},password={user}-secret]")
        )
        self.settings |= {
            "listeners": f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.logins}",
            "group.initial.rebalance.delay.ms": "0",
        }

    def librdkafka(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.logins,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
            **QUIET,
        }

    def java(self, user: str) -> Path:
        file = self.home / f"{user}.properties"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={module} required username="{user}" password="{user}-secret";\n'
        )
        return file

    def configs(self, *arguments: str, check: bool = True) -> str:
        where = ("--bootstrap-server", self.bootstrap)
        return run_tool("kafka-configs.sh", *where, *arguments, check=check)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LimitedBroker]:
    with limited(tmp_path_factory.mktemp("quotas")) as one:
        yield one


@contextmanager
def limited(directory: Path) -> Iterator[LimitedBroker]:
    """A broker with topics, of which one is filled, and with the quotas of one user."""
    with LimitedBroker(directory) as one:
        for topic in ("produced", "consumed", "of-others"):
            create_topic(one.bootstrap, topic, 4)
        fill(one, "consumed", (DURATION_S + 4) * RATE)
        rates = f"producer_byte_rate={RATE},consumer_byte_rate={RATE}"
        of_user = ("--entity-type", "users", "--entity-name", LIMITED)
        one.configs(*of_user, "--alter", "--add-config", rates)
        yield one


def fill(broker: LimitedBroker, topic: str, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    for _ in range(size_bytes // len(VALUE)):
        producer.produce(topic, VALUE, on_delivery=must_arrive)
        producer.poll(0)
        if len(producer) > 50_000:
            producer.poll(0.1)
    assert producer.flush(60) == 0


def produced_rate(settings: dict[str, Any]) -> float:
    """Bytes per second that librdkafka gets acknowledged, as fast as it can."""
    producer = Producer({**settings, "queue.buffering.max.messages": 20_000})
    acknowledged = 0

    def delivered(error: Any, message: Any) -> None:
        nonlocal acknowledged
        if error is None and time.monotonic() < until_s:
            acknowledged += len(message.value())

    until_s = time.monotonic() + DURATION_S
    while time.monotonic() < until_s:
        try:
            producer.produce("produced", VALUE, on_delivery=delivered)
            producer.poll(0)
        except BufferError:
            producer.poll(0.05)
    producer.purge()
    producer.poll(0)
    return acknowledged / DURATION_S


def consumed_rate(settings: dict[str, Any]) -> tuple[float, float]:
    """Bytes per second that librdkafka consumes, from its first record on; and for how many seconds
    it may have fetched."""
    consumer = Consumer({**settings, "group.id": "limited", "auto.offset.reset": "earliest"})
    consumer.subscribe(["consumed"])
    began_s = time.monotonic()
    size_bytes, until_s = 0, began_s + 60
    while time.monotonic() < until_s:
        for one in consumer.consume(1_000, timeout=0.1):
            must_arrive(one.error(), one)
            if not size_bytes:
                until_s = time.monotonic() + DURATION_S
            size_bytes += len(one.value() or b"")
    took_s = time.monotonic() - began_s
    consumer.close()
    return size_bytes / DURATION_S, took_s


def latencies_s(broker: LimitedBroker, duration_s: float) -> list[float]:
    """How long the other user waits for each of its records."""
    producer = Producer({**broker.librdkafka(FREE), "linger.ms": 0})
    found, until_s = [], time.monotonic() + duration_s
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        producer.produce("of-others", VALUE, on_delivery=must_arrive)
        assert producer.flush(30) == 0
        found.append(time.monotonic() - began_s)
        time.sleep(0.005)
    return found[1:]  # the first one logs in


def p99_ms(found: list[float]) -> float:
    return quantiles(found, n=100)[98] * 1000


def hold(what: str, rate: float, took_s: float = DURATION_S) -> None:
    """A rate is never exceeded; how near to it a client comes also depends on the machine. `took_s`
    is the time in which it may have got its bytes."""
    note(
        f"quota of {RATE / 1e6:.0f} MB/s: {what} {rate / 1e6:.3f} MB/s over {DURATION_S} s, "
        f"limit ±{TOLERANCE:.0%} over 30 s"
    )
    assert rate * DURATION_S <= RATE * took_s + BURST_BYTES + REQUEST_BYTES
    if is_full():
        assert abs(rate / RATE - 1) <= TOLERANCE
    assert rate >= RATE / GUARD


def latencies_beside(
    limited_settings: dict[str, Any], broker: LimitedBroker
) -> tuple[list[float], float, tuple[float, float]]:
    """How long the other user waits, while the limited one produces and consumes as fast as it can;
    and what `produced_rate` and `consumed_rate` return."""
    # In other processes: their Python must not keep the other user's waiting.
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        producing = processes.submit(produced_rate, limited_settings)
        consuming = processes.submit(consumed_rate, limited_settings)
        others = latencies_s(broker, DURATION_S)
        return others, producing.result(), consuming.result()


def test_librdkafka_keeps_its_rates_and_the_other_user_its_latency(
    broker: LimitedBroker, tmp_path: Path
) -> None:
    alone = p99_ms(latencies_s(broker, BASELINE_S))
    said = f"p99 of another user: {alone:.1f} ms alone"
    if is_full():
        # The limited user's clients take processors from the other user's: on a small machine that
        # alone costs more than what is to be measured.
        with limited(tmp_path) as elsewhere:
            found, _, _ = latencies_beside(elsewhere.librdkafka(LIMITED), broker)
        said += f", {p99_ms(found):.2f} ms beside the same clients at another broker"
    others, produced, consumed = latencies_beside(broker.librdkafka(LIMITED), broker)
    hold("librdkafka produced", produced)
    hold("librdkafka consumed", *consumed)
    note(f"{said}, {p99_ms(others):.2f} ms beside them; limit +20%")


@LONG_FORM
def test_java_keeps_its_rates(broker: LimitedBroker) -> None:
    count = DURATION_S * RATE // len(VALUE)
    printed = run_tool(
        "kafka-producer-perf-test.sh",
        *("--topic", "produced", "--num-records", str(count), "--record-size", str(len(VALUE))),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={broker.logins}"),
        *("--producer.config", str(broker.java(LIMITED))),
    )
    found = re.findall(r"records sent, ([\d.]+) records/sec", printed)
    hold("Java produced", float(found[-1]) * len(VALUE))
    printed = run_tool(
        "kafka-consumer-perf-test.sh",
        *("--topic", "consumed", "--num-records", str(count), "--group", "java"),
        *("--bootstrap-server", broker.logins),
        *("--command-config", str(broker.java(LIMITED))),
    )
    *_, fetch_mb_per_s, _ = printed.strip().splitlines()[-1].split(",")
    hold("Java consumed", float(fetch_mb_per_s) * 2**20)


def test_kafkas_tool_sets_shows_and_removes_quotas(broker: LimitedBroker) -> None:
    """The words are those that Apache Kafka's tool prints."""
    pair = ("--entity-type", "users", "--entity-name", "ada", "--entity-type", "clients")
    of_pair = (*pair, "--entity-default")
    printed = broker.configs(*of_pair, "--alter", "--add-config", "request_percentage=12.5")
    assert "Completed updating config" in printed
    shown = broker.configs(*of_pair, "--describe")
    assert "Quota configs for user-principal 'ada', the default client-id are" in shown
    assert "request_percentage=12.5" in shown
    broker.configs(*of_pair, "--alter", "--delete-config", "request_percentage")
    assert "12.5" not in broker.configs(*of_pair, "--describe")
