"""Which other field managers manage a field of a Kubernetes object.

A field that another program sets again and again must not be changed here: the change would be lost
when that program runs next. Two sources show such programs. The API server keeps managedFields: for
each manager a tree (`fieldsV1`) whose branches are `f:<name>` for a field or a key of a map,
`k:<json>`, `v:<json>` and `i:<index>` for items of lists, and `.` for the branch itself. They do
not show a field that was applied with the value that it had already. That is shown by the
annotation in which a client-side `kubectl apply`, and tools like it, store the manifest that they
applied.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from chiplog_core.naming import labels

Path: TypeAlias = tuple[str, ...]
"""A field's names from the top, like `("spec", "config", "retention.ms")`."""

SPEC: Path = ("spec",)
CLUSTER_REF: Path = (*SPEC, "clusterRef")

OURS = frozenset({labels.OPERATOR, labels.KAFKA_ADMIN})
"""The operator's own field managers: for itself, and for changes by Kafka's admin clients."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_APPLIED_LENGTH = 65_536
"""A longer annotation is not parsed: the manifest of a Topic is shorter, and it would be parsed in
every plan."""
CLIENT_SIDE_APPLY = "kubectl-client-side-apply"
"""The field manager under which kubectl writes the annotation `LAST_APPLIED`."""


def foreign_managers(
    managed_fields: object, path: Path, annotations: Mapping[str, str]
) -> tuple[str, ...]:
    """The other field managers that own the field or something inside it, sorted by name.

    The operator and the admin clients do not count, nor do managers of a subresource like the
    status. `managed_fields` is metadata.managedFields as the API server sent it.
    """
    owners = {
        str(entry.get("manager", ""))
        for entry in _without_subresources(managed_fields)
        if _owns(entry.get("fieldsV1"), path)
    }
    if _Applied.of(annotations).has(path):
        owners.add(CLIENT_SIDE_APPLY)
    return tuple(sorted(owners - OURS))


def set_by_clients_only(managed_fields: object, annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The fields of the spec that only Kafka's admin clients set, on an object that somebody else
    created.

    Such fields are in nobody's manifest, so a comparison with the manifest does not show them.
    Empty if an admin client created the object, which is so if nobody else owns its
    `spec.clusterRef`.
    """
    entries = list(_without_subresources(managed_fields))
    of_clients = [entry for entry in entries if entry.get("manager") == labels.KAFKA_ADMIN]
    if not of_clients:
        return ()
    applied, owned_by_others = _Applied.of(annotations), set[Path]()
    for entry in entries:
        if entry.get("manager") not in OURS:
            for leaf in _leaves(entry.get("fieldsV1"), SPEC):
                # Each field above an owned field counts as owned, too.
                owned_by_others.update(leaf[:length] for length in range(1, len(leaf) + 1))

    def is_foreign(path: Path) -> bool:
        return path in owned_by_others or applied.has(path)

    if not is_foreign(CLUSTER_REF):
        return ()
    paths = {path for entry in of_clients for path in _leaves(entry.get("fieldsV1"), SPEC)}
    return tuple(_field(path) for path in sorted(paths) if not is_foreign(path))


def _leaves(fields: object, branch: Path) -> Iterator[Path]:
    """The innermost paths that an entry of managedFields owns below the field `branch`. Items of
    lists are not paths: the list itself is. `fields` is the entry's `fieldsV1`."""
    tree = fields
    for name in branch:
        tree = tree.get(f"f:{name}") if isinstance(tree, Mapping) else None
    inner = [name for name in tree if name.startswith("f:")] if isinstance(tree, Mapping) else []
    if tree is not None and not inner:
        yield branch
    for name in inner:
        yield from _leaves(fields, (*branch, name.removeprefix("f:")))


def _field(path: Path) -> str:
    """The path as messages show it, like `spec.config[retention.ms]`."""
    if path[:2] == (*SPEC, "config") and len(path) > len(SPEC) + 1:
        return f"spec.config[{path[2]}]"
    return ".".join(path)


def _without_subresources(managed_fields: object) -> Iterator[Mapping[str, object]]:
    """The entries of managedFields for the object itself, without those for its subresources."""
    for entry in managed_fields if isinstance(managed_fields, list | tuple) else ():
        if isinstance(entry, Mapping) and not entry.get("subresource"):
            yield entry


def _owns(fields: object, path: Path) -> bool:
    """Whether the `fieldsV1` of an entry of managedFields contains the path. Its keys are field
    names with the prefix `f:`."""
    return _has(fields, tuple(f"f:{name}" for name in path))


@dataclass(frozen=True, slots=True)
class _Applied:
    """The manifest in the annotation of a client-side apply. If it cannot be parsed, every field
    counts as applied."""

    manifest: object = None
    """None if there is no annotation."""
    is_unknown: bool = False
    """Whether there is an annotation that cannot be parsed."""

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> "_Applied":
        """The manifest in kubectl's annotation `last-applied-configuration`."""
        text = annotations.get(LAST_APPLIED)
        if text is None:
            return cls()
        if len(text) > MAX_APPLIED_LENGTH:
            return cls(is_unknown=True)
        try:
            return cls(json.loads(text))
        except (ValueError, RecursionError):
            return cls(is_unknown=True)

    def has(self, path: Path) -> bool:
        """Whether the applied manifest has the path, or cannot be read and so may have it."""
        return self.is_unknown or _has(self.manifest, path)


def _has(tree: object, path: Path) -> bool:
    """Whether the nested mappings have a value other than None at the path."""
    for name in path:
        if not isinstance(tree, Mapping):
            return False
        tree = tree.get(name)
    return tree is not None
