"""The Secrets that a node's kubelet mounts into its pod: as files on the machine's own disk.

OpenSSL reads certificates by the names of files, so these are the only files of a simulation.
"""

import base64
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from chiplog_broker.metadata.listeners import Listener
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from e2e.sim.api_store import ApiStore

SYNC_S: Final = (1.0, 12.0)
"""A kubelet looks after each such time whether a mounted Secret has changed; a real one takes a
minute or more."""


class Mounts:
    """The mounted Secrets of one pod."""

    def __init__(
        self,
        root: Path,
        store: ApiStore,
        namespace: str,
        chance: random.Random,
        changed: Callable[[str, bytes], None],
    ) -> None:
        """`changed` is called with the path in the pod and the content of each written file."""
        self._root = root
        self._store = store
        self._namespace = namespace
        self._chance = chance
        self._changed = changed
        self._template: Manifest = {}
        self._written: dict[str, bytes] = {}
        self._due_s = 0.0

    def use(self, template: Manifest) -> None:
        """From now on the pod has the volumes of this template."""
        self._template = template
        self._written = {}

    def are_complete(self) -> bool:
        """Whether all Secrets exist that a new container needs; then the files are written."""
        if any(one is None for _, one in self._files()):
            return False
        self.sync()
        return True

    def sync_if_due(self, now_s: float) -> None:
        """Write changed files, if it is time for that."""
        if now_s >= self._due_s:
            self._due_s = now_s + self._chance.uniform(*SYNC_S)
            self.sync()

    def sync(self) -> None:
        """Write the files that have changed. A Secret that is gone changes nothing."""
        for path, content in self._files():
            if content is None or self._written.get(path) == content:
                continue
            file = self._placed(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            self._written[path] = content
            self._changed(path, content)

    def placed(self, listener: Listener) -> Listener:
        """The listener with the files of its certificates where they are on this machine."""
        if listener.tls is None:
            return listener
        truststore = listener.tls.truststore
        tls = replace(
            listener.tls,
            keystore=self._placed(str(listener.tls.keystore)),
            truststore=None if truststore is None else self._placed(str(truststore)),
        )
        return replace(listener, tls=tls)

    def _placed(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _files(self) -> Iterator[tuple[str, bytes | None]]:
        """(path in the pod, content) of each entry of a Secret; None if there is none."""
        spec = self._template.get("spec", {})
        paths = {
            one["name"]: one["mountPath"]
            for container in spec.get("containers", ())
            for one in container.get("volumeMounts", ())
        }
        for volume in spec.get("volumes", ()):
            source: Mapping[str, Any] = volume.get("secret") or {}
            if volume["name"] not in paths or not source.get("items"):
                continue
            secret = self._store.peek(kinds.SECRETS, self._namespace, source["secretName"])
            data = (secret or {}).get("data") or {}
            for item in source["items"]:
                encoded = data.get(item["key"])
                content = None if encoded is None else base64.b64decode(encoded)
                yield f"{paths[volume['name']]}/{item['path']}", content
