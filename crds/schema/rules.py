"""Validation rules in CEL, the language the API server evaluates when an object is written.

A message names the field and the remedy. Rules that look at `oldSelf` compare with the object
before the change and are skipped when it is made.
"""

from dataclasses import dataclass
from enum import StrEnum


class RuleReason(StrEnum):
    """The kinds of refusal that the API server knows and shows with the rule's message.

    The fourth, FieldValueDuplicate, hides the message and is of no use.
    """

    INVALID = "FieldValueInvalid"
    FORBIDDEN = "FieldValueForbidden"
    REQUIRED = "FieldValueRequired"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what must hold, and what is said if it does not."""

    rule: str
    message: str
    field: str | None = None
    """The field to blame, relative to where the rule stands, like `.partitions`."""

    reason: RuleReason = RuleReason.INVALID
    message_expression: str | None = None
    """CEL for a message with the values in it; `message` is used where it fails."""

    def to_manifest(self) -> dict[str, str]:
        manifest = {"rule": self.rule, "message": self.message}
        if self.message_expression is not None:
            manifest["messageExpression"] = self.message_expression
        if self.reason is not RuleReason.INVALID:
            manifest["reason"] = self.reason.value
        if self.field is not None:
            manifest["fieldPath"] = self.field
        return manifest


def optional(path: str, condition: str) -> str:
    """`condition`, or the field at `path` is not set; every object on the way may be absent."""
    parts = path.split(".")
    absent = [f"!has({'.'.join(parts[:end])})" for end in range(2, len(parts) + 1)]
    return " || ".join([*absent, condition])


def unchanged(path: str) -> str:
    """The field at `path` is what it was, set or not."""
    old = path.replace("self", "oldSelf", 1)
    return f"has({path}) == has({old}) && (!has({path}) || {path} == {old})"
