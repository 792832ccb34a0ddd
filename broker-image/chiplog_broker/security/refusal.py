"""Why a change of ACLs or users was not made."""

from typing import NamedTuple

from chiplog_wire.protocol.errors import ErrorCode


class Refusal(NamedTuple):
    """The error for the client."""

    code: ErrorCode
    why: str
