"""Errors of an exchange with a broker whose messages are valid."""

from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode


class ClientError(Exception):
    """The broker can be reached, but not be used."""


class NoCommonVersion(ClientError):  # noqa: N818 - a name for what happened
    """The broker supports no version of an API that this client supports."""

    def __init__(self, key: ApiKey, spoken: tuple[int, int] | None) -> None:
        """`spoken` is the broker's lowest and highest version; None where it has none."""
        super().__init__(f"no common version of {APIS[key].name}")
        self.key = key
        self.spoken = spoken


class OpeningRefused(ClientError):  # noqa: N818
    """The broker answered with an error before the first real request."""

    def __init__(self, key: ApiKey, code: ErrorCode) -> None:
        super().__init__(f"{APIS[key].name} was answered with {code.name}")
        self.key = key
        self.code = code
