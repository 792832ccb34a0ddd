"""Valid requests that are mutated."""

from collections.abc import Mapping
from typing import Any

from chiplog_wire.client.connection import ClientConnection, encoded
from chiplog_wire.protocol.apis import APIS, ApiKey
from e2e.kafka.messages import request

LENGTH_BYTES = 4
WIDE = "a" * 1000 + "😀"
"""Text that takes four times as much memory as in a frame."""
ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ACL = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def frame(key: ApiKey, version: int, client_id: str = "fuzz", **values: Any) -> bytes:
    """A request without the length in front."""
    body = encoded(request(key, version, values))
    pieces = ClientConnection(client_id).send(key, version, [body])
    return b"".join(map(bytes, pieces))[LENGTH_BYTES:]


def every_version(key: ApiKey, **values: Any) -> list[bytes]:
    api = APIS[key]
    return [frame(key, version, **values) for version in range(api.min_served, api.max_version + 1)]


def upsertion(name: str) -> Mapping[str, Any]:
    return {
        "name": name,
        "mechanism": 2,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"s" * 64,
    }


def of_users_and_acls() -> list[bytes]:
    """Requests about ACLs and about credentials of users."""
    many = [{**ACL, "operation": operation} for operation in range(2, 13)]
    return [
        *every_version(ApiKey.CREATE_ACLS, creations=[ACL]),
        *every_version(ApiKey.CREATE_ACLS, creations=many),
        *every_version(ApiKey.DELETE_ACLS, filters=[{**ANY_ACL, "host_filter": "198.18.0.1"}]),
        *every_version(ApiKey.DELETE_ACLS, filters=[ANY_ACL] * 20),
        *every_version(ApiKey.DESCRIBE_ACLS, **ANY_ACL),
        *every_version(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            deletions=[{"name": "bob", "mechanism": 1}],
            upsertions=[upsertion("carol"), upsertion("dave")],
        ),
        *every_version(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=[{"name": "alice"}]),
        *every_version(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=None),
    ]


def of_logins(mechanisms: tuple[str, ...]) -> list[bytes]:
    """The first requests of a client that logs in."""
    return [
        *every_version(
            ApiKey.API_VERSIONS, client_software_name="librdkafka", client_software_version="2.1"
        ),
        *every_version(
            ApiKey.API_VERSIONS, client_software_name=WIDE * 3, client_software_version="2.1"
        ),
        frame(ApiKey.API_VERSIONS, 0, WIDE),
        frame(ApiKey.SASL_HANDSHAKE, 1, mechanism=WIDE * 3),
        *(
            one
            for mechanism in mechanisms
            for one in every_version(ApiKey.SASL_HANDSHAKE, mechanism=mechanism)
        ),
        *every_version(ApiKey.SASL_AUTHENTICATE, auth_bytes=b"n,,n=alice,r=abc"),
    ]
