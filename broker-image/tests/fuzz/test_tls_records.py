"""Mutated TLS records on a listener that asks for a login: over loopback, to the real accept loop.

A client sends a mutated record in place of any of its flights, and then nothing more. The CPU time
is that of the event loop's thread, as the client's thread reads it: it includes accepting the
connection and its handshake up to there. OpenSSL's memory is not Python's: it is measured as
resident memory of many connections that wait in their handshakes.
"""

import asyncio
import logging
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import uvloop

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.security.listener_security import ClientAuth
from chiplog_broker.server.listening import Acceptor
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.scram import Mechanism
from e2e.measured import note
from tests.fuzz.costs import (
    CPU_LIMIT_S,
    FRAMES,
    MEMORY_GUARD,
    MEMORY_LIMIT_BYTES,
    REPEATS,
    Worst,
    framed,
)
from tests.fuzz.requests import of_logins
from tests.mutations import mutated_frame
from tests.server.tls_kit import Pki, client_hello, connect, until

if TYPE_CHECKING:
    from tests.conftest import Kit

WHAT = "mutated TLS records, with the handshake before them"
ALL = FRAMES // 4
PARTS = max(1, ALL // 5_000)
LIMIT_S = 10
SCENARIO_LIMIT_S = 200
MAX_RECORD_BYTES = 2**14
FLIGHTS = 3
STALLED = 100
FLOODS = [
    b"\x14\x03\x03\x00\x01\x01",  # ChangeCipherSpec
    b"\x15\x03\x03\x00\x02\x01\x5a",  # a warning
    b"\x16\x03\x03\x00\x00",  # an empty record of a handshake
    b"\x17\x03\x03\x00\x00",  # an empty record of data
    b"\x16\x03\x01\x00\x01\x01",  # a ClientHello, byte by byte
    b"\x16\x03\x03\x40\x00" + bytes(100),
    b"\x18\x03\x03\x00\x03\x01\x40\x00",  # a heartbeat
]
MECHANISM = Mechanism.SCRAM_SHA_512.value


@dataclass(frozen=True, slots=True)
class Address:
    """A listener, and what its clients begin with."""

    host_and_port: tuple[str, int]
    contexts: Sequence[ssl.SSLContext]
    thread: int
    """The thread of the broker's event loop."""

    def cpu_s(self) -> float:
        return time.clock_gettime(time.pthread_getcpuclockid(self.thread))


@asynccontextmanager
async def secured(kit: "Kit", pki: Pki) -> AsyncIterator[Acceptor]:
    """A broker whose clients may have certificates, and have to log in."""
    settings = pki.settings(ClientAuth.REQUESTED)
    listeners = [
        Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0),
        Listener("tls", "127.0.0.1", 0, "127.0.0.1", 0, tls=settings, mechanisms=(MECHANISM,)),
    ]
    broker = kit.new_broker({"max.connections": "1000"}, listeners)
    await broker.start()
    try:
        yield broker.acceptors[1]
    finally:
        kit.close_clients()
        await broker.stop()


def contexts(pki: Pki) -> list[ssl.SSLContext]:
    """Clients with TLS 1.2 and 1.3, with and without a certificate."""
    found = [pki.context(), pki.context(pki.clients.client("alice"))]
    for one in (pki.context(), pki.context(pki.clients.client("alice"))):
        one.maximum_version = ssl.TLSVersion.TLSv1_2
        found.append(one)
    return found


