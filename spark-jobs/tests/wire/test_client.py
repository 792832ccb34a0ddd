"""The client on a real broker: facts, places, batches, logins, and what it does when one goes."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.metadata.listeners import internal_listener
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_spark.wire import errors
from chiplog_spark.wire.access import Access, Address, Login, addresses_of
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.connection import Connection
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.facts import EARLIEST, LATEST, Place, RawBatch, TopicFacts, batches_in
from chiplog_spark.wire.verdicts import LEADER
from chiplog_wire.protocol.codec import replica_fetch
from chiplog_wire.scram import Mechanism
from e2e.clients.subject import subject
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess

pytestmark = pytest.mark.spark

IMPATIENT_MS = 500


def client_of(broker: BrokerProcess, patience_ms: int = 30_000) -> Client:
    return Client(Access(addresses_of(broker.bootstrap), patience_ms=patience_ms))


def produce(broker: BrokerProcess, topic: str, *values: bytes, partition: int = 0) -> None:
    """One batch for each value."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition, timestamp=1_000 + len(value))
        assert producer.flush(30) == 0


def batches(client: Client, at: Place, offset: int, max_bytes: int = 2**20) -> list[RawBatch]:
    return list(batches_in(client.fetch(at, offset, max_bytes).records, at, offset))


@pytest.fixture(scope="module")
def orders(broker: BrokerProcess) -> str:
    """Five batches of one record in partition 0; nothing in partition 1."""
    topic = "wire-orders"
    create_topic(broker.bootstrap, topic, 2)
    produce(broker, topic, b"a", b"bb", b"ccc", b"dddd", b"eeeee")
    return topic


def place(topic: TopicFacts, partition: int = 0, replica: int = LEADER) -> Place:
    return Place(topic.name, topic.topic_id, partition, replica)


def test_what_there_is(broker: BrokerProcess, orders: str) -> None:
    with client_of(broker) as client:
        topic = client.topic(orders)
        assert sorted(topic.partitions) == [0, 1]
        (address,) = topic.brokers.values()
        assert f"{address[0]}:{address[1]}" == broker.bootstrap
        broker_id = topic.partitions[0].leader_id
        assert topic.partitions[0].replicas == (broker_id,)
        for replica in (LEADER, broker_id):
            assert client.offsets(topic, {0: EARLIEST, 1: LATEST}, replica) == {0: 0, 1: 0}
            assert client.offsets(topic, {0: LATEST}, replica) == {0: 5}
            assert client.offsets(topic, {0: 1_003}, replica) == {0: 2}
            assert client.offsets(topic, {0: 9_999}, replica) == {0: -1}
        epoch = topic.partitions[0].leader_epoch
        assert client.epoch_end(topic, 0, epoch) == (epoch, 5)


def test_batches_from_any_offset(broker: BrokerProcess, orders: str) -> None:
    with client_of(broker) as client:
        topic = client.topic(orders)
        for replica in (LEADER, topic.partitions[0].leader_id):
            at = place(topic, replica=replica)
            for offset in range(5):
                found = batches(client, at, offset)
                assert [one.base_offset for one in found] == list(range(offset, 5))
            # However little is asked for, one batch comes.
            assert [one.base_offset for one in batches(client, at, 3, max_bytes=1)] == [3]
            fetched = client.fetch(at, 5)
            assert (fetched.high_watermark, fetched.log_start_offset) == (5, 0)
            assert not fetched.records


def failure(broker: BrokerProcess, topic: TopicFacts, at: Place, offset: int) -> WireError:
    with client_of(broker, IMPATIENT_MS) as client, pytest.raises(WireError) as failed:
        client.fetch(at, offset)
    assert topic.name in str(failed.value)
    return failed.value


@pytest.mark.parametrize("question", ["topic", "config", "offsets", "epoch_end", "fetch"])
def test_an_answer_without_what_was_asked_for_is_a_protocol_error(
    broker: BrokerProcess, orders: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = SimpleNamespace(topics=(), results=(), brokers=(), error_code=0)
    with client_of(broker, IMPATIENT_MS) as client:
        topic = client.topic(orders)
        client.fetch(place(topic), 0)
        ask: dict[str, Callable[[], object]] = {
            "topic": lambda: client.topic(orders),
            "config": lambda: client.config(orders),
            "offsets": lambda: client.offsets(topic, {0: EARLIEST}),
            "epoch_end": lambda: client.epoch_end(topic, 0, 0),
            "fetch": lambda: client.fetch(place(topic), 0),
        }
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "send_request", lambda *_: empty)
            patch.setattr(replica_fetch, "decode_response", lambda *_: empty)
            with pytest.raises(errors.ProtocolError, match="0 entries in place of 1") as failed:
                ask[question]()
        assert orders in str(failed.value)
        ask[question]()  # on another connection


