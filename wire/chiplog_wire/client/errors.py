"""Errors of a client whose broker sends valid messages, but cannot be used."""

from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode


class ClientError(Exception):
    """The broker can be reached, but not be used."""


class NoCommonVersion(ClientError):  # noqa: N818 - a name for what happened
    """The broker supports no version of an API that this client supports."""

    def __init__(self, key: ApiKey, spoken: tuple[int, int] | None) -> None:
        """`spoken` are the broker's lowest and highest version; None if it does not have the
        API."""
        has = "does not have this API" if spoken is None else f"has {spoken[0]} to {spoken[1]}"
        super().__init__(f"no common version of {APIS[key].name}: the broker {has}")
        self.key = key
        self.spoken = spoken


class OpeningRefused(ClientError):  # noqa: N818
    """The broker answered a request of the opening (API versions or login) with an error."""

    def __init__(self, key: ApiKey, code: ErrorCode) -> None:
        super().__init__(f"the broker answered {APIS[key].name} with the error {code.name}")
        self.key = key
        self.code = code
