"""What can be wrong with a request, and the names Kafka has for it.

`ErrorCode` is kio's enumeration, generated from Kafka's own list; it is named here so that
the rest of the broker need not know where it comes from.
"""

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "ProtocolViolation"]


class ProtocolViolation(Exception):  # noqa: N818 - a name for what the peer did
    """The peer broke the protocol; its connection is to be closed without an answer.

    Kafka does the same: nothing after a malformed frame can be trusted. The message never
    holds what the peer sent, so it may be logged.
    """
