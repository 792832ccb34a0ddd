"""Identifiers as types of their own, so that the type checker finds it if two are mixed up.

If an identifier has a text form (a topic id, a broker's session), only its class parses and formats
that form.

Invariants: every value fits into the type that Kafka uses for it on the wire, and a `TopicId` is
never one of the ids that Kafka reserves.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NewType, Self
from uuid import UUID

BrokerId = NewType("BrokerId", int)
"""A broker's number, counted from 1. It is 15 bits of every producer id."""

Session = NewType("Session", int)
"""Number of an admission of one of a broker's processes, counted from 1; 0 for a broker that was
never admitted."""

PartitionIndex = NewType("PartitionIndex", int)
"""A partition's number in its topic, counted from 0."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Number of a leadership of a partition. It is raised with every new leader, and with every new
session of the leader."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Number of the last change of a partition's entry in its PartitionMap, including answers to
refused proposals."""

Offset = NewType("Offset", int)
"""The position of a record in a partition."""

Incarnation = NewType("Incarnation", str)
"""The random name that a broker process gives itself when it starts: 32 lower-case hex digits."""

MAX_INT32 = 2**31 - 1
MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1

MAX_BROKER_ID = 2**15 - 1
MAX_SESSION = 2**20 - 1
"""A session is 20 bits of every producer id, besides the broker id and a counter of 28 bits."""

INCARNATION_PATTERN = "[0-9a-f]{32}"

NEVER_ADMITTED = Session(0)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaRef:
    """A broker in one of its sessions. Leaders and members of ISRs are identified by it.

    Its text form is `3@17`: broker 3 in its session 17. A process of broker 3 with another session
    has another `ReplicaRef`, so an old process that continues after a pause is not taken for the
    present one.
    """

    broker_id: BrokerId
    session: Session

    TEXT_PATTERN: ClassVar[str] = "[1-9][0-9]{0,4}@[1-9][0-9]{0,6}"
    MEANING: ClassVar[str] = "a broker id, '@' and a session, like 3@17"
    MAX_TEXT_LENGTH: ClassVar[int] = 13

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse a text like `3@17`. Raises `ValueError`, which describes the form."""
        if not re.fullmatch(cls.TEXT_PATTERN, text):
            raise ValueError(f"{text!r} is not {cls.MEANING}")
        broker_id, session = text.split("@")
        if int(broker_id) > MAX_BROKER_ID or int(session) > MAX_SESSION:
            raise ValueError(
                f"{text!r} is out of range: broker ids end at {MAX_BROKER_ID}, "
                f"sessions at {MAX_SESSION}"
            )
        return cls(BrokerId(int(broker_id)), Session(int(session)))

    def __str__(self) -> str:
        return f"{self.broker_id}@{self.session}"


@dataclass(frozen=True, slots=True, order=True)
class Uuid:
    """16 bytes in Kafka's text form: URL-safe base64 without its padding, 22 characters.

    The last character encodes only two bits, so several texts would decode to the same value. Only
    the text that Kafka prints is accepted, so that each value has exactly one text.
    """

    value: bytes

    TEXT_PATTERN: ClassVar[str] = "[A-Za-z0-9_-]{21}[AQgw]"
    MEANING: ClassVar[str] = "a Kafka UUID: 22 characters of URL-safe base64"
    MAX_TEXT_LENGTH: ClassVar[int] = 22

    def __post_init__(self) -> None:
        if len(self.value) != 16:
            raise ValueError(f"a UUID has 16 bytes, not {len(self.value)}")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse the 22 characters. Raises `ValueError`, which describes the form."""
        if not re.fullmatch(cls.TEXT_PATTERN, text):
            raise ValueError(f"{text!r} is not {cls.MEANING}")
        return cls(binascii.a2b_base64(text.translate(_FROM_URL_SAFE) + "=="))

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.value).decode("ascii").rstrip("=")


_FROM_URL_SAFE = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True, order=True)
class TopicId(Uuid):
    """The id of a topic. A topic that is deleted and created again with the same name has another
    one.

    Kafka reserves two values: 0 for "no id" and 1 for its own metadata topic.
    """

    def __post_init__(self) -> None:
        Uuid.__post_init__(self)
        if int.from_bytes(self.value, "big") <= 1:
            raise ValueError(f"{self} is reserved by Kafka and is never a topic's id")

    @classmethod
    def draw(cls, token: Callable[[int], bytes]) -> Self:
        """A new random id. `token` returns the given number of unpredictable bytes.

        Like Kafka's, it is a UUID of version 4 whose text does not begin with '-', which command
        lines would read as an option.
        """
        while True:
            drawn = cls(UUID(bytes=token(16), version=4).bytes)
            if not str(drawn).startswith("-"):
                return drawn


@dataclass(frozen=True, slots=True, order=True)
class StorageUuid(Uuid):
    """The id of a data directory, which is `directory.id` in its `meta.properties`.

    A broker that starts with another id has another disk, even if its volume has the same name.
    """
