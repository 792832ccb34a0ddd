"""Cells with TLS: the loads that are also measured without it, and readers that do not read.

Clients and brokers agree on TLS 1.3; the broker's certificate is of an elliptic curve (P-256).
"""

import select
import socket
import ssl
import time
from contextlib import ExitStack

from e2e.bench import lines
from e2e.bench.idle_pollers import request
from e2e.bench.paired import Numbers
from e2e.bench.rig import Rig, spent
from e2e.hostile.scene import MIB, forget_peak, peak_bytes
from e2e.kafka.process import BrokerProcess

PARTITIONS = 6
SIZE = 1000
GB = 1e9
READERS, FETCHES = 20, 3
WANTED_BYTES = 50 * MIB
"""What a reader asks for of each partition; brokers send 50 MiB at most in an answer."""
RECEIVE_BYTES = 64 * 1024
"""The buffer of a reader's socket: what does not fit waits in the broker."""
HOLD_S = 3.0
NO_SESSION = (0, -1)


def produce(rig: Rig, broker: BrokerProcess) -> Numbers:
    """Produce with Kafka's Java client."""
    count = rig.effort.scaled(300_000)
    with rig.topic(broker, PARTITIONS) as topic, spent(broker) as cost:
        per_s = rig.java.produce(rig.tls.bootstrap(broker), topic, count, SIZE)
    cpu_per_gb = cost.cpu_s / (count * SIZE / GB)
    return {lines.TLS_PRODUCE: per_s, lines.TLS_PRODUCE_CPU: cpu_per_gb}


def consume(rig: Rig, broker: BrokerProcess, topic: str, records: int) -> Numbers:
    """Read a topic with Kafka's Java client."""
    with spent(broker) as cost:
        per_s = rig.java.consume(rig.tls.bootstrap(broker), topic, PARTITIONS, records)
    cpu_per_gb = cost.cpu_s / (records * SIZE / GB)
    return {lines.TLS_CONSUME: per_s, lines.TLS_CONSUME_CPU: cpu_per_gb}


def readers(rig: Rig, broker: BrokerProcess, topic: str, _records: int) -> Numbers:
    """The most memory that a broker has resident while readers ask for large answers, and read
    nothing. Raises `RuntimeError` where nothing was sent to one of them."""
    wanted = request(NO_SESSION, {topic: PARTITIONS}, wait_ms=0, partition_bytes=WANTED_BYTES)
    context = rig.tls.context()
    with ExitStack() as held:
        clients = []
        forget_peak(broker.pid)
        for _ in range(READERS):
            client = held.enter_context(connected(rig, broker, context))
            for _ in range(FETCHES):
                client.sendall(wanted)
            clients.append(client)
        time.sleep(HOLD_S)
        readable, _, _ = select.select(clients, [], [], 0)
        if len(readable) < READERS:
            raise RuntimeError(f"{broker.title} sent nothing to {READERS - len(readable)} readers")
        found = peak_bytes(broker.pid)
    return {lines.TLS_READERS: found / MIB}


def connected(rig: Rig, broker: BrokerProcess, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection with a small buffer for what arrives."""
    host, port = rig.tls.address(broker)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    plain.settimeout(10)
    plain.connect((host, port))
    return context.wrap_socket(plain, server_hostname=host)
