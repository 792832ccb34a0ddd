"""From Kopf's events into the caches."""

import json
from typing import TYPE_CHECKING

from chiplog_kube.kinds import Kind
from chiplog_operator.caches import Caches

if TYPE_CHECKING:
    import kopf


class Feed:
    """What all handlers do."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def take(self, kind: Kind, event: "kopf.RawEvent") -> None:
        """The object is in this state, or gone. Kopf keeps its own copy, so this is one too."""
        manifest = json.loads(json.dumps(event["object"]))
        if event["type"] == "DELETED":
            self._caches[kind].remove(manifest)
        else:
            self._caches[kind].put(manifest)
