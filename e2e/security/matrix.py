"""Sends every request as every client, and collects the answers."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from e2e.kafka.connection import Connection
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.process import BrokerProcess
from e2e.security.cases import Case, cases
from e2e.security.grants import grants
from e2e.security.prepared import LIMIT_S, prepare
from e2e.security.shapes import shape

SETTINGS: Final[Mapping[str, str]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    # Until the first ACLs exist. After that every resource has some.
    "allow.everyone.if.no.acl.found": "true",
}
CLOSED: Final = "closed"
OPEN: Final = "open"

Matrix: TypeAlias = dict[str, dict[str, Any]]
"""Request -> client -> shape of the answer."""


def matrix(broker: BrokerProcess) -> Matrix:
    """The answers of a new broker that has the `SETTINGS`."""
    clients = list(grants())
    with Connection((LOOPBACK, broker.port), LIMIT_S) as admin:
        contexts = prepare(admin, clients)
        found: Matrix = {}
        for grant in clients:
            for one in cases(contexts[grant.name]):
                found.setdefault(one.name, {})
            with Asker(broker.port, grant.host) as asker:
                for one in cases(contexts[grant.name]):
                    found[one.name][grant.name] = asker.ask(one)
    return found


class Asker:
    """A client at its own address, which connects again when its connection was closed."""

    def __init__(self, port: int, host: str) -> None:
        self._port = port
        self._host = host
        self._connection: Connection | None = None

    def ask(self, one: Case) -> Any:
        """The shape of the answer to a request; `CLOSED` if the connection was closed. Of a request
        that is not answered, whether the connection stays `OPEN`."""
        try:
            if not one.is_answered:
                return self._send_unanswered(one)
            return shape(self._connected().ask(one.key, one.version, one.values))
        except (ConnectionError, TimeoutError):
            self._close()
            return CLOSED

    def _send_unanswered(self, one: Case) -> str:
        """Send a Produce with acks=0, and see whether another request is answered after it. Raises
        `ConnectionError`."""
        connection = self._connected()
        connection.send(one.key, one.version, one.values)
        connection.send(ApiKey.API_VERSIONS, 0, {})
        with suppress(ProtocolViolation):  # the answer to the second request comes first
            connection.receive()
        self._close()
        return OPEN

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection((LOOPBACK, self._port), LIMIT_S, self._host)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def compact(found: Matrix) -> dict[str, list[dict[str, Any]]]:
    """The matrix as it is stored: for each request the different answers, each with its
    clients."""
    stored = {}
    for request, by_client in sorted(found.items()):
        clients: dict[str, list[str]] = {}
        for client, answer in by_client.items():
            clients.setdefault(json.dumps(answer, sort_keys=True), []).append(client)
        stored[request] = [
            {"answer": json.loads(answer), "clients": names} for answer, names in clients.items()
        ]
    return stored


def expanded(stored: Mapping[str, list[dict[str, Any]]]) -> Matrix:
    """The matrix from its stored form."""
    return {
        request: {client: entry["answer"] for entry in entries for client in entry["clients"]}
        for request, entries in stored.items()
    }


def differences(ours: Matrix, kafkas: Matrix) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Request -> client -> our answer and Kafka's, where they differ."""
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for request in ours.keys() | kafkas.keys():
        mine, theirs = ours.get(request, {}), kafkas.get(request, {})
        for client in mine.keys() | theirs.keys():
            pair = mine.get(client), theirs.get(client)
            if pair[0] != pair[1]:
                found.setdefault(request, {})[client] = pair
    return found
