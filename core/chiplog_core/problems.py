"""What is wrong with what a user asked for, in a form that can be shown to them.

Validation returns problems, it does not raise them one by one: a user who made three mistakes
sees three. Every problem names the field and the remedy, because a message without a remedy is
a riddle.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why something is not as desired: the `reason` of a condition, in Strimzi's words."""

    INVALID_CONFIG = "InvalidConfig"
    """What was asked for can never work as written."""

    NOT_SUPPORTED = "NotSupported"
    """It could work, but this version of Chiplog cannot do it."""

    RESOURCE_CONFLICT = "ResourceConflict"
    """Another object has a claim on the same thing."""

    NOT_ALLOWED = "NotAllowed"
    """It would work, but this user may not ask for it."""

    POLICY_VIOLATION = "PolicyViolation"
    """It would work, but the cluster's spec.topicPolicies do not allow it."""

    KAFKA_ERROR = "KafkaError"
    """A broker answered with an error."""

    INTERNAL_ERROR = "InternalError"
    """A fault of Chiplog itself."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where it is, and what to do about it."""

    field: str
    """The path of the field in the manifest, like `spec.partitions`."""

    message: str
    """What is wrong; reads on from the field's name: "is 0, below the minimum of 1"."""

    remedy: str
    """What to write or do instead: "set it to 1 or more"."""

    reason: Reason = Reason.INVALID_CONFIG

    def __str__(self) -> str:
        return f"{self.field} {self.message}: {self.remedy}"


class InvalidManifest(ValueError):  # noqa: N818 - named for what it says, not for being raised
    """A manifest that cannot be read; carries every problem found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a user most likely meant; None if none is similar."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.75)
    return close[0] if close else None
