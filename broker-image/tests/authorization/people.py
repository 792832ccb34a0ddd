"""A broker with an authorizer, its administrator, and a client with another name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

ALICE = "User:alice"
OK = ErrorCode.none
NO_TOPIC = ErrorCode.topic_authorization_failed
NO_GROUP = ErrorCode.group_authorization_failed
NO_CLUSTER = ErrorCode.cluster_authorization_failed


class People:
    """The administrator is a super user; `alice` has only what ACLs allow."""

    def __init__(self, kit: "Kit", admin: "Client", alice: "Client") -> None:
        self.kit = kit
        self.admin = admin
        self.alice = alice

    async def allow(self, text: str, permission: Permission = Permission.ALLOW) -> list[ErrorCode]:
        """Allow alice `read topic orders` or `write topic team.*`, several separated by commas."""
        acls = [acl_of(one, permission) for one in text.split(",")]
        return await create(self.admin, *acls)

    async def deny(self, text: str) -> list[ErrorCode]:
        return await self.allow(text, Permission.DENY)


def acl_of(text: str, permission: Permission = Permission.ALLOW) -> Acl:
    operation, kind, name = text.split()
    is_prefix = name.endswith("*") and name != "*"
    return Acl(
        ResourceType[kind.upper()],
        name.removesuffix("*") if is_prefix else name,
        PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        ALICE,
        "*",
        Operation[operation.upper()],
        permission,
    )


async def create(client: "Client", *acls: Acl) -> list[ErrorCode]:
    types = client.types(ApiKey.CREATE_ACLS)
    creations = tuple(
        types.AclCreation(
            resource_type=int(acl.resource_type),
            resource_name=acl.name,
            resource_pattern_type=int(acl.pattern_type),
            principal=acl.principal,
            host=acl.host,
            operation=int(acl.operation),
            permission_type=int(acl.permission),
        )
        for acl in acls
    )
    answer = await client.ask(ApiKey.CREATE_ACLS, types.CreateAclsRequest(creations=creations))
    return [ErrorCode(result.error_code) for result in answer.results]


@asynccontextmanager
async def people(kit: "Kit", **config: str) -> AsyncIterator[People]:
    """A running broker, with these keys of its configuration."""
    settings = {
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "super_users": "User:ANONYMOUS",
        **config,
    }
    async with kit.running(**settings) as admin:
        await admin.metadata()  # the connection is accepted
        alice = await kit.client()
        await ask_versions(alice)
        rename(kit, alice, ALICE)
        yield People(kit, admin, alice)


async def ask_versions(client: "Client") -> None:
    types = client.types(ApiKey.API_VERSIONS)
    request = types.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    await client.ask(ApiKey.API_VERSIONS, request)


def rename(kit: "Kit", client: "Client", principal: str) -> None:
    """As if this client had logged in."""
    peer(kit, client).principal = principal


def peer(kit: "Kit", client: "Client") -> Any:
    """The broker's end of a client's connection."""
    _, port = client.writer.get_extra_info("sockname")
    (found,) = (
        connection.peer
        for acceptor in kit.broker.acceptors
        for connection in acceptor._connections
        if connection.peer.port == port
    )
    return found
