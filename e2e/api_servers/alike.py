"""Whether what two API servers say is the same, but for what each chooses by itself.

A server chooses uids, resource versions and times. Uids are the same where each always stands
for one and the same other; versions, where besides both sides have them in the same order.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Final

from chiplog_kube.api import Manifest, ObjectList, WatchEvent

MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MOMENTS: Final = ("creationTimestamp", "deletionTimestamp")


class Differ(AssertionError):  # noqa: N818 - named for what it says
    """The two servers are not alike."""


class Names:
    """Which uid and which version of one side is which of the other's."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}
        self._real_uids: dict[str, str] = {}
        self._versions: list[tuple[int, int]] = []
        """(real, simulated), in order."""

    def uid(self, real: str, simulated: str) -> None:
        if not real or not simulated:
            raise Differ(f"a uid is missing: {real!r}, simulated {simulated!r}")
        if self.uids.setdefault(real, simulated) != simulated:
            raise Differ(f"uid {simulated} is not that of the object before: {self.uids[real]}")
        if self._real_uids.setdefault(simulated, real) != real:
            raise Differ(f"uid {simulated} stays, the real one does not")

    def version(self, real: str, simulated: str) -> None:
        new = int(real), int(simulated)
        at = bisect_left(self._versions, new)
        if self._versions[at : at + 1] == [new]:
            return
        for before in self._versions[max(at - 1, 0) : at]:
            if not (before[0] < new[0] and before[1] < new[1]):
                raise Differ(f"versions {before} and then {new}")
        for after in self._versions[at : at + 1]:
            if not (new[0] < after[0] and new[1] < after[1]):
                raise Differ(f"versions {new} and then {after}")
        self._versions.insert(at, new)

    def newest(self) -> tuple[int, int]:
        return self._versions[-1] if self._versions else (0, 0)


def agree(names: Names, real: object, simulated: object) -> None:
    """Raises `Differ`."""
    match real, simulated:
        case ObjectList(), ObjectList():
            agree_on_lists(names, real, simulated)
        case WatchEvent(), WatchEvent():
            if real.type is not simulated.type:
                raise Differ(f"{real.type}, simulated {simulated.type}")
            agree_on_manifests(names, real.object, simulated.object)
        case dict(), dict():
            agree_on_manifests(names, real, simulated)
        case _:
            if real != simulated:
                raise Differ(f"{real!r}, simulated {simulated!r}")


def agree_on_lists(names: Names, real: ObjectList, simulated: ObjectList) -> None:
    if len(real.items) != len(simulated.items):
        raise Differ(f"{len(real.items)} items, simulated {len(simulated.items)}")
    for one, other in zip(real.items, simulated.items, strict=True):
        agree_on_manifests(names, one, other)
    # The real version counts what is written in other namespaces, too.
    newest = names.newest()
    versions = int(real.resource_version), int(simulated.resource_version)
    if versions[0] < newest[0] or versions[1] < newest[1]:
        raise Differ(f"a list of version {versions} after {newest}")


def agree_on_manifests(names: Names, real: Manifest, simulated: Manifest) -> None:
    one, other = plain(real), plain(simulated)
    if one != other:
        raise Differ(f"{difference(one, other)}")
    mine, others = real.get("metadata", {}), simulated.get("metadata", {})
    names.uid(mine.get("uid", ""), others.get("uid", ""))
    if ("resourceVersion" in mine) != ("resourceVersion" in others):
        raise Differ(f"version {mine.get('resourceVersion')}, {others.get('resourceVersion')}")
    if "resourceVersion" in mine:
        names.version(mine["resourceVersion"], others["resourceVersion"])


def plain(manifest: Manifest) -> dict[str, Any]:
    """Without what a server chooses."""
    meta = dict(manifest.get("metadata", {}))
    # Bookkeeping that nobody reads.
    for name in ("managedFields", "uid", "resourceVersion"):
        meta.pop(name, None)
    for name in MOMENTS:
        if MOMENT.fullmatch(meta.get(name, "")):
            meta[name] = "a moment"
    return {**manifest, "metadata": meta}


def difference(one: Any, other: Any, path: str = "") -> str:
    """Where they first differ."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return f"{path}: {one!r}, simulated {other!r}"
    for name in sorted({*one, *other}):
        if name not in one or name not in other or one[name] != other[name]:
            return difference(one.get(name, "absent"), other.get(name, "absent"), f"{path}.{name}")
    return ""
