"""What every client asks first, and what is switched off or not built yet."""

from typing import TYPE_CHECKING

import pytest

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Kit

OK = ErrorCode.none


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("apache-kafka-java", OK),
        ("a", OK),
        ("-a", ErrorCode.invalid_request),
        ("", 42),
        ("a b", 42),
    ],
)
def test_a_client_must_have_a_proper_name(kit: "Kit", name: str, code: int) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            types = client.types(ApiKey.API_VERSIONS)
            request = types.ApiVersionsRequest(
                client_software_name=name, client_software_version="4.3.1"
            )
            assert (await client.ask(ApiKey.API_VERSIONS, request)).error_code == code

    kit.run(scenario)


def test_the_cluster_and_its_other_endpoints(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(broker_rack="a", node_id="3") as client:
            types = client.types(ApiKey.DESCRIBE_CLUSTER)
            for kind, code, brokers in (
                (1, OK, [(3, kit.broker.addresses["PLAINTEXT"][1], "a")]),
                (2, ErrorCode.mismatched_endpoint_type, []),
                (3, ErrorCode.unsupported_endpoint_type, []),
            ):
                answer = await client.ask(
                    ApiKey.DESCRIBE_CLUSTER,
                    types.DescribeClusterRequest(
                        include_cluster_authorized_operations=False,
                        endpoint_type=kind,
                        include_fenced_brokers=False,
                    ),
                )
                assert answer.error_code == code
                found = [(one.broker_id, one.port, one.rack) for one in answer.brokers]
                assert found == brokers

    kit.run(scenario)


def test_producer_ids_are_never_given_twice(kit: "Kit") -> None:
    async def scenario() -> None:
        given = []
        for _ in range(2):
            async with kit.running() as client:
                types = client.types(ApiKey.INIT_PRODUCER_ID)
                for _ in range(2):
                    answer = await client.ask(
                        ApiKey.INIT_PRODUCER_ID,
                        types.InitProducerIdRequest(
                            transactional_id=None, transaction_timeout=kit.milliseconds(1)
                        ),
                    )
                    assert answer.error_code == OK
                    given.append(answer.producer_id)
        assert len(set(given)) == 4

    kit.run(scenario)


def test_coordinators_and_acls(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            types = client.types(ApiKey.FIND_COORDINATOR)
            for kind, code in ((0, OK), (1, OK), (2, ErrorCode.invalid_request)):
                answer = await client.ask(
                    ApiKey.FIND_COORDINATOR,
                    types.FindCoordinatorRequest(key_type=kind, coordinator_keys=("a", "b")),
                )
                assert [one.error_code for one in answer.coordinators] == [code, code]
            acls = client.types(ApiKey.DESCRIBE_ACLS)
            answer = await client.ask(
                ApiKey.DESCRIBE_ACLS,
                acls.DescribeAclsRequest(
                    resource_type_filter=1,
                    resource_name_filter=None,
                    pattern_type_filter=1,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                ),
            )
            assert answer.error_code == ErrorCode.security_disabled

    kit.run(scenario)


def test_log_directories(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            types = client.types(ApiKey.DESCRIBE_LOG_DIRS)
            topic = types.DescribableLogDirTopic

            async def described(topics: object) -> tuple[int, int]:
                request = types.DescribeLogDirsRequest(topics=topics)
                (one,) = (await client.ask(ApiKey.DESCRIBE_LOG_DIRS, request)).results
                return one.error_code, sum(len(topic.partitions) for topic in one.topics)

            assert await described(None) == (OK, 4), "with two internal ones"
            assert await described(()) == (OK, 0)
            assert await described((topic(topic="orders", partitions=(1, 7)),)) == (OK, 1)
            kit.disk.break_syncs()
            await client.produce("orders", kit.batch(b"x"))
            assert await described(None) == (ErrorCode.kafka_storage_error, 0)

    kit.run(scenario)
