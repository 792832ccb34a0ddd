"""The first requests of a client: the versions that the broker supports, and then the login.

This is a generator without I/O: it yields requests, and is sent kio's answers. With `ask` as the
caller's function that sends a request and waits for its answer:

    steps, answer = opening(client, new_scram), None
    with suppress(StopIteration):
        while True:
            answer = await ask(steps.send(answer))
"""

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, TypeAlias

from chiplog_wire.client.connection import ClientConnection
from chiplog_wire.client.errors import OpeningRefused
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.scram import ScramClient

# Every broker supports this version of ApiVersions, which is sent before its versions are known.
API_VERSIONS_VERSION: Final = 0
HANDSHAKE_VERSION: Final = 1


class OpeningRequest(NamedTuple):
    """One request, as kio's message of that version."""

    key: ApiKey
    version: int
    message: Any


Opening: TypeAlias = Generator[OpeningRequest, Any, None]


def opening(client: ClientConnection, new_scram: Callable[[], ScramClient] | None) -> Opening:
    """Request the broker's versions, and log in unless `new_scram` is None.

    `new_scram` is called when the login starts.

    Raises `OpeningRefused`, `NoCommonVersion`, and `AuthenticationFailed` if the broker does not
    prove that it knows the password.
    """
    yield from learn_versions(client)
    if new_scram is not None:
        yield from log_in(client, new_scram())


def learn_versions(client: ClientConnection) -> Opening:
    """Request the broker's API versions, and store them in `client.versions`."""
    answer = yield from _request(ApiKey.API_VERSIONS, API_VERSIONS_VERSION)
    client.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def log_in(client: ClientConnection, scram: ScramClient) -> Opening:
    """Choose the SASL mechanism, exchange its two pairs of messages, and verify the broker."""
    yield from _request(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, mechanism=scram.mechanism.value)
    version = client.common_version(ApiKey.SASL_AUTHENTICATE)
    first = yield from _request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=scram.first())
    proof = scram.final(bytes(first.auth_bytes))
    final = yield from _request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=proof)
    scram.verify(bytes(final.auth_bytes))


def _request(key: ApiKey, version: int, **values: Any) -> Generator[OpeningRequest, Any, Any]:
    """Yield a request with these fields, and return its answer. Raises `OpeningRefused`."""
    from chiplog_wire.protocol.codec import schema  # noqa: PLC0415 - kio, with the first connection

    answer = yield OpeningRequest(key, version, schema.request_class(key, version)(**values))
    if answer.error_code:
        raise OpeningRefused(key, answer.error_code)
    return answer
