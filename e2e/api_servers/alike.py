"""Compares the answers of two API servers, apart from what each server chooses itself.

A server chooses uids, resource versions and times. Uids agree if each uid of one server always
corresponds to the same uid of the other. Resource versions agree if they do so, and are in the same
order on both servers.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Final

from chiplog_kube.api import Manifest, ObjectList, WatchEvent

MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MOMENTS: Final = ("creationTimestamp", "deletionTimestamp")


class Differ(AssertionError):  # noqa: N818 - named for what it says
    """The two servers gave different answers."""


class Names:
    """The known pairs of corresponding uids and of resource versions of the two servers."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}
        """Real uid -> simulated uid."""
        self._real_uids: dict[str, str] = {}
        """Simulated uid -> real uid."""
        self._versions: list[tuple[int, int]] = []
        """Sorted pairs (real, simulated)."""

    def uid(self, real: str, simulated: str) -> None:
        """Note two corresponding uids; raises `Differ` if one is known with another partner."""
        if not real or not simulated:
            raise Differ(f"a uid is missing: real {real!r}, simulated {simulated!r}")
        if self.uids.setdefault(real, simulated) != simulated:
            raise Differ(
                f"the real uid stayed, the simulated one changed: {self.uids[real]} to {simulated}"
            )
        if self._real_uids.setdefault(simulated, real) != real:
            raise Differ(f"the simulated uid {simulated} stayed, the real one changed")

    def version(self, real: str, simulated: str) -> None:
        """Note two corresponding resource versions; raises `Differ` if their order differs."""
        new = int(real), int(simulated)
        at = bisect_left(self._versions, new)
        if self._versions[at : at + 1] == [new]:
            return
        for before in self._versions[max(at - 1, 0) : at]:
            if not (before[0] < new[0] and before[1] < new[1]):
                raise Differ(f"versions (real, simulated) {before} and {new} are not in one order")
        for after in self._versions[at : at + 1]:
            if not (new[0] < after[0] and new[1] < after[1]):
                raise Differ(f"versions (real, simulated) {new} and {after} are not in one order")
        self._versions.insert(at, new)

    def newest(self) -> tuple[int, int]:
        """The highest known versions (real, simulated)."""
        return self._versions[-1] if self._versions else (0, 0)


def agree(names: Names, real: object, simulated: object) -> None:
    """Compare two answers: lists, watch events, objects or other values. Raises `Differ`."""
    match real, simulated:
        case ObjectList(), ObjectList():
            agree_on_lists(names, real, simulated)
        case WatchEvent(), WatchEvent():
            if real.type is not simulated.type:
                raise Differ(f"event type: real {real.type}, simulated {simulated.type}")
            agree_on_manifests(names, real.object, simulated.object)
        case dict(), dict():
            agree_on_manifests(names, real, simulated)
        case _:
            if real != simulated:
                raise Differ(f"real {real!r}, simulated {simulated!r}")


def agree_on_lists(names: Names, real: ObjectList, simulated: ObjectList) -> None:
    """Compare the items of two lists pairwise, and the lists' versions. Raises `Differ`."""
    if len(real.items) != len(simulated.items):
        raise Differ(f"list: real {len(real.items)} items, simulated {len(simulated.items)}")
    for one, other in zip(real.items, simulated.items, strict=True):
        agree_on_manifests(names, one, other)
    # No pair is noted: on the real server writes to other namespaces raise a list's version, too.
    newest = names.newest()
    versions = int(real.resource_version), int(simulated.resource_version)
    if versions[0] < newest[0] or versions[1] < newest[1]:
        raise Differ(f"a list has the versions {versions}, older than those of an object: {newest}")


def agree_on_manifests(names: Names, real: Manifest, simulated: Manifest) -> None:
    """Compare two objects; their uids and versions must correspond, not be equal.

    Raises `Differ`.
    """
    one, other = plain(real), plain(simulated)
    if one != other:
        raise Differ(difference(one, other))
    mine, others = real.get("metadata", {}), simulated.get("metadata", {})
    names.uid(mine.get("uid", ""), others.get("uid", ""))
    if ("resourceVersion" in mine) != ("resourceVersion" in others):
        raise Differ(f"version {mine.get('resourceVersion')}, {others.get('resourceVersion')}")
    if "resourceVersion" in mine:
        names.version(mine["resourceVersion"], others["resourceVersion"])


def plain(manifest: Manifest) -> dict[str, Any]:
    """The manifest without what a server chooses: uid, resource version, exact times."""
    meta = dict(manifest.get("metadata", {}))
    # managedFields are not compared: nothing reads them.
    for name in ("managedFields", "uid", "resourceVersion"):
        meta.pop(name, None)
    for name in MOMENTS:
        if MOMENT.fullmatch(meta.get(name, "")):
            meta[name] = "a moment"
    return {**manifest, "metadata": meta}


def difference(one: Any, other: Any, path: str = "") -> str:
    """The path and the two values of the first difference; "" if they are equal."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return f"{path}: real {one!r}, simulated {other!r}"
    for name in sorted({*one, *other}):
        if name not in one or name not in other or one[name] != other[name]:
            return difference(one.get(name, "absent"), other.get(name, "absent"), f"{path}.{name}")
    return ""
