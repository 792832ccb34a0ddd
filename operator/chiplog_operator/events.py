"""Kubernetes Events: what people see below `kubectl describe`."""

from datetime import UTC, datetime
from typing import Protocol

from chiplog_core.model.actions import Announce
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Manifest

MAX_MESSAGE_LENGTH = 1024
MAX_STEM_LENGTH = 200


class Announcer(Protocol):
    """Creates Events."""

    async def announce(self, announce: Announce, /) -> None:
        """Create an Event. If that fails, it is logged and nothing is raised."""


def event(announce: Announce, now: datetime, instance: str) -> Manifest:
    """The Event as a manifest. `instance` is the operator process. The API server completes the
    name, and limits the lengths of texts."""
    meta = announce.metadata
    moment = now.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": kinds.EVENTS.api_version,
        "kind": kinds.EVENTS.kind,
        "metadata": {
            "generateName": f"{meta.name[:MAX_STEM_LENGTH]}.",
            "namespace": meta.namespace or "default",
        },
        "involvedObject": {
            "apiVersion": announce.api_version,
            "kind": announce.kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
        "type": announce.type.value,
        "reason": announce.reason,
        "message": announce.message[:MAX_MESSAGE_LENGTH],
        "source": {"component": labels.OPERATOR},
        "reportingComponent": labels.OPERATOR,
        "reportingInstance": instance[:128],
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
