"""The brokers under measurement, each started when it is first needed, and the load program."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

from confluent_kafka.admin import AdminClient

from e2e.bench.java_load import JavaLoad
from e2e.bench.paired import Effort, NotMeasured, first_line
from e2e.bench.tls_listeners import TlsListeners
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import create_topic
from e2e.cluster.console import Refused
from e2e.cluster.shell import CommandFailed
from e2e.kafka.broker import KafkaBroker
from e2e.kafka.cluster import KafkaCluster
from e2e.kafka.members import Members
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import metadata
from e2e.kafka.process import BrokerProcess
from e2e.loopback.cluster import LoopbackCluster

# Files of a deleted topic should be gone before the next cell begins. The first member of a group
# does not wait for others, on either side: by default Kafka waits three seconds, which would hide
# the time to join.
SETTINGS = {"log.segment.delete.delay.ms": "0", "group.initial.rebalance.delay.ms": "0"}


@dataclass(slots=True)
class Spent:
    """CPU time that a broker took; set when the `with spent(...)` block has ended."""

    cpu_s: float = 0


class Rig:
    """The brokers, the load program and the files of a run, which experiments share.

    `ours` is the class of our side's broker: in a control run it is Apache Kafka, too.
    """

    def __init__(self, directory: Path, effort: Effort, ours: type[BrokerProcess]) -> None:
        self.directory, self.effort = directory, effort
        self.ours_class = ours
        self.running = ExitStack()
        self.numbers = count()

    @cached_property
    def ours(self) -> BrokerProcess:
        return self.start(self.tls.add_to(self.new_ours()))

    @cached_property
    def ours_fsync(self) -> BrokerProcess:
        return self.start(self.new_ours(fsync=True))

    @cached_property
    def kafka(self) -> BrokerProcess:
        return self.start(self.tls.add_to(self.new_kafka()))

    @cached_property
    def tls(self) -> TlsListeners:
        """The listeners with TLS of `ours` and `kafka`."""
        return TlsListeners(self.directory / "tls")

    @cached_property
    def three_ours(self) -> Members:
        """Our cluster of three brokers, with its operator; Kafka's in a control run."""
        is_control = issubclass(self.ours_class, KafkaBroker)
        return self.start_three(KafkaCluster if is_control else LoopbackCluster, "three-ours")

    @cached_property
    def three_kafka(self) -> Members:
        return self.start_three(KafkaCluster, "three-kafka")

    def start_three(self, kind: type[KafkaCluster] | type[LoopbackCluster], stem: str) -> Members:
        """Start a cluster of three brokers; raises `NotMeasured` where that fails."""
        members = kind(self.new_directory(stem), SETTINGS)
        try:
            self.running.enter_context(members)
        except (OSError, CommandFailed, Refused) as problem:
            raise NotMeasured(f"{kind.title} did not start: {first_line(problem)}") from problem
        return members

    @cached_property
    def java(self) -> JavaLoad:
        return self.running.enter_context(JavaLoad(self.directory / "java-load", self.tls.ca))

    def new_ours(self, *, fsync: bool = False) -> BrokerProcess:
        """A new broker of our side with its own directory; it is not started."""
        return self.ours_class(self.new_directory("ours"), fsync=fsync, settings=SETTINGS)

    def new_kafka(self) -> BrokerProcess:
        """A new Apache Kafka broker with its own directory; it is not started.

        It never syncs its log to disk before it acknowledges, which is Kafka's default.
        """
        return KafkaBroker(self.new_directory("kafka"), settings=SETTINGS)

    def new_directory(self, stem: str) -> Path:
        return self.directory / f"{stem}-{next(self.numbers)}"

    def start(self, broker: BrokerProcess) -> BrokerProcess:
        """Start a broker and return it; it is killed at the end of the run."""
        return self.running.enter_context(broker)

    @contextmanager
    def topic(self, broker: BrokerProcess, partitions: int) -> Iterator[str]:
        """A new topic for one cell, deleted after it."""
        name = f"bench-{next(self.numbers)}"
        create_topic(broker.bootstrap, name, partitions)
        try:
            yield name
        finally:
            delete_topic(broker.bootstrap, name)


@contextmanager
def spent(broker: BrokerProcess) -> Iterator[Spent]:
    """Measure the CPU time that a broker takes while the `with` block runs."""
    before = broker.usage().cpu_s
    result = Spent()
    yield result
    result.cpu_s = broker.usage().cpu_s - before


def create_once(broker: BrokerProcess, name: str, partitions: int) -> bool:
    """Create a topic that stays until the end of the run, unless it exists; returns whether it is
    new."""
    if name in metadata(LOOPBACK, broker.port).leaders:
        return False
    create_topic(broker.bootstrap, name, partitions)
    return True


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.delete_topics([name], operation_timeout=20)[name].result(20)


@contextmanager
def rig(directory: Path, effort: Effort, ours: type[BrokerProcess]) -> Iterator[Rig]:
    """A rig in a new directory; afterwards its processes are ended and its files deleted."""
    directory.mkdir(parents=True)
    one = Rig(directory, effort, ours)
    try:
        with one.running:
            yield one
    finally:
        shutil.rmtree(directory)
