"""What is checked where, beyond the matrix of `e2e.security`: sessions, long requests, and ACLs
that change while clients are connected."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from chiplog_broker.handlers.authorized.changes import CHANGES
from chiplog_broker.handlers.authorized.rules import RULES
from chiplog_core.authorizer.acls import Operation
from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.authorization.people import NO_CLUSTER, NO_TOPIC, OK, peer, people

if TYPE_CHECKING:
    from tests.conftest import Client, Kit


def test_every_api_has_a_rule() -> None:
    assert RULES.keys() == APIS.keys()
    assert {key for key, rule in RULES.items() if rule is None} == {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.FETCH,
    }
    assert CHANGES.keys() <= APIS.keys()


def test_a_produce_is_appended_where_it_is_allowed(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("allowed")
            await they.admin.create("denied")
            assert await they.allow("write topic allowed") == [OK]
            batch = kit.batch(b"value")
            request = they.alice.produce_request("allowed", batch)
            (topic,) = request.topic_data
            for acks in (-1, 1):
                both = _with_topics(request, topic, _named(topic, "denied"), acks=acks)
                answer = await they.alice.ask(ApiKey.PRODUCE, both)
                assert {
                    one.name: ErrorCode(one.partition_responses[0].error_code)
                    for one in answer.responses
                } == {"allowed": OK, "denied": NO_TOPIC}
            ends = [partition.log.end_offset for partition in kit.partitions("allowed")]
            assert ends == [2]
            assert [one.log.end_offset for one in kit.partitions("denied")] == [0]
            # Without an answer only a closed connection shows the denial. The rest is stored.
            unanswered = _with_topics(request, topic, _named(topic, "denied"), acks=0)
            await they.alice.send(ApiKey.PRODUCE, unanswered)
            assert await they.alice.is_closed()
            assert [one.log.end_offset for one in kit.partitions("allowed")] == [3]

    kit.run(scenario)


def _with_topics(request: Any, *topics: Any, acks: int) -> Any:
    return replace(request, topic_data=topics, acks=acks)


def _named(topic: Any, name: str) -> Any:
    return replace(topic, name=name)


def test_a_produce_to_thousands_of_topics_is_checked_in_slices(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            await they.allow("write topic orders")
            request = they.alice.produce_request("orders", kit.batch(b"value"))
            (topic,) = request.topic_data
            topics = [_named(topic, f"denied-{number}") for number in range(2_000)]
            answer = await they.alice.ask(
                ApiKey.PRODUCE, _with_topics(request, *topics, topic, acks=-1)
            )
            codes = {
                one.name: ErrorCode(one.partition_responses[0].error_code)
                for one in answer.responses
            }
            assert len(codes) == 2_001
            assert codes.pop("orders") is OK
            assert set(codes.values()) == {NO_TOPIC}

    kit.run(scenario)


def test_a_metadata_of_thousands_of_names_is_checked_in_slices(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            await they.allow("describe topic orders")
            names = [f"name-{number}" for number in range(3_000)]
            answer = await they.alice.metadata(*names, "orders")
            codes = {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}
            assert codes.pop("orders") is OK
            assert len(codes) == 3_000
            assert set(codes.values()) == {NO_TOPIC}

    kit.run(scenario)


def test_the_operations_of_many_topics_are_added_in_slices(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.allow("write topic *,describe cluster kafka-cluster")
            types = they.alice.types(ApiKey.METADATA, 9)
            names = [f"name-{number}" for number in range(300)]
            request = types.MetadataRequest(
                topics=tuple(types.MetadataRequestTopic(name=name) for name in names),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=True,
                include_topic_authorized_operations=True,
            )
            answer = await they.alice.ask(ApiKey.METADATA, request, 9)
            assert [topic.name for topic in answer.topics] == names
            bits = {topic.topic_authorized_operations for topic in answer.topics}
            assert bits == {1 << Operation.WRITE | 1 << Operation.DESCRIBE}
            assert answer.cluster_authorized_operations == 1 << Operation.DESCRIBE

    kit.run(scenario)


async def session_fetch(
    client: "Client", session: tuple[int, int], *topics: tuple[UUID, int], wait_ms: int = 0
) -> Any:
    requests = [
        client.fetch_request(topic_id, (0, offset), session=session, wait_ms=wait_ms)
        for topic_id, offset in topics
    ] or [client.fetch_request(None, session=session, wait_ms=wait_ms)]
    request = replace(requests[0], topics=tuple(topic for one in requests for topic in one.topics))
    return await client.ask(ApiKey.FETCH, request)


def codes_of(answer: Any) -> dict[UUID, ErrorCode]:
    return {
        topic.topic_id: ErrorCode(partition.error_code)
        for topic in answer.responses
        for partition in topic.partitions
    }


def test_a_fetch_session_follows_the_acls(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            ids = []
            for name in ("orders", "payments"):
                await they.admin.create(name)
                await they.admin.produce(name, kit.batch(b"one"))
                ids.append(await they.admin.topic_id(name))
            orders, payments = ids
            end = next(iter(kit.partitions("orders"))).log.end_offset
            await they.allow("read topic orders")
            alice = they.alice
            first = await session_fetch(alice, (0, 0), (orders, end), (payments, 0))
            assert codes_of(first) == {orders: OK, payments: NO_TOPIC}
            assert first.session_id
            session = first.session_id
            # A denied partition stays in the session and keeps its error.
            second = await session_fetch(alice, (session, 1))
            assert codes_of(second) == {payments: NO_TOPIC}
            # Allowed now: its records come without a new session.
            await they.allow("read topic payments")
            third = await session_fetch(alice, (session, 2))
            assert codes_of(third) == {payments: OK}
            assert any(one.records for topic in third.responses for one in topic.partitions)
            # Denied now, also where there was nothing to read.
            await they.deny("read topic orders")
            fourth = await session_fetch(alice, (session, 3), (payments, end))
            assert codes_of(fourth)[orders] is NO_TOPIC
            await they.admin.produce("orders", kit.batch(b"secret"))
            fifth = await session_fetch(alice, (session, 4))
            assert codes_of(fifth) == {orders: NO_TOPIC}
            assert not any(one.records for topic in fifth.responses for one in topic.partitions)

    kit.run(scenario)


def test_a_waiting_fetch_gets_no_record_after_a_deny(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            topic_id = await they.admin.topic_id("orders")
            await they.allow("read topic orders")
            waiting = asyncio.create_task(they.alice.fetch(topic_id, (0, 0), wait_ms=20_000))
            while not kit.broker.requests.waiting_fetches:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await they.deny("read topic orders")
            await they.admin.produce("orders", kit.batch(b"secret"))
            assert await waiting == [(NO_TOPIC, b"")]

    kit.run(scenario)


def test_a_topic_is_made_only_by_who_may_create_it(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit, auto_create_topics_enable="true") as they:
            await they.allow("describe topic *,create topic mine.*")
            answer = await they.alice.metadata("mine.a", "theirs", auto_create=True)
            codes = {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}
            assert codes["theirs"] is NO_TOPIC
            assert await they.admin.users_topics() == ["mine.a"]

    kit.run(scenario)


def test_processes_of_the_cluster_are_not_checked(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            assert await they.alice.create("orders") is NO_TOPIC
            peer(kit, they.alice).is_internal = True
            assert await they.alice.create("orders") is OK
            await they.admin.produce("orders", kit.batch(b"value"))
            topic_id = await they.admin.topic_id("orders")
            ((code, records),) = await they.alice.fetch(topic_id, (0, 0))
            assert code is OK
            assert records

    kit.run(scenario)


def test_a_client_that_poses_as_a_broker_is_denied_whatever_it_may(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            await they.allow("cluster_action cluster kafka-cluster,read topic *")
            types = they.alice.types(ApiKey.FETCH, 12)
            partition = types.FetchPartition(
                partition=0,
                current_leader_epoch=-1,
                fetch_offset=0,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=1,
            )
            request = types.FetchRequest(
                replica_id=2,
                max_wait=kit.milliseconds(0),
                min_bytes=0,
                max_bytes=1,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=(types.FetchTopic(topic="orders", partitions=(partition,)),),
                forgotten_topics_data=(),
                rack_id="",
            )
            answer = await they.alice.ask(ApiKey.FETCH, request, 12)
            (topic,) = answer.responses
            assert [one.error_code for one in topic.partitions] == [NO_TOPIC]

    kit.run(scenario)


def test_a_name_given_twice_tells_nothing_of_a_denied_topic(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            types = they.alice.types(ApiKey.DELETE_TOPICS)
            topic = types.DeleteTopicState(name="orders", topic_id=None)
            request = types.DeleteTopicsRequest(topics=(topic, topic), timeout=kit.milliseconds(1))
            answer = await they.alice.ask(ApiKey.DELETE_TOPICS, request)
            (result,) = answer.responses
            assert (result.error_code, result.topic_id) == (ErrorCode.invalid_request, None)

    kit.run(scenario)


@pytest.mark.parametrize("everyone", ["true", "false"])
def test_resources_without_acls(kit: "Kit", everyone: str) -> None:
    async def scenario() -> None:
        async with people(kit, allow_everyone_if_no_acl_found=everyone) as they:
            expected = OK if everyone == "true" else NO_TOPIC
            assert await they.alice.create("orders") is expected

    kit.run(scenario)


def test_without_an_authorizer_nothing_is_checked(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(super_users="User:root") as client:
            assert await client.create("orders") is OK
            types = client.types(ApiKey.DELETE_ACLS)
            request = types.DeleteAclsRequest(filters=())
            assert (await client.ask(ApiKey.DELETE_ACLS, request)).filter_results == ()
        async with kit.running(authorizer_class_name=STANDARD_AUTHORIZER) as client:
            assert await client.create("payments") is NO_TOPIC
            request = types.DeleteAclsRequest(filters=(_any_filter(types),))
            answer = await client.ask(ApiKey.DELETE_ACLS, request)
            assert [one.error_code for one in answer.filter_results] == [NO_CLUSTER]

    kit.run(scenario)


def _any_filter(types: Any) -> Any:
    return types.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def test_thousands_of_denied_partitions_are_answered(kit: "Kit") -> None:
    """Their results are made in another thread."""

    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders")
            types = they.alice.types(ApiKey.LIST_OFFSETS)
            partitions = tuple(
                types.ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=-1, timestamp=-1
                )
                for index in range(2_000)
            )
            topic = types.ListOffsetsTopic(name="orders", partitions=partitions)
            request = types.ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=(topic,), timeout=kit.milliseconds(1)
            )
            (denied,) = (await they.alice.ask(ApiKey.LIST_OFFSETS, request)).topics
            assert [one.partition_index for one in denied.partitions] == list(range(2_000))
            assert {ErrorCode(one.error_code) for one in denied.partitions} == {NO_TOPIC}

            types = they.alice.types(ApiKey.ELECT_LEADERS)
            wanted = types.TopicPartitions(topic="orders", partitions=tuple(range(2_000)))
            election = types.ElectLeadersRequest(
                election_type=0, topic_partitions=(wanted,), timeout=kit.milliseconds(1)
            )
            answer = await they.alice.ask(ApiKey.ELECT_LEADERS, election)
            assert answer.error_code is NO_CLUSTER
            (result,) = answer.replica_election_results
            assert {one.error_code for one in result.partition_result} == {NO_CLUSTER}
            assert len(result.partition_result) == 2_000

    kit.run(scenario)


def test_a_group_named_many_times_is_answered_with_its_own_denied_topics(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders", partitions=1)
            await they.allow("read group g,describe topic orders")
            types = they.alice.types(ApiKey.OFFSET_FETCH, 8)
            topic = types.OffsetFetchRequestTopics
            groups = tuple(
                types.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=(
                        topic(name="orders", partition_indexes=(number,)),
                        topic(name=f"denied-{number}", partition_indexes=(0,)),
                    ),
                )
                for number in range(100)
            )
            request = types.OffsetFetchRequest(groups=groups, require_stable=False)
            answer = await they.alice.ask(ApiKey.OFFSET_FETCH, request, 8)
            assert [[topic.name for topic in one.topics] for one in answer.groups] == [
                ["orders", f"denied-{number}"] for number in range(100)
            ]

    kit.run(scenario)


@pytest.mark.parametrize("count", [300, 2_000])
def test_a_denied_batch_without_answer_closes_the_connection_of_a_large_produce_too(
    kit: "Kit", count: int
) -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("allowed", partitions=1)
            await they.allow("write topic allowed")
            request = they.alice.produce_request("allowed", kit.batch(b"value"))
            (topic,) = request.topic_data
            topics = [topic] * count + [_named(topic, "denied")]
            await they.alice.send(ApiKey.PRODUCE, _with_topics(request, *topics, acks=0))
            assert await they.alice.is_closed()

    kit.run(scenario)
