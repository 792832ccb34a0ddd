"""From Kopf's events into the caches.

A cache notifies the loop of the object's cluster that there is something to reconcile. No handler
decides, waits or writes: what Kopf missed or says twice changes nothing.
"""

import json

import kopf

from chiplog_kube.kinds import Kind
from chiplog_operator.caches import JOB_KINDS, USER_KINDS, Caches


def register(registry: kopf.OperatorRegistry, caches: Caches) -> None:
    """Register handlers for every change of users' objects."""
    for kind in (*USER_KINDS, *JOB_KINDS):
        _register(registry, caches, kind)


def _register(registry: kopf.OperatorRegistry, caches: Caches, kind: Kind) -> None:
    """Register the handler of one kind."""

    @kopf.on.event(kind.api_version, kind.plural, registry=registry, id=kind.plural)
    async def on_event(event: kopf.RawEvent, **_: object) -> None:
        """Put the object of the watch event into the cache."""
        take(caches, kind, event)


def take(caches: Caches, kind: Kind, event: kopf.RawEvent) -> None:
    """Store the state of an object in its cache, or remove it after its deletion. Kopf keeps the
    object of the event and may change it, so the cache gets a copy."""
    manifest = json.loads(json.dumps(event["object"]))
    if event["type"] == "DELETED":
        caches[kind].remove(manifest)
    else:
        caches[kind].put(manifest)
