"""The error codes of Kafka's protocol that an admin operation can end with."""

from enum import IntEnum


class Code(IntEnum):
    """Kafka's numbers and names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    SECURITY_DISABLED = 54
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    UNKNOWN_TOPIC_ID = 100


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """The operation cannot be carried out; the client gets the error code and the message."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
