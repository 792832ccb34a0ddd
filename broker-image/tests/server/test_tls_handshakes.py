"""What clients can do before their TLS handshake is complete, and what that costs."""

import asyncio
import os
import resource
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.audit import AuditLog
from chiplog_broker.server import tls_accepting
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.metrics import RequestMetrics
from tests.server.exposition_kit import told
from tests.server.tls_kit import (
    Pki,
    Run,
    client_hello,
    connect,
    serving,
    until,
)

if TYPE_CHECKING:
    from tests.conftest import Kit


def test_what_is_no_handshake_costs_others_nothing(
    kit: "Kit",
    pki: Pki,
    run: Run,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_accepting, "HANDSHAKE_TIMEOUT_S", 2.0)

    async def scenario() -> None:
        async with serving(kit, pki.settings(), max_connections="80") as acceptor:
            address = kit.broker.addresses["tls"]
            hello = client_hello(pki.context())
            flood = []
            for number in range(120):
                _, writer = await asyncio.open_connection(*address)
                writer.write((b"GET / HTTP/1.1\r\n\r\n", b"", hello[: len(hello) // 2])[number % 3])
                flood.append(writer)
                if number % 20 == 0:
                    await (await connect(kit, pki.context())).metadata()
            await until(lambda: len(acceptor._connections) == 6)
            door = acceptor._door
            assert door is not None
            assert len(door._handshakes) <= 20
            assert acceptor._quota._count == 6 + len(door._handshakes)
            await until(lambda: not door._handshakes)
            assert acceptor._quota._count == 6
            requests = kit.broker.requests
            assert requests.failed_handshakes_total == 120
            assert requests.refused_total == 0
            samples = await told(kit.broker)
            assert samples["chiplog_broker_tls_handshakes_failed_total",] == 120
            for writer in flood:
                writer.close()

    run(scenario)
    assert 0 < sum(one.message == "tls_handshake_failed" for one in caplog.records) < 12
    assert not [one for one in caplog.records if one.exc_info]


def test_connections_are_bounded_before_their_handshakes(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(), max_connections_per_ip="2") as acceptor:
            clients = [await connect(kit, pki.context()) for _ in range(2)]
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connect(kit, pki.context())
            requests = kit.broker.requests
            assert (requests.refused_total, requests.failed_handshakes_total) == (1, 0)
            clients[0].writer.close()
            await until(lambda: acceptor._quota._count == 1)
            await (await connect(kit, pki.context())).metadata()

    kit.run(scenario)


def test_a_broker_out_of_descriptors_accepts_when_it_has_some(
    kit: "Kit", pki: Pki, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as client:
                client.setblocking(False)
                taken = [os.dup(0)]
                # The lowest free number is taken each time, so in the end none is free below.
                while taken[-1] <= client.fileno() or len(taken) < 100:
                    taken.append(os.dup(0))
                resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1, hard))
                try:
                    loop = asyncio.get_running_loop()
                    await loop.sock_connect(client, kit.broker.addresses["tls"])
                    await until(lambda: "not_accepted" in caplog.messages)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                    for descriptor in taken:
                        os.close(descriptor)
                await (await connect(kit, pki.context())).metadata()

    run(scenario)
    assert caplog.messages.count("not_accepted") < 5


def test_descriptors_are_kept_for_files_before_the_handshake(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        metrics = RequestMetrics()
        listener = Listener("tls", "127.0.0.1", 0, "127.0.0.1", 0, tls=pki.settings())
        acceptor = Acceptor(
            listener,
            Dispatcher({}, metrics),
            ConnectionQuota(ConnectionLimits(9, 9, 2**20, 600.0, descriptors_below=1)),
            SystemClock(),
            metrics,
            AuditLog(SystemClock().monotonic_s),
        )
        bound = await acceptor.bind()
        await acceptor.accept()
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
        assert await reader.read() == b""
        assert (metrics.refused_total, metrics.failed_handshakes_total) == (1, 0)
        writer.close()
        await acceptor.close()

    kit.run(scenario)


def test_a_client_that_leaves_within_its_handshake_is_forgotten(
    kit: "Kit", pki: Pki, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            hello = client_hello(pki.context())
            for sent in (b"", hello[:100], hello, b"x" * 100_000):
                _, writer = await asyncio.open_connection(*kit.broker.addresses["tls"])
                writer.write(sent)
                await asyncio.sleep(0.05)
                writer.transport.abort()
            await until(lambda: kit.broker.requests.failed_handshakes_total == 4)
            await until(lambda: acceptor._quota._count == 0)

    run(scenario)
    assert not [one for one in caplog.records if one.exc_info]
