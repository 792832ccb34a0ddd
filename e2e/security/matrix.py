"""Sends every request as every client, and collects the answers."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias
from uuid import UUID

from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from e2e.kafka.connection import Connection
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.process import BrokerProcess
from e2e.security.cases import (
    GROUP,
    OWN_TOPIC,
    OWN_TOPIC_BY_ID,
    TIMEOUT_MS,
    TOPIC,
    TRANSACTION,
    Case,
    Context,
    cases,
)
from e2e.security.grants import ADMIN, Grant, grants
from e2e.security.shapes import shape

SETTINGS: Final[Mapping[str, str]] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    # Until the first ACLs exist. After that every resource has some.
    "allow.everyone.if.no.acl.found": "true",
}
LIMIT_S: Final = 30.0
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


def prepare(admin: Connection, clients: list[Grant]) -> dict[str, Context]:
    """Create topics, a group and the ACLs. Returns what each client's requests refer to."""
    names = [TOPIC]
    for number, _ in enumerate(clients):
        names += [f"{OWN_TOPIC}{number}", f"{OWN_TOPIC_BY_ID}{number}"]
    ask(
        admin,
        ApiKey.CREATE_TOPICS,
        topics=[{"name": name, "num_partitions": 2, "replication_factor": 1} for name in names],
        timeout=TIMEOUT_MS,
    )
    ids = until_known(admin, names)
    for key_type in (0, 1):  # Kafka makes its internal topics when a coordinator is first asked for
        ask(
            admin, ApiKey.FIND_COORDINATOR, key_type=key_type, coordinator_keys=[GROUP, TRANSACTION]
        )
    commit = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    until(
        lambda: all(
            not partition.error_code
            for topic in ask(
                admin,
                ApiKey.OFFSET_COMMIT,
                9,
                group_id=GROUP,
                generation_id_or_member_epoch=-1,
                topics=[{"name": TOPIC, "partitions": [commit]}],
            ).topics
            for partition in topic.partitions
        )
    )
    until(lambda: not ask(admin, ApiKey.INIT_PRODUCER_ID, transactional_id=None).error_code)
    # Kafka gets its first producer ids and loads its transactions when it is first asked.
    transactional = {"transactional_id": TRANSACTION, "transaction_timeout": 1000}
    until(lambda: ask(admin, ApiKey.INIT_PRODUCER_ID, **transactional).error_code in (0, 53))
    acls = [acl for grant in (ADMIN, *clients) for acl in grant.acls]
    created = ask(
        admin,
        ApiKey.CREATE_ACLS,
        creations=[
            {
                "resource_type": int(acl.resource_type),
                "resource_name": acl.name,
                "resource_pattern_type": int(acl.pattern_type),
                "principal": acl.principal,
                "host": acl.host,
                "operation": int(acl.operation),
                "permission_type": int(acl.permission),
            }
            for acl in acls
        ],
    )
    assert not any(result.error_code for result in created.results), created
    until(lambda: count_acls(admin) == len(acls))
    time.sleep(1)  # Kafka's controller has another copy of the ACLs
    return {
        grant.name: Context(ids[TOPIC], f"{OWN_TOPIC}{number}", ids[f"{OWN_TOPIC_BY_ID}{number}"])
        for number, grant in enumerate(clients)
    }


def until_known(admin: Connection, names: list[str]) -> dict[str, UUID]:
    """The ids of these topics, once all have leaders."""
    ids: dict[str, UUID] = {}

    def are_known() -> bool:
        answer = ask(admin, ApiKey.METADATA, topics=[{"name": name} for name in names])
        ids.update({topic.name: topic.topic_id for topic in answer.topics})
        return not any(
            topic.error_code or any(part.error_code for part in topic.partitions)
            for topic in answer.topics
        )

    until(are_known)
    return ids


def count_acls(admin: Connection) -> int:
    answer = ask(
        admin,
        ApiKey.DESCRIBE_ACLS,
        resource_type_filter=1,
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
    )
    return sum(len(resource.acls) for resource in answer.resources)


def ask(connection: Connection, key: ApiKey, version: int | None = None, /, **values: Any) -> Any:
    return connection.ask(key, APIS[key].max_version if version is None else version, values)


def until(is_so: Any) -> None:
    """Wait for it, at most `LIMIT_S`."""
    deadline_s = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError("the broker did not get ready")
        time.sleep(0.1)


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
            if one.key is ApiKey.DESCRIBE_TRANSACTIONS:
                return self._ask_for_transaction(one)
            return shape(self._connected().ask(one.key, one.version, one.values))
        except (ConnectionError, TimeoutError):
            self._close()
            return CLOSED

    def _ask_for_transaction(self, one: Case) -> Any:
        """The error code of the only transaction in an answer, which kio does not read: it has no
        negative timestamps."""
        connection = self._connected()
        connection.send(one.key, one.version, one.values)
        # After the throttle time (4 bytes) and the length of the array (1 byte).
        return {"error_code": int.from_bytes(connection.receive_answer().body[5:7])}

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
