"""Reassignments in progress are asked for over a socket of our own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chiplog_cli.errors import BrokerRefused
from chiplog_cli.facts import Partition, Topic, TopicPartition
from chiplog_cli.librdkafka.admin import with_reassignments
from chiplog_cli.librdkafka.connecting import Connection
from chiplog_cli.librdkafka.reassigning import reassignments
from chiplog_cli.reassignments import Reassignment
from e2e.clients.standalone import StandaloneBroker

NOBODY = b"\x00\x00\x00\x0e" + b"\x00" * 4 + b"\x00" + b"\x00" * 4 + b"\x00\x29" + b"\x03no"
"""NOT_CONTROLLER with the message "no"."""


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The address of a server that gives this answer to one request."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                connected.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def asked(address: str) -> object:
    return reassignments(Connection(bootstrap_servers=address, timeout_s=5))


def test_a_broker_without_any(broker: StandaloneBroker) -> None:
    assert asked(broker.bootstrap) == {}


def test_the_next_broker_is_asked_where_one_does_not_answer(broker: StandaloneBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert asked(f"127.0.0.1:{port},{broker.bootstrap}") == {}
    gone = Connection(bootstrap_servers=f"127.0.0.1:{port}", timeout_s=5)
    host, _, other = broker.bootstrap.rpartition(":")
    assert reassignments(gone, [(host, int(other))]) == {}
    with pytest.raises(BrokerRefused, match=r"reassignments in progress: .*refused"):
        reassignments(gone)


def test_an_error_of_the_broker() -> None:
    with answering(NOBODY) as address, pytest.raises(BrokerRefused) as refused:
        asked(address)
    assert str(refused.value) == "reassignments in progress: no"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request", b"", b"\x00\x00\x00\x08\x00"])
def test_what_is_no_answer(answer: bytes) -> None:
    with answering(answer) as address, pytest.raises(BrokerRefused) as refused:
        asked(address)
    assert str(refused.value).startswith("reassignments in progress: ")


def test_a_reassignment_that_has_ended_meanwhile_does_not_count() -> None:
    partitions = tuple(
        Partition(partition=number, leader=1, replicas=replicas, isr=(1,))
        for number, replicas in enumerate([(2, 1), (1, 3), (1, 2)])
    )
    topic = Topic(name="a", topic_id="", is_internal=False, partitions=partitions)
    moving = {
        TopicPartition("a", 0): Reassignment((2,), (1,)),
        TopicPartition("a", 1): Reassignment((2,), ()),
        TopicPartition("b", 2): Reassignment((2,), ()),
    }

    found = with_reassignments(topic, moving).partitions

    assert (found[0].adding, found[0].removing) == ((2,), (1,))
    assert found[1:] == partitions[1:]
    assert [one.is_under_replicated for one in found] == [False, True, True]
