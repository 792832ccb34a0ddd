"""Problems with the input of users, in a form that can be shown to them.

Validation returns all problems instead of raising the first one, so that a user who made three
mistakes sees all three. Every problem names the field and the remedy.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The reason of a condition that reports a problem. Strimzi uses the same words."""

    INVALID_CONFIG = "InvalidConfig"
    """The input can never work as written."""

    NOT_SUPPORTED = "NotSupported"
    """The input could work, but this version of Chiplog does not support it."""

    RESOURCE_CONFLICT = "ResourceConflict"
    """Another object already uses the same name or resource."""

    NOT_ALLOWED = "NotAllowed"
    """It would work, but this user or namespace is not allowed to have it."""

    POLICY_VIOLATION = "PolicyViolation"
    """It would work, but the cluster's spec.topicPolicies do not allow it."""

    KAFKA_ERROR = "KafkaError"
    """A broker answered with an error."""

    INTERNAL_ERROR = "InternalError"
    """A bug of Chiplog itself."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where it is, and what to do about it."""

    field: str
    """The path of the field in the manifest, like `spec.partitions`."""

    message: str
    """What is wrong, as the continuation of the field's name: "is 0, below the minimum of 1"."""

    remedy: str
    """What to write or do instead: "set it to 1 or more"."""

    reason: Reason = Reason.INVALID_CONFIG

    def __str__(self) -> str:
        return f"{self.field} {self.message}: {self.remedy}"


class InvalidManifest(ValueError):  # noqa: N818 - named for what it says, not for being raised
    """A manifest cannot be parsed. The exception has all problems that were found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` that is most similar to a misspelled `word`; None if none is similar."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.75)
    return close[0] if close else None
