"""ElectLeaders: what is answered without asking anybody."""

from typing import TYPE_CHECKING, Any

import pytest

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

PREFERRED, UNCLEAN = 0, 1
Found = dict[tuple[str, int], ErrorCode]


async def elect(
    client: "Client",
    topics: dict[str, list[int]] | None,
    kind: int = PREFERRED,
    version: int | None = None,
) -> Any:
    types = client.types(ApiKey.ELECT_LEADERS, version)
    given = {} if version == 0 else {"election_type": kind}
    request = types.ElectLeadersRequest(
        topic_partitions=None
        if topics is None
        else tuple(
            types.TopicPartitions(topic=name, partitions=tuple(indexes))
            for name, indexes in topics.items()
        ),
        **given,
    )
    return await client.ask(ApiKey.ELECT_LEADERS, request, version)


def found_in(answer: Any) -> Found:
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_cluster_of_one_needs_no_election(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            wanted = {"orders": [0, 1, 7, -1], "none": [0]}
            for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
                answer = await elect(client, wanted, kind, version)
                assert found_in(answer) == {
                    ("orders", 0): ErrorCode.election_not_needed,
                    ("orders", 1): ErrorCode.election_not_needed,
                    ("orders", 7): ErrorCode.unknown_topic_or_partition,
                    ("orders", -1): ErrorCode.unknown_topic_or_partition,
                    ("none", 0): ErrorCode.unknown_topic_or_partition,
                }
                answer = await elect(client, None, kind, version)
                assert found_in(answer) == {}, "Kafka tells only of what was or should be done"

    kit.run(scenario)


def test_an_unknown_kind_of_election(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            answer = await elect(client, {"orders": [0]}, kind=2)
            assert answer.error_code == ErrorCode.invalid_request

    kit.run(scenario)