def mutated(records: bytes, chance: random.Random) -> bytes:
    """Records with a change: within them, of one header, or a flood of small ones instead."""
    match chance.randrange(8):
        case 0:
            flood = chance.choice(FLOODS)
            return flood * (MAX_RECORD_BYTES // len(flood))
        case 1:
            position = chance.randrange(min(5, len(records)))
            return records[:position] + chance.randbytes(1) + records[position + 1 :]
        case 2:
            size = chance.choice([0, 1, 5, MAX_RECORD_BYTES, MAX_RECORD_BYTES + 256, 65_535])
            return records[:3] + size.to_bytes(2, "big") + (records[5:] * 300)[:size]
        case 3:
            cut = chance.randrange(1, 20)
            body = records[5:]
            pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
            return b"".join(records[:3] + len(one).to_bytes(2, "big") + one for one in pieces)
    return mutated_frame(records, chance)


class Client:
    """Sends one mutated flight, and waits for the end of the connection."""

    def __init__(self, address: Address, chance: random.Random) -> None:
        self.address, self.chance = address, chance
        self.requests = of_logins((MECHANISM,))

    def attack(self, worst: Worst) -> None:
        """Send a flight; one that seems to cost too much is sent again."""
        state = self.chance.getstate()
        sent, cpu_s = self._cost()
        for _ in range(REPEATS):
            if cpu_s <= CPU_LIMIT_S:
                break
            self.chance.setstate(state)
            sent, again_s = self._cost()
            cpu_s = min(cpu_s, again_s)
        worst.add(sent, cpu_s, 0)

    def _cost(self) -> tuple[bytes, float]:
        """The mutated flight that was sent, and the CPU time in seconds that it took."""
        before_s = self.address.cpu_s()
        with socket.create_connection(self.address.host_and_port, LIMIT_S) as connection:
            sent = self._sent(connection)
            # The broker may have closed the connection by now, in any way.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass
        return sent, self.address.cpu_s() - before_s

    def _sent(self, connection: socket.socket) -> bytes:
        """Send flights up to a mutated one, which is returned."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = self.chance.choice(self.address.contexts)
        client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        valid = self.chance.randrange(FLIGHTS)
        while True:
            is_complete = handshake_is_complete(client)
            if is_complete and not outgoing.pending:
                client.write(framed(self.chance.choice(self.requests)))
            if flight := outgoing.read():
                if not valid:
                    sent = mutated(flight, self.chance)
                    with suppress(OSError):
                        connection.sendall(sent)
                    return sent
                connection.sendall(flight)
                valid -= 1
            if not is_complete:
                incoming.write(received(connection))


def handshake_is_complete(client: ssl.SSLObject) -> bool:
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def received(connection: socket.socket) -> bytes:
    """What arrives next; the broker must not close the connection before a mutated flight."""
    data = connection.recv(65_536)
    assert data, "the broker has closed a valid connection"
    return data


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_records(
    part: int, kit: "Kit", pki: Pki, worst: Worst, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with secured(kit, pki) as acceptor:
            thread = threading.get_ident()
            address = Address(kit.broker.addresses["tls"], contexts(pki), thread)
            client = Client(address, random.Random(part))  # noqa: S311 - reproducible

            def attack() -> None:
                for _ in range(ALL // PARTS):
                    client.attack(worst)

            async with asyncio.timeout(SCENARIO_LIMIT_S):
                await asyncio.to_thread(attack)
            await until(lambda: not acceptor._connections)
            await ask(kit, pki)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == []
    worst.check()


async def ask(kit: "Kit", pki: Pki) -> None:
    """A client is still answered."""
    known = await connect(kit, pki.context())
    types = known.types(ApiKey.SASL_HANDSHAKE)
    request = types.SaslHandshakeRequest(mechanism=MECHANISM)
    assert (await known.ask(ApiKey.SASL_HANDSHAKE, request)).error_code == 0


def test_handshakes_that_stop_hold_little_memory(kit: "Kit", pki: Pki) -> None:
    """With half a ClientHello, and with almost all of the longest record."""

    async def scenario() -> None:
        async with secured(kit, pki) as acceptor:
            hello = client_hello(pki.context())
            longest = b"\x16\x03\x01\x40\x00" + hello[5:] + bytes(MAX_RECORD_BYTES)
            door = acceptor._door
            assert door is not None
            await ask(kit, pki)
            for what, sent in (
                ("half a ClientHello", hello[: len(hello) // 2]),
                ("the longest record without its end", longest[:MAX_RECORD_BYTES]),
            ):
                with ExitStack() as held:
                    before_bytes = resident_bytes()
                    await asyncio.to_thread(stall, held, kit.broker.addresses["tls"], sent)
                    await until(lambda: len(door._handshakes) == STALLED)
                    await asyncio.sleep(0.2)
                    each_bytes = (resident_bytes() - before_bytes) / STALLED
                note(
                    f"a handshake that stops after {what}: {each_bytes / 1024:.0f} KiB resident "
                    f"(limit {MEMORY_LIMIT_BYTES // 1024} KiB)"
                )
                assert each_bytes < MEMORY_GUARD * MEMORY_LIMIT_BYTES
                await until(lambda: not door._handshakes)

    kit.run(scenario)


def stall(held: ExitStack, address: tuple[str, int], sent: bytes) -> None:
    """Open connections that send this and nothing more; they stay open."""
    for _ in range(STALLED):
        connection = held.enter_context(socket.create_connection(address, LIMIT_S))
        connection.sendall(sent)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123
        return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
