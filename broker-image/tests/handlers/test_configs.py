"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources."""

from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers.config_entries import broker_entries, topic_entries
from chiplog_core.config.effective import TopicConfig
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4


def test_a_value_and_what_it_would_be_without_it(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(log_retention_hours="2") as client:
            await client.create("orders", retention_ms="5000")
            code, configs = await client.configs("orders")
            assert code is OK
            retention = configs["retention.ms"]
            assert (retention.value, retention.config_source, retention.read_only) == (
                "5000",
                1,
                False,
            )
            assert [(one.name, one.value, one.source) for one in retention.synonyms] == [
                ("retention.ms", "5000", 1),
                ("log.retention.hours", "2", 4),
                ("log.retention.hours", "168", 5),
            ]
            assert retention.documentation
            # A topic key that is also a broker key can be changed all the same.
            assert not configs["compression.type"].read_only

    kit.run(scenario)


def test_what_has_no_configuration(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            for name, kind, expected in (
                ("nowhere", TOPIC, ErrorCode.unknown_topic_or_partition),
                ("no/name", TOPIC, ErrorCode.invalid_topic_exception),
                ("2", BROKER, ErrorCode.invalid_request),
                ("x", 99, ErrorCode.invalid_request),
                ("", BROKER, OK),
            ):
                assert await client.configs(name, kind=kind) == (expected, {})
            code, configs = await client.configs("1", kind=BROKER)
            assert code is OK
            assert configs["num.partitions"].read_only
            assert configs["broker.rack"].value is None

    kit.run(scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("retention.ms", SET, "-2"), ErrorCode.invalid_config),
        (("retention.mss", SET, "1"), ErrorCode.invalid_config),
        (("retention.ms", SET, None), ErrorCode.invalid_request),
        (("retention.ms", APPEND, "1"), ErrorCode.invalid_config),
        (("retention.ms", 9, "1"), ErrorCode.invalid_request),
        (("cleanup.policy", APPEND, "condense"), ErrorCode.invalid_config),
        (("retention.ms", DELETE, None), OK),
        (("cleanup.policy", APPEND, "delete"), OK),
        (("cleanup.policy", APPEND, "compact"), OK),
        (("retention.ms", SET, "7"), OK),
    ],
)
def test_incremental_changes(
    kit: "Kit", change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", segment_ms="9")
            found, message = await client.alter("orders", change)
            assert found is code
            assert bool(message) == (code is not OK)
            _, configs = await client.configs("orders", "segment.ms")
            assert configs["segment.ms"].value == "9"

    kit.run(scenario)


def test_who_cannot_be_changed(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            change = ("retention.ms", SET, "1")
            code, message = await client.alter("1", change, kind=BROKER)
            assert code is ErrorCode.policy_violation
            assert "server.properties" in message
            assert (await client.alter("x", change))[0] is ErrorCode.unknown_topic_or_partition
            await client.create("orders")
            code, _ = await client.alter("orders", change, change)
            assert code is ErrorCode.invalid_request

    kit.run(scenario)


async def alter_whole(client: "Client", *resources: tuple[str, dict[str, Any]]) -> list[ErrorCode]:
    types = client.types(ApiKey.ALTER_CONFIGS)
    request = types.AlterConfigsRequest(
        resources=tuple(
            types.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=tuple(
                    types.AlterableConfig(name=key, value=value) for key, value in config.items()
                ),
            )
            for name, config in resources
        ),
        validate_only=False,
    )
    answer = await client.ask(ApiKey.ALTER_CONFIGS, request)
    return [ErrorCode(one.error_code) for one in answer.responses]


def test_replacing_a_whole_configuration(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", segment_ms="9")
            orders = ("orders", {"retention.ms": "7"})
            assert await alter_whole(client, orders) == [OK]
            _, configs = await client.configs("orders", "segment.ms", "retention.ms")
            assert configs["segment.ms"].config_source == 5
            assert configs["retention.ms"].value == "7"
            invalid = [ErrorCode.invalid_request]
            assert await alter_whole(client, ("orders", {"retention.ms": None})) == invalid
            assert await alter_whole(client, orders, orders) == invalid

    kit.run(scenario)


def test_what_there_is_to_configure(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            types = client.types(ApiKey.LIST_CONFIG_RESOURCES)

            async def listed(*kinds: int) -> tuple[int, list[tuple[int, str]]]:
                request = types.ListConfigResourcesRequest(resource_types=kinds)
                answer = await client.ask(ApiKey.LIST_CONFIG_RESOURCES, request)
                found = [(one.resource_type, one.resource_name) for one in answer.config_resources]
                return answer.error_code, found

            topics = ["__consumer_offsets", "__transaction_state", "orders"]
            assert await listed() == (OK, [*((TOPIC, name) for name in topics), (BROKER, "1")])
            assert await listed(BROKER) == (OK, [(BROKER, "1")])
            assert await listed(99) == (ErrorCode.unsupported_version, [])
            # The first version was about client metrics alone, of which there are none.
            old = client.types(ApiKey.LIST_CONFIG_RESOURCES, 0)
            request = getattr(old, "ListConfigResourcesRequest", None) or (
                old.ListClientMetricsResourcesRequest
            )
            answer = await client.ask(ApiKey.LIST_CONFIG_RESOURCES, request(), 0)
            assert answer.config_resources == ()

    kit.run(scenario)


@pytest.mark.parametrize(
    ("own", "inherited", "replicas", "expected"),
    [
        ({}, {}, 3, ("2", 5)),
        ({}, {}, 2, ("1", 5)),
        ({"min.insync.replicas": "1"}, {}, 3, ("1", 1)),
        ({}, {"min.insync.replicas": "3"}, 3, ("3", 4)),
        ({}, {"min.insync.replicas": "3"}, 2, ("2", 4)),
    ],
)
def test_min_insync_replicas_is_shown_as_it_is_enforced(
    own: dict[str, str], inherited: dict[str, str], replicas: int, expected: tuple[str, int]
) -> None:
    entries = topic_entries(TopicConfig(own, inherited), replicas)
    (found,) = (one for one in entries if one.key.name == "min.insync.replicas")
    assert (found.value, found.source) == expected
    assert found.synonyms[0].value == found.value


RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


def test_kafkas_tool_removes_the_throttles_of_a_standalone_broker(kit: "Kit") -> None:
    """`kafka-reassign-partitions.sh --verify` does so, whether there are any or not."""

    async def scenario() -> None:
        async with kit.running() as client:
            removed = [(name, DELETE, None) for name in RATES]
            assert await client.alter("1", *removed, kind=BROKER) == (OK, "")
            code, message = await client.alter("1", (RATES[0], SET, "5"), kind=BROKER)
            assert code is ErrorCode.policy_violation
            assert "no other broker" in message
            code, message = await client.alter("1", (RATES[0], SET, "0"), kind=BROKER)
            assert code is ErrorCode.invalid_config
            code, message = await client.alter("2", *removed, kind=BROKER)
            assert (code, "ask broker 2" in message) == (ErrorCode.invalid_request, True)
            assert (await client.alter("", *removed, kind=BROKER))[0] is ErrorCode.policy_violation
            assert (await client.alter("x", *removed, kind=16))[0] is ErrorCode.invalid_request
            _, configs = await client.configs("1", kind=BROKER)
            assert [configs[name].read_only for name in RATES] == [False] * 3
            assert configs[RATES[0]].config_source == 5

    kit.run(scenario)


def test_a_rate_that_a_client_has_set_is_a_dynamic_one() -> None:
    (entry,) = [one for one in broker_entries({RATES[0]: "7"}) if one.key.name == RATES[0]]
    assert (entry.value, entry.source, entry.read_only) == ("7", 2, False)


def test_lists_of_throttled_replicas_are_set_and_removed(kit: "Kit") -> None:
    name = "follower.replication.throttled.replicas"

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            for value in ("0:1, 0:2", "*", ""):
                assert (await client.alter("orders", (name, SET, value)))[0] is OK
                _, configs = await client.configs("orders", name)
                assert configs[name].value == value.replace(" ", "")
                assert configs[name].config_source == 1
            assert (await client.alter("orders", (name, SET, "0")))[0] is ErrorCode.invalid_config
            assert (await client.alter("orders", (name, DELETE, None)))[0] is OK
            _, configs = await client.configs("orders", name)
            assert configs[name].config_source == 5

    kit.run(scenario)
