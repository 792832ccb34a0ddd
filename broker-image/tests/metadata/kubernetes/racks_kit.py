"""Three brokers in three racks, and consumers that say in which rack they are."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from chiplog_core.config.broker_keys import RACK_AWARE_SELECTOR
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers

if TYPE_CHECKING:
    from tests.conftest import Client

RACKS = {1: "zone-a", 2: "zone-b", 3: "zone-c"}
RACK_AWARE = {"replica_selector_class": RACK_AWARE_SELECTOR}
NOBODY = -1


async def started(brokers: Brokers, **config: str) -> None:
    """Each broker in its rack, the first one leads; rack-aware, where `config` is empty."""
    await start(brokers, *ALL, **(config or RACK_AWARE))
    brokers.lead(1, minIsr=2)
    await brokers.settled(1)


async def start(brokers: Brokers, *broker_ids: int, **config: str) -> None:
    """With addresses that clients reach."""
    await brokers.start(*broker_ids, **config)
    for broker_id in broker_ids:
        bound = brokers.up[broker_id].broker.addresses
        brokers.operator.write_broker(
            broker_id,
            rack=RACKS[broker_id],
            endpoints=[
                {"listener": name, "host": host, "port": port}
                for name, (host, port) in bound.items()
            ],
        )


async def reachable(brokers: Brokers) -> str:
    """Where real clients begin, when every broker knows every broker's address."""
    addresses = {one: up.broker.addresses["plain"] for one, up in brokers.up.items()}

    def known() -> bool:
        views = [up.broker._cluster.brokers for up in brokers.up.values()]
        return all(
            one in view and view[one].endpoints.get("plain") == address
            for view in views
            for one, address in addresses.items()
        )

    await brokers.eventually(known)
    return ",".join(f"{host}:{port}" for host, port in addresses.values())


class RackConsumer:
    """A consumer of partition 0 of `orders` at one broker, with each field as a test wants it."""

    def __init__(self, client: "Client", topic_id: UUID) -> None:
        self.client = client
        self.topic_id = topic_id
        self.session = (0, -1)

    async def send(self, offset: int | None, rack: str, **options: Any) -> None:
        """Ask from this offset on; None names no partition, as in a session without changes."""
        epoch = options.pop("epoch", -1)
        places = () if offset is None else ((0, offset),)
        request = self.client.fetch_request(self.topic_id, *places, session=self.session, **options)
        if places:
            (topic,) = request.topics
            (one,) = topic.partitions
            one = replace(one, current_leader_epoch=epoch)
            request = replace(request, topics=(replace(topic, partitions=(one,)),))
        await self.client.send(ApiKey.FETCH, replace(request, rack_id=rack))

    async def receive(self) -> Any:
        """What is said of the partition; None where a session has nothing to say."""
        answer = await self.client.receive()
        assert answer.error_code == ErrorCode.none
        if self.session[1] >= 0:
            self.session = (answer.session_id, self.session[1] + 1)
        found = [one for topic in answer.responses for one in topic.partitions]
        return found[0] if found else None

    async def fetch(self, offset: int | None, rack: str, **options: Any) -> Any:
        await self.send(offset, rack, **options)
        return await self.receive()

    async def old_fetch(self, offset: int) -> Any:
        """In version 10, in which nobody can say a rack, by the topic's name."""
        types = self.client.types(ApiKey.FETCH, 10)
        request = types.FetchRequest(
            replica_id=-1,
            max_wait=timedelta(0),
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=(
                types.FetchTopic(
                    topic="orders",
                    partitions=(
                        types.FetchPartition(
                            partition=0,
                            current_leader_epoch=-1,
                            fetch_offset=offset,
                            log_start_offset=-1,
                            partition_max_bytes=1 << 20,
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
        )
        answer = await self.client.ask(ApiKey.FETCH, request, 10)
        return answer.responses[0].partitions[0]


async def consumer(brokers: Brokers, broker_id: int) -> RackConsumer:
    client = await brokers.client(broker_id)
    return RackConsumer(client, await client.topic_id("orders"))


async def preferred(reader: RackConsumer, offset: int, rack: str, **options: Any) -> int:
    """Where this reader is sent; -1 for nowhere."""
    found = await reader.fetch(offset, rack, **options)
    assert found.error_code == ErrorCode.none
    assert not (found.records and found.preferred_read_replica != NOBODY)
    return int(found.preferred_read_replica)


async def until_sent(brokers: Brokers, offset: int, *, rack: str, to: int, leader: int = 1) -> None:
    """Until the leader sends readers of that rack at this offset there."""
    reader = await consumer(brokers, leader)
    while await preferred(reader, offset, rack) != to:  # the scenario has a limit
        pass
