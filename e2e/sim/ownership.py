"""Who wrote which field of an object, and what a server-side apply takes away.

As Kubernetes' field managers, for objects without lists that several share: a list is one value,
but for the finalizers, each of which is a field. A field is a path; parents are fields, too.
A manager that changes a field owns it alone from then on; one that applies a value that is there
already owns it with the others.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from chiplog_kube.api import Manifest
from chiplog_kube.manifests import metadata

Path = tuple[str, ...]
UNOWNED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
OWNED_METADATA: Final = ("annotations", "finalizers", "labels", "ownerReferences")


class Owner(NamedTuple):
    """A manager's applies and its other writes count as those of two."""

    manager: str
    applies: bool = False


Owned = Mapping[Owner, frozenset[Path]]
NOBODY: Final[Owned] = {}


class Applied(NamedTuple):
    """What an apply makes of an object."""

    manifest: Manifest
    owned: Owned


def changed(owned: Owned, manager: str, before: Manifest, after: Manifest) -> Owned:
    """After a write other than apply."""
    return _taken(owned, Owner(manager), _fields(before), _fields(after))


def applied(
    owned: Owned, manager: str, before: Manifest, merged: Manifest, given: Manifest
) -> Applied:
    """After an apply by force; `merged` is `given` merged into what was there `before`."""
    me = Owner(manager, applies=True)
    wanted = frozenset(_fields(given))
    others = frozenset[Path]().union(*(paths for one, paths in owned.items() if one != me))
    kept = metadata(before).get("finalizers") or []
    if (added := metadata(given).get("finalizers")) is not None:
        metadata(merged)["finalizers"] = [*kept, *(one for one in added if one not in kept)]
    for path in sorted(owned.get(me, frozenset()) - wanted - others, key=len, reverse=True):
        _remove(merged, path)
    taken = _taken(owned, me, _fields(before), _fields(merged))
    return Applied(merged, {**taken, me: wanted})


def as_applied(owned: Owned, manager: str) -> Owned:
    """The same, with all fields that `manager` wrote counted as applied by it, as
    `HttpKubeApi.apply` asks of the real server after each apply."""
    me, otherwise = Owner(manager, applies=True), Owner(manager)
    if otherwise not in owned:
        return owned
    left = {one: paths for one, paths in owned.items() if one not in {me, otherwise}}
    return {**left, me: owned.get(me, frozenset()) | owned[otherwise]}


def _taken(
    owned: Owned, me: Owner, before: Mapping[Path, object], after: Mapping[Path, object]
) -> Owned:
    new = frozenset(
        path for path, value in after.items() if path not in before or before[path] != value
    )
    gone = before.keys() - after.keys()
    if not new and not gone:
        return owned
    left = {one: paths - new - gone for one, paths in owned.items()}
    left[me] = left.get(me, frozenset()) | new
    return {one: paths for one, paths in left.items() if paths}


def _fields(manifest: Manifest) -> dict[Path, object]:
    """Path -> value of each leaf field."""
    found: dict[Path, object] = {}
    for name, value in manifest.items():
        if name not in UNOWNED:
            found.update(_below((name,), value))
    meta = metadata(manifest)
    for name in OWNED_METADATA:
        if name == "finalizers":
            found.update({("metadata", name, one): None for one in meta.get(name) or ()})
        elif name in meta:
            found.update(_below(("metadata", name), meta[name]))
    return found


def _below(path: Path, value: Any) -> Iterator[tuple[Path, object]]:
    if isinstance(value, Mapping):
        yield path, None
        for name, inner in value.items():
            yield from _below((*path, name), inner)
    else:
        yield path, value


def _remove(manifest: Manifest, path: Path) -> None:
    """Unless there are fields of others in it."""
    parent: Any = manifest
    for name in path[:-1]:
        parent = parent.get(name) if isinstance(parent, dict) else None
    if isinstance(parent, list) and path[-1] in parent:
        parent.remove(path[-1])
    elif isinstance(parent, dict) and not (
        isinstance(parent.get(path[-1]), dict) and parent[path[-1]]
    ):
        parent.pop(path[-1], None)
