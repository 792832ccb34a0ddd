"""Validation rules in CEL, the language the API server evaluates when an object is written.

A message names the field and the remedy. Rules that look at `oldSelf` compare with the object
before the change and are skipped when it is made.
"""

from dataclasses import dataclass
from enum import StrEnum


class RuleReason(StrEnum):
    """The reasons of a refusal that the API server shows together with the rule's message.

    A fourth one, FieldValueDuplicate, is not used, because the API server hides the message then.
    """

    INVALID = "FieldValueInvalid"
    FORBIDDEN = "FieldValueForbidden"
    REQUIRED = "FieldValueRequired"


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL expression that must be true, and the message if it is false."""

    rule: str
    message: str
    field: str | None = None
    """The field that the error names, relative to the field that has the rule, like
    `.partitions`."""

    reason: RuleReason = RuleReason.INVALID
    message_expression: str | None = None
    """A CEL expression for a message with values; `message` is used if its evaluation fails."""

    def to_manifest(self) -> dict[str, str]:
        """The rule as an entry of `x-kubernetes-validations`. The default reason is left out."""
        manifest = {"rule": self.rule, "message": self.message}
        if self.message_expression is not None:
            manifest["messageExpression"] = self.message_expression
        if self.reason is not RuleReason.INVALID:
            manifest["reason"] = self.reason.value
        if self.field is not None:
            manifest["fieldPath"] = self.field
        return manifest


def optional(path: str, condition: str) -> str:
    """The CEL expression that a field is not set, or else a condition holds. Every object on the
    `path` to the field, which begins with `self`, may be absent."""
    parts = path.split(".")
    absent = [f"!has({'.'.join(parts[:end])})" for end in range(2, len(parts) + 1)]
    return " || ".join([*absent, condition])


def unchanged(path: str) -> str:
    """The CEL expression that the field at `path` has not changed, whether it is set or not."""
    old = path.replace("self", "oldSelf", 1)
    return f"has({path}) == has({old}) && (!has({path}) || {path} == {old})"
