"""AlterPartitionReassignments: by a broker alone, and for very many partitions."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_broker.handlers.reassignments import ReassignmentHandlers
from chiplog_broker.metadata.kubernetes.admin_requests import AdminRequests
from chiplog_broker.metadata.view import ClusterView, PartitionView, TopicView
from chiplog_broker.ports.clock import SystemClock
from chiplog_core.config.effective import TopicConfig
from chiplog_core.model.admin import AdminAnswer
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

ALONE = 1


async def alter(
    client: "Client", topics: dict[str, dict[int, tuple[int, ...] | None]], version: int
) -> dict[tuple[str, int], ErrorCode]:
    types = client.types(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version)
    request = types.AlterPartitionReassignmentsRequest(
        timeout=timedelta(seconds=30),
        topics=tuple(
            types.ReassignableTopic(
                name=name,
                partitions=tuple(
                    types.ReassignablePartition(partition_index=index, replicas=replicas)
                    for index, replicas in partitions.items()
                ),
            )
            for name, partitions in topics.items()
        ),
    )
    answer = await client.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, version)
    assert answer.error_code == ErrorCode.none
    return {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in answer.responses
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 1])
def test_a_broker_alone_moves_nothing(kit: "Kit", version: int) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 3)
            wanted: dict[str, dict[int, tuple[int, ...] | None]] = {
                "orders": {0: (ALONE,), 1: (ALONE, 2), 2: None, 7: (ALONE,), -1: None},
                "none": {0: (ALONE,)},
            }
            unknown = ErrorCode.unknown_topic_or_partition
            assert await alter(client, wanted, version) == {
                ("orders", 0): ErrorCode.none,
                ("orders", 1): ErrorCode.invalid_replica_assignment,
                ("orders", 2): ErrorCode.no_reassignment_in_progress,
                ("orders", 7): unknown,
                ("orders", -1): unknown,
                ("none", 0): unknown,
            }
            assert await alter(client, {}, version) == {}

    kit.run(scenario)


def test_a_request_for_many_topics_fits() -> None:
    """What a broker asks the operator for at a time is limited: 32 topics are more than that."""
    cluster = ClusterView("c", ALONE)
    partitions = tuple(
        PartitionView(index, 1, 5, (101, 102, 103), (101,), partition_epoch=12_345)
        for index in range(500)
    )
    for number in range(32):
        topic_id = UUID(int=number + 1_000)
        cluster.put(TopicView(f"topic-{number}", topic_id, partitions, TopicConfig({}, {})))
    topics = [
        SimpleNamespace(
            name=f"topic-{number}",
            partitions=[
                SimpleNamespace(partition_index=index, replicas=(102, 103, 104))
                for index in range(500)
            ],
        )
        for number in range(32)
    ]

    async def scenario() -> Any:
        def changed() -> None:
            asyncio.get_running_loop().call_soon(answer)

        def answer() -> None:
            refusal = int(ErrorCode.policy_violation)
            store.answered(
                [AdminAnswer(id=one.id, error_code=refusal) for one in store.outstanding()]
            )

        store = AdminRequests(cluster, SystemClock(), "x", changed, {})
        message = SimpleNamespace(
            topics=topics, timeout=timedelta(seconds=30), allow_replication_factor_change=True
        )
        call: Any = SimpleNamespace(message=message, peer=SimpleNamespace(principal="User:x"))
        handlers: Any = ReassignmentHandlers
        return await handlers(cluster, store).alter_partition_reassignments(call)

    found = asyncio.run(scenario())
    codes = {one.error_code for topic in found.responses for one in topic.partitions}
    assert codes == {ErrorCode.policy_violation}
