"""DescribeAcls, CreateAcls and DeleteAcls of a standalone broker, and where its ACLs are kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.errors import CannotStart
from chiplog_broker.handlers import acls as handlers
from chiplog_broker.metadata import standalone_acls
from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.authorization.people import OK, acl_of, create, people

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

INVALID = ErrorCode.invalid_request
ORDERS = acl_of("read topic orders")
TEAM = acl_of("write topic team.*")
EVERYBODY = acl_of("describe group *")._replace(principal="User:*", host="10.0.0.1")
HERE = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


def wanted(**given: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
        **given,
    }


async def described(client: "Client", **given: Any) -> set[Acl]:
    types = client.types(ApiKey.DESCRIBE_ACLS)
    request = types.DescribeAclsRequest(**wanted(**given))
    answer = await client.ask(ApiKey.DESCRIBE_ACLS, request)
    assert answer.error_code is OK
    return {
        Acl(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            Operation(acl.operation),
            Permission(acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    }


async def delete(client: "Client", *filters: dict[str, Any]) -> list[tuple[ErrorCode, int]]:
    """The code of each filter, and how many ACLs it matched."""
    types = client.types(ApiKey.DELETE_ACLS)
    request = types.DeleteAclsRequest(
        filters=tuple(types.DeleteAclsFilter(**wanted(**one)) for one in filters)
    )
    answer = await client.ask(ApiKey.DELETE_ACLS, request)
    return [(ErrorCode(one.error_code), len(one.matching_acls)) for one in answer.filter_results]


def test_acls_are_made_listed_and_deleted(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            admin = they.admin
            assert await described(admin) == set()
            assert await create(admin, ORDERS, TEAM, ORDERS, EVERYBODY) == [OK] * 4
            assert await create(admin, TEAM) == [OK]  # it exists: not an error
            assert await described(admin) == {ORDERS, TEAM, EVERYBODY}
            matching = {"pattern_type_filter": 2, "resource_name_filter": "team.a"}
            assert await described(admin, **matching, resource_type_filter=2) == {TEAM}
            assert await described(admin, principal_filter="User:*") == {EVERYBODY}
            both = {"resource_type_filter": 2}
            assert await delete(admin, {"host_filter": "*"}, both) == [(OK, 2), (OK, 2)]
            assert await described(admin) == {EVERYBODY}
            assert await delete(admin, {"operation": 3}) == [(OK, 0)]

    kit.run(scenario)


def test_what_is_refused(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            admin = they.admin
            assert await create(
                admin, ORDERS._replace(principal="bob"), TEAM, ORDERS._replace(name="")
            ) == [INVALID, OK, INVALID]
            types = admin.types(ApiKey.CREATE_ACLS)
            unknown = types.AclCreation(
                resource_type=2,
                resource_name="a",
                resource_pattern_type=3,
                principal="User:a",
                host="*",
                operation=99,
                permission_type=3,
            )
            answer = await admin.ask(
                ApiKey.CREATE_ACLS, types.CreateAclsRequest(creations=(unknown,))
            )
            assert [one.error_code for one in answer.results] == [INVALID]
            assert await delete(admin, {"operation": 0}, {"operation": 3}) == [
                (INVALID, 0),
                (OK, 0),
            ]
            request_types = admin.types(ApiKey.DESCRIBE_ACLS)
            request = request_types.DescribeAclsRequest(**wanted(permission_type=0))
            answer = await admin.ask(ApiKey.DESCRIBE_ACLS, request)
            assert answer.error_code is INVALID
            many = [{"operation": 3}] * (handlers.MAX_FILTERS + 1)
            assert set(await delete(admin, *many)) == {(INVALID, 0)}
            assert await described(admin) == {TEAM}

    kit.run(scenario)


def test_there_is_a_limit(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone_acls, "MAX_ACLS", 2)
    monkeypatch.setattr(standalone_acls, "MAX_MATCHES", 3)

    async def scenario() -> None:
        async with people(kit) as they:
            results = await create(they.admin, ORDERS, TEAM, EVERYBODY, ORDERS)
            assert results == [OK, OK, ErrorCode.policy_violation, OK]
            assert await described(they.admin) == {ORDERS, TEAM}
            assert await delete(they.admin, {}, {}) == [(INVALID, 0)] * 2
            assert await described(they.admin) == {ORDERS, TEAM}

    kit.run(scenario)


def test_acls_survive_a_restart(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await create(they.admin, ORDERS, TEAM, EVERYBODY)
            await delete(they.admin, {"resource_name_filter": "orders"})
        async with people(kit) as they:
            assert await described(they.admin) == {TEAM, EVERYBODY}
            assert await they.alice.create("team.a") is ErrorCode.topic_authorization_failed
            await they.admin.create("team.a")
            (result,) = await they.alice.produce("team.a", kit.batch(b"value"))
            assert result.error_code is OK

    kit.run(scenario)


def test_a_failed_write_changes_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await create(they.admin, ORDERS)
            kit.metadata.replace_error = OSError(28, "no space left")
            failed = ErrorCode.kafka_storage_error
            assert await create(they.admin, TEAM) == [failed]
            assert await delete(they.admin, {}) == [(failed, 0)]
            assert await described(they.admin) == {ORDERS}
            kit.metadata.replace_error = None
            assert await create(they.admin, TEAM) == [OK]
        async with people(kit) as they:
            assert await described(they.admin) == {ORDERS, TEAM}

    kit.run(scenario)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("alice", "malory"),
        lambda text: "",
        lambda text: text[: len(text) // 2],
    ],
)
def test_a_damaged_file_stops_the_start(kit: "Kit", damage: Any) -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await create(they.admin, ORDERS)
        file = Path(kit.directory) / "metadata" / "acls.json"
        file.write_text(damage(file.read_text()))
        with pytest.raises(CannotStart, match=r"metadata/acls\.json"):
            await kit.new_broker(HERE).start()
        # Without an authorizer nobody needs the ACLs.
        broker = kit.new_broker()
        await broker.start()
        await broker.stop()

    kit.run(scenario)
