"""Who may say that it is a broker: replicas vouch for records, clients do not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_broker.fetch_sessions.cache import MAX_SESSION_PARTITIONS
from chiplog_broker.metadata.listeners import Listener, internal_listener
from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import PeerLost
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import replica_fetch, schema
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from tests.conftest import Kit

OK, REFUSED = ErrorCode.none, ErrorCode.cluster_authorization_failed
STRANGER = ErrorCode.stale_broker_epoch
CREDENTIALS = FixedCredentials(Credentials("chiplog", "secret"))
PLAIN = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)

# Epochs came to OffsetForLeaderEpoch with version 3, replica ids too.
LIST_OFFSETS = [(ApiKey.LIST_OFFSETS, version) for version in range(1, 12)]
EPOCHS = [(ApiKey.OFFSET_FOR_LEADER_EPOCH, version) for version in (3, 4)]
FETCH = [(ApiKey.FETCH, version) for version in range(4, 19)]


@asynccontextmanager
async def both_listeners(kit: "Kit") -> AsyncIterator[tuple[UUID, dict[str, PeerConnection]]]:
    """The id of a topic `orders`, and a connection to each listener of its broker."""
    keyring = Keyring(CREDENTIALS, SystemRng())
    internal = internal_listener("127.0.0.1", keyring, host="127.0.0.1", port=0)
    broker = kit.new_broker(listeners=[PLAIN, internal])
    await broker.start()
    client = await kit.client()
    outside = PeerConnection("client")
    try:
        await client.create("orders")
        await client.produce("orders", kit.batch(b"x"))
        await SystemNet().connect(outside, *broker.addresses["PLAINTEXT"])
        dialer = Dialer(SystemNet().connect, SystemRng(), CREDENTIALS, "broker-2")
        inside = await dialer.dial(*broker.addresses["internal"], 5)
        yield await client.topic_id("orders"), {"PLAINTEXT": outside, "internal": inside}
        inside.close()
    finally:
        outside.close()
        client.writer.close()
        await broker.stop()


def filled(message_class: type[Any], **values: Any) -> Any:
    """A message with these fields, wherever in it they are, and Kafka's defaults for others."""
    fields = schema.defaults(message_class)
    for name, shape in schema.shapes(message_class).items():
        if name in values:
            fields[name] = values[name]
        elif not isinstance(shape.element, str) and name != "forgotten_topics_data":
            inner = filled(shape.element, **values)
            fields[name] = (inner,) if shape.is_array else inner
    return message_class(**fields)


async def code_for(
    kit: "Kit", connection: PeerConnection, api: tuple[ApiKey, int], replica_id: int, topic_id: UUID
) -> int:
    """The error code of the one partition that is asked for."""
    key, version = api
    request = filled(
        schema.request_class(key, version),
        replica_id=replica_id,
        topic="orders",
        name="orders",
        topic_id=topic_id,
        current_leader_epoch=-1,
        leader_epoch=0,
        timestamp=-1,
        session_epoch=-1,
        max_wait=kit.milliseconds(0),
        max_bytes=2**20,
        partition_max_bytes=2**20,
        last_fetched_epoch=-1,
    )
    if key is not ApiKey.FETCH:
        answer = await connection.send_request(key, version, request, 5)
        return int(answer.topics[0].partitions[0].error_code)
    from kio.serial import entity_reader  # noqa: PLC0415

    from chiplog_wire.protocol.codec import outgoing  # noqa: PLC0415

    body = await connection.exchange(key, version, [outgoing.encode_request(request)], 5)
    answer, _ = entity_reader(schema.response_class(key, version))(bytes(body), 0)
    return int(answer.responses[0].partitions[0].error_code)


@pytest.mark.parametrize(
    "api", [*FETCH, *LIST_OFFSETS, *EPOCHS], ids=lambda one: f"{one[0].name}-{one[1]}"
)
def test_only_brokers_may_say_that_they_are(kit: "Kit", api: tuple[ApiKey, int]) -> None:
    async def scenario() -> None:
        async with both_listeners(kit) as (topic_id, connections):
            for listener, replica_id, code in (
                ("PLAINTEXT", -1, OK),
                ("PLAINTEXT", -2, OK),
                ("PLAINTEXT", 0, REFUSED),
                ("PLAINTEXT", 7, REFUSED),
                ("PLAINTEXT", 2**31 - 1, REFUSED),
                ("internal", -1, OK),
                # A broker, but no replica of this topic: its fetch counts for nothing.
                ("internal", 7, STRANGER if api[0] is ApiKey.FETCH else OK),
            ):
                found = await code_for(kit, connections[listener], api, replica_id, topic_id)
                assert found == code, (listener, replica_id)

    kit.run(scenario)


def test_a_follower_may_fetch_more_than_clients_may(kit: "Kit") -> None:
    """For all that its leader has, each partition with its topic: else it would never catch up."""

    async def scenario() -> None:
        async with both_listeners(kit) as (topic_id, connections):
            wanted = [
                FetchTopic(None, topic, [FetchPartition(index, -1, 0, -1, 0, 1)])
                for index in range(MAX_SESSION_PARTITIONS // 2 + 1)
                for topic in (topic_id, UUID(int=index + 2))
            ]
            request = FetchRequest(7, 1, 0, 1, 2**20, 0, 0, 0, wanted, [], "", None)
            version = replica_fetch.HIGHEST_VERSION
            body = replica_fetch.encode_request(version, request)
            answer = await connections["internal"].exchange(ApiKey.FETCH, version, [body], 30)
            found = replica_fetch.decode_response(version, answer)
            assert found.error_code == OK
            assert sum(len(topic.partitions) for topic in found.topics) == len(wanted)
            with pytest.raises(PeerLost):
                await connections["PLAINTEXT"].exchange(ApiKey.FETCH, version, [body], 30)

    kit.run(scenario)


def test_all_versions_with_a_replica_id_are_tested() -> None:
    assert FETCH[-1][1] == APIS[ApiKey.FETCH].max_version
    assert LIST_OFFSETS[-1][1] == APIS[ApiKey.LIST_OFFSETS].max_version
    assert EPOCHS[-1][1] == APIS[ApiKey.OFFSET_FOR_LEADER_EPOCH].max_version
