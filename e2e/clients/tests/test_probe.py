"""The probe reads a Metadata answer as kio writes it, over a real socket too."""

import io
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v1.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32

from chiplog_wire.protocol.apis import ApiKey
from e2e.kafka.messages import response
from e2e.kafka.probe import VERSION, Answer, metadata, of

CORRELATION_ID = struct.pack(">i", 1)


def partition(number: int, leader: int) -> MetadataResponsePartition:
    nodes = (BrokerId(1), BrokerId(2))
    return MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(number),
        leader_id=BrokerId(leader),
        replica_nodes=nodes,
        isr_nodes=nodes[:1],
    )


@pytest.fixture
def answer() -> bytes:
    orders = MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName("orders"),
        partitions=(partition(0, 1), partition(1, -1)),
    )
    broker = MetadataResponseBroker(node_id=BrokerId(1), host="127.0.0.1", port=i32(9092))
    written = io.BytesIO()
    offsets = MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName("__consumer_offsets"),
        is_internal=True,
        partitions=(partition(0, 1),),
    )
    message = MetadataResponse(
        brokers=(broker,), controller_id=BrokerId(1), topics=(orders, offsets)
    )
    entity_writer(MetadataResponse)(written, message)
    return CORRELATION_ID + written.getvalue()


def test_brokers_leaders_and_in_sync_replicas_are_found(answer: bytes) -> None:
    body = memoryview(answer)[len(CORRELATION_ID) :]
    found = of(response(ApiKey.METADATA, VERSION, body))
    assert found == Answer(
        brokers=(1,),
        leaders={"orders": {0: 1, 1: -1}, "__consumer_offsets": {0: 1}},
        in_sync={"orders": {0: (1,), 1: (1,)}, "__consumer_offsets": {0: (1,)}},
        internal=frozenset({"__consumer_offsets"}),
    )
    assert found.led() == 1, "of users' topics"


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def serve(listening: socket.socket, reply: bytes) -> threading.Thread:
    """Answer one connection with these bytes, then close it."""

    def run() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(100)
            connection.sendall(reply)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_one_question_over_a_socket(server: socket.socket, answer: bytes) -> None:
    thread = serve(server, struct.pack(">i", len(answer)) + answer)
    assert metadata("127.0.0.1", server.getsockname()[1]).brokers == (1,)
    thread.join()


def test_half_an_answer_is_an_error(server: socket.socket, answer: bytes) -> None:
    thread = serve(server, struct.pack(">i", len(answer)) + answer[:-1])
    with pytest.raises(ConnectionError, match="closed after"):
        metadata("127.0.0.1", server.getsockname()[1])
    thread.join()
