"""Brokers for tests that run in another process: a server on loopback that starts and ends them.

    POST /start/COUNT            lines of server.properties -> id, bootstrap, brokers, a line each
    POST /stop/ID/BROKER         end one broker, keeping its data
    POST /start-again/ID/BROKER  start it again; answered when it serves
    POST /end/ID                 end the cluster and delete its data

A request that cannot be fulfilled is answered with status 500 and the reason.
"""

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from chiplog_core.config import java_properties
from chiplog_core.config.given import given_broker_config
from e2e.compat.forked import ForkedBroker
from e2e.compat.properties import adapted
from e2e.kafka.ports import LOOPBACK


class Brokers:
    """A context manager: the server answers inside, and no broker is left after it."""

    def __init__(self, directory: Path) -> None:
        """`directory` gets a directory for each cluster while it runs."""
        self.directory = directory
        self.left_out: set[str] = set()
        """Properties that tests asked for and Chiplog does not have."""
        self._running: dict[str, ForkedBroker] = {}
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.end_all()

    def end_all(self) -> None:
        """End what tests have left running."""
        for cluster in list(self._running):
            self.end(cluster)

    def start(self, properties: Mapping[str, str]) -> tuple[str, ForkedBroker]:
        """Start a broker; returns the cluster's id and the broker.

        Raises `ValueError` if it does not take the properties, `TimeoutError` if it does not start.
        """
        settings, left_out = adapted(properties)
        self.left_out |= left_out
        if problems := given_broker_config(
            settings, "server.properties", by_operator=True
        ).problems:
            raise ValueError("; ".join(map(str, problems)))
        directory = Path(tempfile.mkdtemp(dir=self.directory))
        broker = ForkedBroker(directory, settings=settings)
        broker.start()
        self._running[directory.name] = broker
        return directory.name, broker

    def stop_one(self, cluster: str, broker_id: str) -> None:
        del broker_id
        self._running[cluster].stop()

    def start_one(self, cluster: str, broker_id: str) -> None:
        del broker_id
        self._running[cluster].start()

    def end(self, cluster: str) -> None:
        broker = self._running.pop(cluster)
        broker.kill()
        shutil.rmtree(broker.directory, ignore_errors=True)


def _handler(brokers: Brokers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length).decode()
            try:
                status, text = 200, answer(brokers, self.path, body)
            except (
                KeyError,
                OSError,
                TimeoutError,
                ValueError,
                subprocess.TimeoutExpired,
            ) as problem:
                status, text = 500, f"{type(problem).__name__}: {problem}"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002
            """Nothing: tests ask for hundreds of clusters."""

    return Handler


def answer(brokers: Brokers, path: str, body: str) -> str:
    """The answer to a request. Raises the reason why there is none."""
    match path.strip("/").split("/"):
        case ["start", _count]:
            cluster, broker = brokers.start(java_properties.parse_properties(body))
            return f"{cluster}\n{broker.bootstrap}\n1\n"
        case ["stop", cluster, broker_id]:
            brokers.stop_one(cluster, broker_id)
        case ["start-again", cluster, broker_id]:
            brokers.start_one(cluster, broker_id)
        case ["end", cluster]:
            brokers.end(cluster)
        case _:
            raise ValueError(f"no such request: {path}")
    return ""
