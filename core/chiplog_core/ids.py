"""The identifiers of the field, as types, so that no two of them can be mixed up.

A broker id is not a session, an epoch is not an offset. Where a value has its own text form
(a topic id, a replica's session) the class reads and prints that form and nothing else does.

Invariants: every value here fits the width Kafka gives it on the wire, and a `TopicId` is never
one of the ids Kafka reserves.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NewType, Self
from uuid import UUID

BrokerId = NewType("BrokerId", int)
"""A broker's number, counted from 1. It takes 15 bits of every producer id."""

Session = NewType("Session", int)
"""Counts the admissions of one broker's processes; 0 is a broker that was never admitted."""

PartitionIndex = NewType("PartitionIndex", int)
"""A partition's number in its topic, counted from 0."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the leaderships over a partition: raised with every change of leader or leader's
session."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Counts every change of a partition's entry in its map, answers to refused proposals included."""

Offset = NewType("Offset", int)
"""The position of a record in a partition."""

Incarnation = NewType("Incarnation", str)
"""The random name one broker process gives itself at start: 32 lower-case hex digits."""

MAX_INT32 = 2**31 - 1
MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1

MAX_BROKER_ID = 2**15 - 1
MAX_SESSION = 2**20 - 1
"""A session takes 20 bits of every producer id, beside the broker id and a counter of 28 bits."""

INCARNATION_PATTERN = "[0-9a-f]{32}"

NEVER_ADMITTED = Session(0)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaRef:
    """A broker in one of its sessions: what a leader and every member of an ISR is named by.

    Written `3@17`: broker 3 in its session 17. A process of broker 3 with another session is
    another `ReplicaRef`, so a twin that wakes from a pause matches nothing.
    """

    broker_id: BrokerId
    session: Session

    TEXT_PATTERN: ClassVar[str] = "[1-9][0-9]{0,4}@[1-9][0-9]{0,6}"
    MEANING: ClassVar[str] = "a broker id, '@' and a session, like 3@17"
    MAX_TEXT_LENGTH: ClassVar[int] = 13

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse `3@17`. A `ValueError` says what a replica reference looks like."""
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

    The last character stands for two bits only, so several texts would decode to one value;
    only the one Kafka prints is accepted, which keeps text and value one to one.
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
        """Parse the 22 characters. A `ValueError` says what is wrong with them."""
        if not re.fullmatch(cls.TEXT_PATTERN, text):
            raise ValueError(f"{text!r} is not {cls.MEANING}")
        return cls(binascii.a2b_base64(text.translate(_FROM_URL_SAFE) + "=="))

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.value).decode("ascii").rstrip("=")


_FROM_URL_SAFE = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True, order=True)
class TopicId(Uuid):
    """The identity of one topic's data: a deleted and re-created name has another one.

    Kafka reserves two values, zero for "no id" and one for its own metadata topic; neither can
    be a topic here.
    """

    def __post_init__(self) -> None:
        Uuid.__post_init__(self)
        if int.from_bytes(self.value, "big") <= 1:
            raise ValueError(f"{self} is reserved by Kafka and is never a topic's id")

    @classmethod
    def draw(cls, token: Callable[[int], bytes]) -> Self:
        """A new random id. `token` returns that many unpredictable bytes.

        Like Kafka's, it is a UUID of version 4 whose text does not begin with '-', which command
        lines would read as an option.
        """
        while True:
            drawn = cls(UUID(bytes=token(16), version=4).bytes)
            if not str(drawn).startswith("-"):
                return drawn


@dataclass(frozen=True, slots=True, order=True)
class StorageUuid(Uuid):
    """The identity of one data directory, kept in its `meta.properties` as `directory.id`.

    A broker that comes back with another one has lost its disk, whatever its name says.
    """
