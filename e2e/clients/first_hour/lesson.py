"""The fixtures that all tests of the first hour share: brokers, topics, members of groups."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import Record
from e2e.clients.group_member import GroupMember
from e2e.clients.topics import create_topic

DELETE_LIMIT_S = 30
LONGEST_STEM = 60


@dataclass(frozen=True, slots=True)
class Place:
    """The brokers of a test, and the replication factor that they allow."""

    bootstrap: str
    replicas: int

    def produce(self, topic: str, count: int) -> None:
        """Write `count` records with different keys, which spread them over the partitions."""
        records = [Record(b"value %d" % n, b"key %d" % n) for n in range(count)]
        Librdkafka().produce(self.bootstrap, topic, records)


NewTopic = Callable[..., str]
"""(partitions, name) -> the name of the created topic; both are optional."""
Start = Callable[[type[GroupMember], str, str], GroupMember]
"""(kind of member, group id, topic) -> the started member."""


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic if it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        admin.delete_topics([name], operation_timeout=DELETE_LIMIT_S)[name].result(DELETE_LIMIT_S)
    except KafkaException as failed:
        if failed.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


class Lesson:
    """Base of the test classes; the module that runs them must define the fixture `place`."""

    @pytest.fixture
    def doomed_topic(self, place: Place, request: pytest.FixtureRequest) -> Iterator[str]:
        """A topic name made from the test's name; the topic, if created, is deleted after the
        test."""
        stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
        name = f"hour-{stem[:LONGEST_STEM]}"
        yield name
        delete_topic(place.bootstrap, name)

    @pytest.fixture
    def new_topic(self, place: Place, doomed_topic: str) -> Iterator[NewTopic]:
        """A function (partitions, name) that creates a topic, which is deleted after the test."""
        made: list[str] = []

        def create(partitions: int = 1, name: str = doomed_topic) -> str:
            create_topic(place.bootstrap, name, partitions, replicas=place.replicas)
            made.append(name)
            return name

        yield create
        for name in made:
            delete_topic(place.bootstrap, name)

    @pytest.fixture
    def start(self, place: Place) -> Iterator[Start]:
        """A function (kind, group id, topic) that starts a member, which leaves after the test."""
        made: list[GroupMember] = []

        def one_more(kind: type[GroupMember], group_id: str, topic: str) -> GroupMember:
            made.append(kind(place.bootstrap, group_id, topic).start())
            return made[-1]

        yield one_more
        # First ask all, then wait: each leave takes a rebalance.
        for one in made:
            one.ending.set()
        for one in made:
            one.stop()
