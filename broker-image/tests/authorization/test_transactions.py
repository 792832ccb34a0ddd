"""What a producer with a transactional id needs, and what others see of its transactions."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from chiplog_wire.records.writer import Producer as Sender
from tests.authorization.people import NO_CLUSTER, NO_GROUP, NO_TOPIC, OK, people
from tests.transaction_coordinator.transactions_kit import Producing

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

NO_ID = ErrorCode.transactional_id_authorization_failed
NOBODY = Producer(-1, -1)
ORDERS, OTHER, ABSENT = At("orders", 0), At("other", 0), At("absent", 0)


async def produce(client: "Client", producer: Producer, name: str | None) -> ErrorCode:
    sender = Sender(producer_id=producer.producer_id, epoch=producer.epoch, base_sequence=0)
    options = BatchOptions(producer=sender, transactional=True)
    batch = bytes(build_batch([NewRecord(b"value", timestamp_ms=1)], options))
    request = replace(client.produce_request("orders", batch), transactional_id=name)
    answer = await client.ask(ApiKey.PRODUCE, request)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def listed(client: "Client") -> list[str]:
    request: dict[str, Any] = {"state_filters": (), "producer_id_filters": ()}
    answer = await Producing(client, version=1).ask(ApiKey.LIST_TRANSACTIONS, **request)
    return [one.transactional_id for one in answer.transaction_states]


async def write_marker(client: "Client") -> ErrorCode:
    types = client.types(ApiKey.WRITE_TXN_MARKERS, 1)
    marker = types.WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=False,
        topics=(types.WritableTxnMarkerTopic(name="orders", partition_indexes=(0,)),),
        coordinator_epoch=0,
    )
    request = types.WriteTxnMarkersRequest(markers=(marker,))
    answer = await client.ask(ApiKey.WRITE_TXN_MARKERS, request, 1)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def test_what_a_transactional_producer_needs(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            for topic in ("orders", "other"):
                await they.admin.create(topic)
            alice = Producing(they.alice, version=4)
            assert await alice.init() == (NO_ID, NOBODY)
            assert await alice.add(NOBODY, ORDERS) == {ORDERS: NO_ID}
            assert await alice.add_offsets(NOBODY) is NO_ID
            assert (await alice.end(NOBODY))[0] is NO_ID
            await they.allow("write transactional_id t,write topic orders,write topic absent")
            producer = await alice.ready()
            assert await alice.add(producer, ORDERS, OTHER, ABSENT) == {
                ORDERS: ErrorCode.operation_not_attempted,
                OTHER: NO_TOPIC,
                ABSENT: ErrorCode.unknown_topic_or_partition,
            }
            assert await alice.add(producer, ORDERS) == {ORDERS: OK}
            assert await alice.add_offsets(producer) is NO_GROUP
            assert await produce(they.alice, producer, None) is NO_ID
            assert await produce(they.alice, producer, "u") is NO_ID
            assert await produce(they.alice, producer, "t") is OK
            assert (await alice.end(producer))[0] is OK

    kit.run(scenario)


def test_what_others_see_and_may_write(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            admin = Producing(they.admin, version=4)
            await admin.add(await admin.ready(), ORDERS)
            alice = Producing(they.alice, version=5)

            async def described() -> tuple[ErrorCode, list[str]]:
                ids = {"transactional_ids": ("t",)}
                answer = await alice.ask(ApiKey.DESCRIBE_TRANSACTIONS, **ids)
                (one,) = answer.transaction_states
                return ErrorCode(one.error_code), [topic.topic for topic in one.topics]

            assert (await listed(they.admin), await listed(they.alice)) == (["t"], [])
            assert await described() == (NO_ID, [])
            await they.allow("describe transactional_id t")
            assert await listed(they.alice) == ["t"]
            assert await described() == (OK, [])
            await they.allow("describe topic orders")
            assert await described() == (OK, ["orders"])
            assert await write_marker(they.alice) is NO_CLUSTER
            types = they.alice.types(ApiKey.ADD_PARTITIONS_TO_TXN, 5)
            request = types.AddPartitionsToTxnRequest(transactions=())
            answer = await they.alice.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, 5)
            assert answer.error_code == NO_CLUSTER
            await they.allow("alter cluster kafka-cluster")
            assert await write_marker(they.alice) is OK

    kit.run(scenario)


def test_a_denied_client_learns_which_names_no_topic_can_have(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            names = "orders", "absent", "not a topic"
            types = they.alice.types(ApiKey.DESCRIBE_PRODUCERS)
            topics = tuple(types.TopicRequest(name=name, partition_indexes=(0,)) for name in names)
            request = types.DescribeProducersRequest(topics=topics)
            answer = await they.alice.ask(ApiKey.DESCRIBE_PRODUCERS, request)
            found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
            assert [found[name] for name in names] == [
                NO_TOPIC,
                NO_TOPIC,
                ErrorCode.invalid_topic_exception,
            ]

    kit.run(scenario)


def test_what_offsets_in_a_transaction_need(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            await they.admin.create("other")
            types = they.alice.types(ApiKey.TXN_OFFSET_COMMIT, 2)
            alice = Producing(they.alice, version=2)

            async def commit(producer: Producer) -> dict[str, ErrorCode]:
                topics = tuple(
                    types.TxnOffsetCommitRequestTopic(
                        name=name,
                        partitions=(
                            types.TxnOffsetCommitRequestPartition(
                                partition_index=0,
                                committed_offset=3,
                                committed_leader_epoch=-1,
                                committed_metadata="",
                            ),
                        ),
                    )
                    for name in ("orders", "other")
                )
                request = types.TxnOffsetCommitRequest(
                    transactional_id="t",
                    group_id="g",
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    topics=topics,
                )
                answer = await they.alice.ask(ApiKey.TXN_OFFSET_COMMIT, request, 2)
                return {
                    topic.name: ErrorCode(topic.partitions[0].error_code) for topic in answer.topics
                }

            assert await commit(NOBODY) == {"orders": NO_ID, "other": NO_ID}
            await they.allow("write transactional_id t")
            producer = await alice.ready()
            assert await commit(producer) == {"orders": NO_GROUP, "other": NO_GROUP}
            await they.allow("read group g")
            assert await commit(producer) == {"orders": NO_TOPIC, "other": NO_TOPIC}
            await they.allow("read topic orders")
            assert await alice.add_offsets(producer, "g") is OK
            assert await commit(producer) == {"orders": OK, "other": NO_TOPIC}
            assert (await alice.end(producer))[0] is OK

    kit.run(scenario)
