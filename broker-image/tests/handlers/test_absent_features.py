"""What there is none of, and who produces: read-only admin APIs of a broker without settings."""

from typing import TYPE_CHECKING, Any

import pytest

from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec.api_versions import FEATURES
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import Producer
from tests.coordinator.groups_kit import Group, running

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_served, APIS[key].max_version + 1)


async def ask(client: "Client", key: ApiKey, version: int = 0, **fields: Any) -> Any:
    types = client.types(key, version)
    request = getattr(types, APIS[key].name + "Request")(**fields)
    return await client.ask(key, request, version)


def test_no_replica_moves_and_there_are_no_quotas(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            answer = await ask(client, ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None)
            assert (answer.error_code, answer.topics) == (OK, ())
            for version in versions(ApiKey.DESCRIBE_CLIENT_QUOTAS):
                key = ApiKey.DESCRIBE_CLIENT_QUOTAS
                answer = await ask(client, key, version, components=(), strict=False)
                assert (answer.error_code, answer.entries) == (OK, ())

    kit.run(scenario)


def test_there_are_no_transactions_before_the_first_one(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            key = ApiKey.DESCRIBE_TRANSACTIONS
            answer = await ask(client, key, transactional_ids=("a", ""))
            codes = [one.error_code for one in answer.transaction_states]
            assert codes == [ErrorCode.transactional_id_not_found, ErrorCode.invalid_request]
            for version in versions(ApiKey.LIST_TRANSACTIONS):
                filters: dict[str, Any] = {"producer_id_filters": ()}
                filters["state_filters"] = ("Ongoing", "Odd", "Odd")
                if version == 2:
                    filters["transactional_id_pattern"] = None
                answer = await ask(client, ApiKey.LIST_TRANSACTIONS, version, **filters)
                assert (answer.error_code, answer.transaction_states) == (OK, ())
                assert answer.unknown_state_filters == ("Odd",)

    kit.run(scenario)


def test_a_classic_group_is_no_group_of_the_next_generation(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await Group(client).be_alone()
            for version in versions(ApiKey.CONSUMER_GROUP_DESCRIBE):
                answer = await ask(
                    client,
                    ApiKey.CONSUMER_GROUP_DESCRIBE,
                    version,
                    group_ids=("g", "x"),
                    include_authorized_operations=False,
                )
                assert [(one.error_code, one.error_message) for one in answer.groups] == [
                    (ErrorCode.group_id_not_found, "Group g is not a consumer group."),
                    (ErrorCode.group_id_not_found, "Group x not found."),
                ]

    kit.run(scenario)


def test_who_produces_to_a_partition(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            producer = Producer(producer_id=7, epoch=3, base_sequence=0)
            await client.produce("orders", kit.batch(b"a", b"b", producer=producer))
            types = client.types(ApiKey.DESCRIBE_PRODUCERS, 0)
            topics = tuple(
                types.TopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in (("orders", (0, 1)), ("none", (0,)), ("not a topic", (0,)))
            )
            answer = await ask(client, ApiKey.DESCRIBE_PRODUCERS, topics=topics)
            orders, none, invalid = answer.topics
            assert invalid.partitions[0].error_code == ErrorCode.invalid_topic_exception
            assert none.partitions[0].error_code == ErrorCode.unknown_topic_or_partition
            assert orders.partitions[1].error_code == ErrorCode.unknown_topic_or_partition
            (one,) = orders.partitions[0].active_producers
            assert (one.producer_id, one.producer_epoch, one.last_sequence) == (7, 3, 1)
            assert (one.coordinator_epoch, one.current_txn_start_offset) == (-1, -1)

    kit.run(scenario)


@pytest.mark.parametrize(("timestamp", "version"), [(-5, 9), (-5, 11), (-6, 11)])
def test_tiered_storage_has_no_offset(kit: "Kit", timestamp: int, version: int) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            unknown = ErrorCode.unsupported_version
            assert await client.offset("orders", timestamp, version=version) == (OK, -1, -1)
            before = 8 if timestamp == -5 else 10
            assert await client.offset("orders", timestamp, version=before) == (unknown, -1, -1)

    kit.run(scenario)


def test_features_name_what_clients_may_use(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            names = {"client_software_name": "a", "client_software_version": "1"}
            for version in (3, 4):
                answer = await ask(client, ApiKey.API_VERSIONS, version, **names)
                finalized = {one.name: one.max_version_level for one in answer.finalized_features}
                supported = {one.name: one.max_version for one in answer.supported_features}
                assert finalized == supported == FEATURES
                assert finalized["transaction.version"] == 2, "the second generation (KIP-890)"
                # Java would use group protocols that are not there.
                assert not finalized.keys() & {"group.version", "share.version", "streams.version"}
                # Java ignores a change of the features unless their epoch is higher.
                assert answer.finalized_features_epoch == 1
                # Java before 3.9 closes the connection where the lowest level is 0.
                assert {one.min_version for one in answer.supported_features} == {1}

    kit.run(scenario)


def test_a_broker_says_which_release_it_speaks(kit: "Kit") -> None:
    """Kafbat's UI reads the number before the hyphen, and needs 2.3 for incremental changes."""

    async def scenario() -> None:
        async with kit.running() as client:
            code, configs = await client.configs("1", kind=4)
            version = configs["inter.broker.protocol.version"]
            assert (code, version.read_only) == (OK, True)
            assert float(version.value.split("-")[0]) >= 2.3

    kit.run(scenario)
