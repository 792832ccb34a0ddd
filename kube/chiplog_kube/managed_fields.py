"""Fields of an object that was created, owned as those of one that was applied.

Server-side apply takes away what its manager applied before and does not any more. What the same
manager wrote by a create counts as another manager's, so it would stay for ever:
https://kubernetes.io/docs/reference/using-api/server-side-apply/#upgrading-from-client-side-apply-to-server-side-apply
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Entry: TypeAlias = Mapping[str, Any]
"""One of `metadata.managedFields`."""


def as_applied(entries: Sequence[Entry], manager: str) -> list[Entry] | None:
    """The entries of `metadata.managedFields`, with all fields that the manager wrote recorded as
    applied. None if they already are."""
    written = [entry for entry in entries if _is_of(entry, manager, "Update")]
    if not written:
        return None
    applied = [entry for entry in entries if _is_of(entry, manager, "Apply")]
    others = [entry for entry in entries if entry not in written and entry not in applied]
    fields: Mapping[str, Any] = {}
    for entry in (*applied, *written):
        fields = _union(fields, entry.get("fieldsV1") or {})
    newest = (applied or written)[-1]
    return [*others, {**newest, "operation": "Apply", "fieldsV1": fields}]


def _is_of(entry: Entry, manager: str, operation: str) -> bool:
    """Whether the manager wrote the entry with this operation, and not to a subresource."""
    is_mine = entry.get("manager") == manager and entry.get("operation") == operation
    return is_mine and not entry.get("subresource")


def _union(entry: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The union of two trees of fields (`fieldsV1`)."""
    both = {name: _union(entry[name], other[name]) for name in entry.keys() & other.keys()}
    return {**entry, **other, **both}
