"""The errors of requests, and Kafka's names for them.

`ErrorCode` is kio's enumeration, which is generated from Kafka's list; other modules import it from
here.
"""

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "ProtocolViolation"]


class ProtocolViolation(Exception):  # noqa: N818 - a name for what the peer did
    """The peer violated the protocol; its connection must be closed without an answer.

    Kafka does the same: nothing after a malformed frame can be trusted. The message never contains
    bytes of the peer, so it may be logged.
    """
