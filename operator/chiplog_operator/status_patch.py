"""The merge patch that makes an object's status exactly what it should be."""

from collections.abc import Mapping
from typing import Any

from chiplog_core.manifest.writing import write
from chiplog_core.model.actions import Report
from chiplog_operator.writes import same_version


def status_patch(report: Report, current: Mapping[str, Any]) -> dict[str, Any] | None:
    """The patch of the status subresource; None if the status needs no change.

    A merge patch keeps fields that it does not name, so it sets fields to be removed to null. The
    resource version makes it a compare-and-set: a status is never written to a newer object.
    """
    difference = _difference(current, write(report.status))
    if not difference:
        return None
    return {"metadata": same_version(report.metadata), "status": difference}


def _difference(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that turns `current` into `wanted`."""
    patch: dict[str, Any] = {name: None for name in current if name not in wanted}
    for name, value in wanted.items():
        before = current.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := _difference(before, value):
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch
