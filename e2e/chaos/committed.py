"""Asks a group's coordinator for its committed offsets, with a consumer that joins no group."""

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from e2e.chaos.group_history import NOTHING_COMMITTED, Place
from e2e.chaos.ledger import Ledger
from e2e.chaos.producers import REQUEST_LIMIT_MS
from e2e.clients.by_librdkafka import QUIET

ASK_LIMIT_S = 5
POLL_S = 0.2
CAUGHT_UP_LIMIT_S = 60
"""How long a group may take to commit the end of the topic after the last fault and record."""


def asker(bootstrap: str, group: str) -> Consumer:
    """A consumer that is only used to ask for this group's committed offsets."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "socket.timeout.ms": REQUEST_LIMIT_MS,
            **QUIET,
        }
    )


def committed(consumer: Consumer, group: str, ledger: Ledger) -> dict[Place, int]:
    """The group's committed offset of every partition, as the coordinator answers.

    `NOTHING_COMMITTED` stands for partitions without one; partitions with an error are left out.
    Empty if the coordinator does not answer.
    """
    wanted = [Position(ledger.topic, number) for number in range(ledger.partitions)]
    try:
        answers = consumer.committed(wanted, timeout=ASK_LIMIT_S)
    except KafkaException as refused:
        ledger.groups.problems[f"who asks: {refused.args[0]}"] += 1
        return {}
    # librdkafka answers -1001 where nothing is committed.
    return {
        Place(group, ledger.labels[one.partition]): max(one.offset, NOTHING_COMMITTED)
        for one in answers
        if one.error is None
    }


def wait_caught_up(
    bootstrap: str, groups: Iterable[str], ledger: Ledger, ends: Sequence[int]
) -> None:
    """Wait until every group has committed each partition's end, and note its last answer as final.

    `ends` are the end offsets of the topic's partitions 0, 1, …. A group that does not get there
    in time is no error here: its state is noted, and the checkers report it.
    """
    until_s = time.monotonic() + CAUGHT_UP_LIMIT_S
    for group in groups:
        consumer = asker(bootstrap, group)
        places = [Place(group, label) for label in ledger.labels]
        wanted = dict(zip(places, ends, strict=True))
        while True:
            asked_s = ledger.now_s()
            found = committed(consumer, group, ledger)
            ledger.groups.note_found(asked_s, found, "who asks last")
            ledger.groups.final.update(found)
            # Empty partitions (end 0) are left out: nobody commits an offset in them.
            has_all = all(found.get(place, -1) >= end for place, end in wanted.items() if end)
            if has_all or time.monotonic() > until_s:
                break
            time.sleep(POLL_S)
        if not has_all:
            ledger.groups.late[group] = described(bootstrap, group)
        for place in places:
            ledger.groups.final.setdefault(place, NOTHING_COMMITTED)
        consumer.close()


def described(bootstrap: str, group: str) -> str:
    """The group's state and its members' partitions, or the error, as text for a message."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        asked = admin.describe_consumer_groups([group], request_timeout=ASK_LIMIT_S)
        description = asked[group].result(ASK_LIMIT_S)
    except (KafkaException, TimeoutError) as refused:
        return repr(refused)
    members = {
        one.client_id: sorted(at.partition for at in one.assignment.topic_partitions)
        for one in description.members
    }
    return f"{description.state.name}: {members}"
