"""Clients of listeners with TLS: openssl, and a load that runs while certificates change."""

import json
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer

READ_LIMIT_S = 120
"""How long after its producer a load reads what it has produced."""


def s_client(address: str, *options: str | Path) -> str:
    """What openssl prints of a connection."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", address, *options],
        input=b"",
        capture_output=True,
        timeout=20,
        check=False,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def serial(address: str) -> str:
    """The serial number of the certificate that is served, as openssl prints it."""
    printed = s_client(address)
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-serial"],
        input=printed.encode(),
        capture_output=True,
        check=True,
    )
    return shown.stdout.decode()


class Load:
    """Produces and consumes with two connected clients, until it is stopped: idempotently, with
    acks=all."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        topic: str,
        *,
        group: str = "load",
        pause_s: float = 0.002,
    ) -> None:
        """`settings` of librdkafka; there is a pause after each record."""
        shared: Mapping[str, Any] = {
            "statistics.interval.ms": 200,
            "stats_cb": self._count_disconnects,
            "error_cb": self._note_fatal,
            **settings,
        }
        self._producer = Producer({"enable.idempotence": True, "linger.ms": 5, **shared})
        self._consumer = Consumer({"group.id": group, "auto.offset.reset": "earliest", **shared})
        self._consumer.subscribe([topic])
        self._topic = topic
        self._pause_s = pause_s
        self.acknowledged: list[bytes] = []
        self.read: list[bytes] = []
        self.errors: list[str] = []
        """Fatal errors of the clients, and of records that were given up."""
        self.disconnects: dict[str, int] = {}
        """How often each client has lost connections."""
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._produce, self._consume)]

    def __enter__(self) -> "Load":
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for one in self._threads:
            one.join(60)

    def _count_disconnects(self, statistics: str) -> None:
        told = json.loads(statistics)
        self.disconnects[told["name"]] = sum(one["disconnects"] for one in told["brokers"].values())

    def _note_fatal(self, error: Any) -> None:
        if error.fatal():
            self.errors.append(str(error))

    def _produce(self) -> None:
        def delivered(error: Any, message: "Message[bytes, bytes]") -> None:
            if error is None:
                self.acknowledged.append(message.value() or b"")
            else:
                self.errors.append(str(error))

        number = 0
        while not self._stopping.is_set():
            self._producer.produce(self._topic, b"%08d" % number, on_delivery=delivered)
            self._producer.poll(self._pause_s)
            number += 1
        self._producer.flush(30)

    def _consume(self) -> None:
        deadline_s = time.monotonic() + READ_LIMIT_S
        while time.monotonic() < deadline_s:
            self.read += [
                one.value() or b""
                for one in self._consumer.consume(500, timeout=0.5)
                if one.error() is None
            ]
            if self._threads[0].is_alive():
                deadline_s = time.monotonic() + READ_LIMIT_S
            elif len(self.read) >= len(self.acknowledged):
                break
        self._consumer.close()
