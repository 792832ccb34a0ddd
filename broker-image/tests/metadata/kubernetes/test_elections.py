"""ElectLeaders through the status: the operator elects, and the client is told when it is seen."""

import asyncio
from typing import TYPE_CHECKING, Any

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client
    from tests.metadata.kubernetes.conftest import MemberKit

PREFERRED, UNCLEAN = 0, 1
Found = dict[tuple[str, int], ErrorCode]


async def elect(client: "Client", indexes: list[int] | None, kind: int = PREFERRED) -> Any:
    types = client.types(ApiKey.ELECT_LEADERS)
    topics = indexes and (types.TopicPartitions(topic="orders", partitions=tuple(indexes)),)
    request = types.ElectLeadersRequest(topic_partitions=topics, election_type=kind)
    return await client.ask(ApiKey.ELECT_LEADERS, request)


def found_in(answer: Any) -> Found:
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


def answer_partitions(member: "MemberKit", codes: dict[int, int]) -> None:
    (request,) = member.operator.status.requests
    results = [
        {"topic": "orders", "partition": index, "errorCode": int(code), "errorMessage": "told so"}
        for index, code in codes.items()
    ]
    member.operator.write_broker(answers=[{"id": request.id, "results": results}])


def led_by_two(member: "MemberKit", index: int) -> dict[str, Any]:
    return member.partition(1, 3, index, replicas=[1, 2], isr=["1@1", "2@1"], leader="2@1")


def test_elections_of_partitions_led_by_others_go_to_the_operator(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.add_broker(2, session=1)
        own = member.partition(1, 3, 0)
        member.operator.write_map("orders", [own, led_by_two(member, 1), led_by_two(member, 2)])
        async with member.admitted(1) as client:
            asking = asyncio.create_task(elect(client, [0, 1, 2]))
            await member.eventually(lambda: member.operator.status.requests)
            answer_partitions(member, {1: 0, 2: ErrorCode.preferred_leader_not_available})
            await asyncio.sleep(0.05)
            assert not asking.done(), "this broker has not seen the new reign"
            elected = member.partition(1, 4, 1, replicas=[1, 2], isr=["1@1", "2@1"])
            member.operator.write_map("orders", [own, elected, led_by_two(member, 2)])
            assert found_in(await asking) == {
                ("orders", 0): ErrorCode.election_not_needed,
                ("orders", 1): ErrorCode.none,
                ("orders", 2): ErrorCode.preferred_leader_not_available,
            }

    member.run(scenario)


def test_an_unclean_election_takes_an_annotation(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 3, leader=None)])
        async with member.admitted(1) as client:
            asking = asyncio.create_task(elect(client, None, UNCLEAN))
            await member.eventually(lambda: member.operator.status.requests)
            answer_partitions(member, {0: ErrorCode.policy_violation})
            (topic,) = (await asking).replica_election_results
            (one,) = topic.partition_result
            assert (one.error_code, one.error_message) == (ErrorCode.policy_violation, "told so")

    member.run(scenario)
