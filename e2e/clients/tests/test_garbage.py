"""Garbage on the port: a typed error or a closed connection, and memory stays bounded.

An honest client goes on meanwhile. How long it waits is printed beside how long it
waits in peace; on a shared machine that is a number to read, not one to assert.
"""

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.honest import Honest
from e2e.clients.hostile import CORRELATION_ID, Attack, attacks, bomb, exactly
from e2e.clients.subject import subject
from e2e.clients.topics import create_topic
from e2e.cluster.processes import wait_until
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import metadata
from e2e.kafka.process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

TOPIC = "honest"
ANSWER_LIMIT_S = 10
# A JVM fills its heap before it collects; the claim is Chiplog's own.
GROWTH_LIMIT_MIB = {"Chiplog": 64, "Apache Kafka": 1024}[subject().title]
# 10,000 connections take 50 to 67 MiB: it depends on when Python collects garbage.
IDLE_GROWTH_LIMIT_MIB = max(GROWTH_LIMIT_MIB, 96)
IDLE_CONNECTIONS = 10_000
SLOW_CONNECTIONS = 100
SLOW_BYTES = 6
FEW = 1000


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for this file alone, that has been at work for a while."""
    with subject()(tmp_path_factory.mktemp("attacked")) as one:
        create_topic(one.bootstrap, TOPIC, 1)
        Librdkafka().produce(one.bootstrap, TOPIC, [Record(b"x" * 1000)] * 20_000)
        yield one


@pytest.fixture
def growth_limit_mib() -> int:
    return GROWTH_LIMIT_MIB


@pytest.fixture(autouse=True)
def bounded(target: BrokerProcess, growth_limit_mib: int) -> Iterator[None]:
    """The most memory the broker takes during a test, over what it had before."""
    process = Path(f"/proc/{target.pid}")
    before_mib = target.usage().rss_bytes / 2**20
    (process / "clear_refs").write_text("5")  # forget the highest mark
    yield
    peak = next(line for line in (process / "status").read_text().splitlines() if "VmHWM" in line)
    growth_mib = int(peak.split()[1]) / 1024 - before_mib
    print(f"memory grew by {growth_mib:.1f} MiB at most")
    assert growth_mib <= growth_limit_mib


@pytest.mark.parametrize("attack", list(attacks()), ids=lambda one: one.name)
def test_garbage_gets_an_error_or_a_closed_connection(
    target: BrokerProcess, attack: Attack
) -> None:
    for _ in range(20):
        refuse(target, attack)
    assert metadata(LOOPBACK, target.port).brokers


def test_a_batch_that_inflates_ten_thousandfold(target: BrokerProcess) -> None:
    create_topic(target.bootstrap, "bombed", 1)
    refuse(target, Attack("bomb", bomb("bombed", 10 * 1024)))
    assert metadata(LOOPBACK, target.port).brokers


def test_an_honest_client_beside_garbage(target: BrokerProcess) -> None:
    with Honest(target.bootstrap, TOPIC) as peace:
        wait_until("honest records in peace", lambda: len(peace.waits_ms) >= FEW, 30)
    with Honest(target.bootstrap, TOPIC) as beside:
        for _ in range(10):
            for attack in attacks():
                refuse(target, attack)
        wait_until("honest records", lambda: len(beside.waits_ms) >= FEW, 30)
    compare(peace, beside, "garbage")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("growth_limit_mib", [IDLE_GROWTH_LIMIT_MIB])
def test_an_honest_client_beside_idle_connections(target: BrokerProcess) -> None:
    count = connections_allowed(target)
    with Honest(target.bootstrap, TOPIC) as peace:
        wait_until("honest records in peace", lambda: len(peace.waits_ms) >= FEW, 30)
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection((LOOPBACK, target.port), ANSWER_LIMIT_S))
        with Honest(target.bootstrap, TOPIC) as beside:
            wait_until("honest records", lambda: len(beside.waits_ms) >= FEW, 30)
    compare(peace, beside, f"{count} idle connections")


def test_an_honest_client_beside_slow_ones(target: BrokerProcess) -> None:
    """A byte a second each, of a frame that would be right."""
    with Honest(target.bootstrap, TOPIC) as peace:
        wait_until("honest records in peace", lambda: len(peace.waits_ms) >= FEW, 30)
    never = threading.Event()
    with ExitStack() as stack, Honest(target.bootstrap, TOPIC) as beside:
        slow = [
            stack.enter_context(socket.create_connection((LOOPBACK, target.port), ANSWER_LIMIT_S))
            for _ in range(SLOW_CONNECTIONS)
        ]
        for at in range(SLOW_BYTES):
            for one in slow:
                one.sendall(b"\0\0\x03\xe8\0\x03"[at : at + 1])
            never.wait(1)
    compare(peace, beside, f"{SLOW_CONNECTIONS} clients of a byte a second")


def refuse(broker: BrokerProcess, attack: Attack) -> None:
    """Attack once; fails where the broker neither answers rightly nor closes."""
    with socket.create_connection((LOOPBACK, broker.port), ANSWER_LIMIT_S) as connection:
        try:
            connection.sendall(attack.data)
            if attack.half_closes:
                connection.shutdown(socket.SHUT_WR)
            size = int.from_bytes(exactly(connection, 4), "big")
            answer = exactly(connection, size)
        except TimeoutError:
            pytest.fail(f"no answer to {attack.name}, and not closed, after {ANSWER_LIMIT_S} s")
        except OSError:
            return  # closed
    assert int.from_bytes(answer[:4], "big") == CORRELATION_ID


def connections_allowed(broker: BrokerProcess) -> int:
    """As many idle connections as both processes may have open files, less some for work."""
    limits = Path(f"/proc/{broker.pid}/limits").read_text().splitlines()
    theirs = next(int(line.split()[3]) for line in limits if line.startswith("Max open files"))
    ours, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(IDLE_CONNECTIONS, theirs - 1000, ours - 1000)


def compare(peace: Honest, beside: Honest, what: str) -> None:
    baseline_ms, attacked_ms = peace.p99_ms(), beside.p99_ms()
    print(
        f"an honest client's p99: {baseline_ms:.2f} ms, beside {what} {attacked_ms:.2f} ms "
        f"({attacked_ms / baseline_ms:.1f} times)"
    )
