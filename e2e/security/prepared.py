"""What the requests of the matrix refer to: topics, a group, transactions, and the ACLs."""

import time
from typing import Any, Final
from uuid import UUID

from chiplog_wire.protocol.apis import APIS, ApiKey
from e2e.kafka.connection import Connection
from e2e.security.cases import (
    COMMIT,
    ENDED,
    GROUP,
    OPEN,
    OWN_TOPIC,
    OWN_TOPIC_BY_ID,
    TIMEOUT_MS,
    TOPIC,
    TRANSACTION,
    Context,
    Sender,
    adding,
)
from e2e.security.grants import ADMIN, Grant
from e2e.security.shapes import codes, shape

LIMIT_S: Final = 30.0
TRANSACTION_LIMIT_MS: Final = 900_000
"""Longer than the matrix takes. It is Kafka's default of `transaction.max.timeout.ms`."""


def prepare(admin: Connection, clients: list[Grant]) -> dict[str, Context]:
    """Create topics, a group, transactions and the ACLs. Returns what each client's requests refer
    to."""
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
    commit_offset(admin)
    # Kafka gets its first producer ids when it is first asked.
    until(lambda: not ask(admin, ApiKey.INIT_PRODUCER_ID, transactional_id=None).error_code)
    initialised(admin, TRANSACTION)
    opened, ended = begin_transaction(admin), commit_transaction(admin)
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
        grant.name: Context(
            ids[TOPIC],
            f"{OWN_TOPIC}{number}",
            ids[f"{OWN_TOPIC_BY_ID}{number}"],
            opened,
            ended,
        )
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


def commit_offset(admin: Connection) -> None:
    """Create the group, with an offset."""
    coordinator_is_found(admin, key_type=0, key=GROUP)
    until(
        lambda: succeeds(
            ask(
                admin,
                ApiKey.OFFSET_COMMIT,
                9,
                group_id=GROUP,
                generation_id_or_member_epoch=-1,
                topics=[{"name": TOPIC, "partitions": [COMMIT]}],
            )
        )
    )


def begin_transaction(admin: Connection) -> Sender:
    """Begin a transaction that stays open: with a partition of the topic, and an offset of the
    group. Returns its producer."""
    sender = initialised(admin, OPEN)
    add_partition(admin, sender)
    of_group = {**sender._asdict(), "group_id": GROUP, "generation_id": -1, "member_id": ""}
    until(lambda: not ask(admin, ApiKey.ADD_OFFSETS_TO_TXN, **of_group).error_code)
    offsets = [{"name": TOPIC, "partitions": [COMMIT]}]
    until(lambda: succeeds(ask(admin, ApiKey.TXN_OFFSET_COMMIT, 3, **of_group, topics=offsets)))
    return sender


def commit_transaction(admin: Connection) -> Sender:
    """Commit a transaction, as clients of the first generation do. Returns its producer."""
    sender = initialised(admin, ENDED)
    add_partition(admin, sender)
    # The answer is the same once more, when all markers are written.
    for _ in range(2):
        until(
            lambda: not ask(admin, ApiKey.END_TXN, 4, **sender._asdict(), committed=True).error_code
        )
    return sender


def initialised(admin: Connection, transactional_id: str) -> Sender:
    """A producer with this transactional id, once Kafka has made the topic for it and loaded it."""
    coordinator_is_found(admin, key_type=1, key=transactional_id)
    wanted = {"transactional_id": transactional_id, "transaction_timeout": TRANSACTION_LIMIT_MS}
    answers = []

    def is_initialised() -> bool:
        answers.append(ask(admin, ApiKey.INIT_PRODUCER_ID, **wanted))
        return not answers[-1].error_code

    until(is_initialised)
    return Sender(transactional_id, answers[-1].producer_id, answers[-1].producer_epoch)


def add_partition(admin: Connection, sender: Sender) -> None:
    """Add a partition of the topic to a transaction."""
    until(lambda: succeeds(ask(admin, ApiKey.ADD_PARTITIONS_TO_TXN, 3, **adding(sender, TOPIC))))


def coordinator_is_found(admin: Connection, *, key_type: int, key: str) -> None:
    """Wait for a coordinator: Kafka makes its internal topics when it is first asked for one."""
    until(
        lambda: (
            not any(
                one.error_code
                for one in ask(
                    admin, ApiKey.FIND_COORDINATOR, key_type=key_type, coordinator_keys=[key]
                ).coordinators
            )
        )
    )


def succeeds(answer: Any) -> bool:
    """Whether an answer has no errors of partitions."""
    return not set(codes(shape(answer))) - {0}


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
