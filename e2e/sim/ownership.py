"""Field managers: which manager owns which field, and which fields a server-side apply removes.

It follows Kubernetes, but a list is a single value; only each finalizer is a field. A field is a
path of names, and objects that contain fields are fields, too. A manager that changes a field
becomes its only owner; one that applies the present value becomes an additional owner.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from chiplog_kube.api import Manifest
from chiplog_kube.manifests import metadata

Path = tuple[str, ...]
"""Names from the root of an object to a field."""
UNOWNED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
OWNED_METADATA: Final = ("annotations", "finalizers", "labels", "ownerReferences")


class Owner(NamedTuple):
    """A field manager; its applies and its other writes count as two owners, as in Kubernetes."""

    manager: str
    applies: bool = False


Owned = Mapping[Owner, frozenset[Path]]
NOBODY: Final[Owned] = {}


class Applied(NamedTuple):
    """An object after an apply, and the owners of its fields."""

    manifest: Manifest
    owned: Owned


def changed(owned: Owned, manager: str, before: Manifest, after: Manifest) -> Owned:
    """The owners after `manager` changed an object from `before` to `after`, without apply."""
    return _owned_after_change(owned, Owner(manager), _fields(before), _fields(after))


def applied(
    owned: Owned, manager: str, before: Manifest, merged: Manifest, given: Manifest
) -> Applied:
    """The object and its owners after `manager` applied `given` with force.

    `merged` is `given` merged into the object `before`; fields that the manager applied earlier,
    and that are in nobody's manifest now, are removed from it.
    """
    me = Owner(manager, applies=True)
    wanted = frozenset(_fields(given))
    others = frozenset[Path]().union(*(paths for one, paths in owned.items() if one != me))
    kept = metadata(before).get("finalizers") or []
    if (added := metadata(given).get("finalizers")) is not None:
        metadata(merged)["finalizers"] = [*kept, *(one for one in added if one not in kept)]
    # The deepest fields first: an object is only removed when no fields are left in it.
    for path in sorted(owned.get(me, frozenset()) - wanted - others, key=len, reverse=True):
        _remove(merged, path)
    taken = _owned_after_change(owned, me, _fields(before), _fields(merged))
    return Applied(merged, {**taken, me: wanted})


def as_applied(owned: Owned, manager: str) -> Owned:
    """The owners, with all fields that `manager` wrote counted as applied by it.

    `HttpKubeApi.apply` makes the real server do this after each apply.
    """
    me, otherwise = Owner(manager, applies=True), Owner(manager)
    if otherwise not in owned:
        return owned
    left = {one: paths for one, paths in owned.items() if one not in {me, otherwise}}
    return {**left, me: owned.get(me, frozenset()) | owned[otherwise]}


def _owned_after_change(
    owned: Owned, me: Owner, before: Mapping[Path, object], after: Mapping[Path, object]
) -> Owned:
    """The owners after `me` changed fields: it alone owns new and changed ones, none the removed.

    `before` and `after` are path -> value.
    """
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
    """Path -> value of each field that can have an owner."""
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
    """(path, value) of the field at `path` and all fields in it; objects have the value None."""
    if isinstance(value, Mapping):
        yield path, None
        for name, inner in value.items():
            yield from _below((*path, name), inner)
    else:
        yield path, value


def _remove(manifest: Manifest, path: Path) -> None:
    """Remove the field at `path`, unless it is an object that still contains other fields."""
    parent: Any = manifest
    for name in path[:-1]:
        parent = parent.get(name) if isinstance(parent, dict) else None
    if isinstance(parent, list) and path[-1] in parent:
        parent.remove(path[-1])
    elif isinstance(parent, dict) and not (
        isinstance(parent.get(path[-1]), dict) and parent[path[-1]]
    ):
        parent.pop(path[-1], None)