def test_what_is_not_there_is_reported_by_its_name(broker: BrokerProcess, orders: str) -> None:
    with client_of(broker, IMPATIENT_MS) as client:
        topic = client.topic(orders)
        with pytest.raises(errors.UnknownTopic, match=r"UnknownTopic: no-such: .*option topic"):
            client.topic("no-such")
        with pytest.raises(errors.UnknownTopic, match="not a valid topic name"):
            client.topic("no such")
    cases = (
        (place(topic), 6, errors.OffsetOutOfRange),
        (place(topic), -1, errors.OffsetOutOfRange),
        (place(topic, 2), 0, errors.UnknownTopic),
        (place(topic, replica=77), 0, errors.ReplicaNotThere),
        (replace(place(topic), topic_id=uuid4()), 0, errors.UnknownTopic),
    )
    for at, offset, kind in cases:
        found = failure(broker, topic, at, offset)
        assert type(found) is kind, at
        assert found.partition == at.partition


def test_a_topic_that_was_created_again_is_not_read_for_the_old_one(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create_topic(broker.bootstrap, "wire-anew", 1)
    produce(broker, "wire-anew", b"old")
    with client_of(broker, IMPATIENT_MS) as client:
        old = client.topic("wire-anew")
        assert client.fetch(place(old), 0).records
        admin.delete_topics(["wire-anew"])["wire-anew"].result(20)
        create_topic(broker.bootstrap, "wire-anew", 1)
        produce(broker, "wire-anew", b"new")
        with pytest.raises(errors.UnknownTopic, match="deleted while it was read"):
            client.fetch(place(old), 0)


def test_a_broker_that_comes_back_gets_requests_again(tmp_path: Path) -> None:
    with subject()(tmp_path) as broker:
        create_topic(broker.bootstrap, "orders", 1)
        produce(broker, "orders", b"a")
        with client_of(broker, patience_ms=60_000) as client:
            topic = client.topic("orders")
            at = place(topic)
            assert client.fetch(at, 0).records
            broker.kill()
            found: list[int] = []
            reading = threading.Thread(
                target=lambda: found.append(len(client.fetch(at, 0).records))
            )
            reading.start()
            broker.start()
            reading.join()
            assert found[0] > 0
        broker.kill()
        with client_of(broker, IMPATIENT_MS) as client, pytest.raises(errors.Unreachable):
            client.topic("orders")


@contextmanager
def with_scram(directory: Path, user: Credentials) -> Iterator[Address]:
    """A broker in a thread of its own, with one listener that wants a login."""
    running = threading.Event()
    over = asyncio.Event()
    found: dict[str, tuple[str, int]] = {}
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        keyring = Keyring(FixedCredentials(user), SystemRng())
        disks = SystemDisk(directory / "data"), SystemDisk(directory / "metadata")
        listener = internal_listener("127.0.0.1", keyring, host="127.0.0.1", port=0)
        ports = Ports(SystemClock(), SystemRng(), *disks)
        broker = Broker(ports, {}, [listener], str(directory))
        await broker.start()
        found.update(broker.addresses)
        loops.append(asyncio.get_running_loop())
        running.set()
        await over.wait()
        await broker.stop()
        for disk in disks:
            disk.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert running.wait(60)
        yield found["internal"]
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join(60)


def test_a_login_by_a_password_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    login = Login("ada", str(file), Mechanism.SCRAM_SHA_512)
    with with_scram(tmp_path, Credentials("ada", "right-word")) as address:
        access = Access((address,), login, patience_ms=IMPATIENT_MS)
        file.write_text("right-word\n")
        with Client(access) as client, pytest.raises(errors.UnknownTopic):
            client.topic("no-such")
        file.write_text("wrong-word")
        others = (
            (access, "login of user ada failed"),
            (replace(access, login=replace(login, mechanism=Mechanism.SCRAM_SHA_256)), "SHA-256"),
            (replace(access, login=None), None),
        )
        for one, told in others:
            with Client(one) as client, pytest.raises(WireError, match=told) as refused:
                client.topic("no-such")
            assert not isinstance(refused.value, errors.UnknownTopic)
            assert "-word" not in str(refused.value)
            if one.login is not None:
                assert isinstance(refused.value, errors.NotAuthorized)
