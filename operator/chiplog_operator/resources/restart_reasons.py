"""Which fields of a BrokerCluster's spec ask for a restart of its brokers.

A revision says that something changed, not what. Each field that differs is put into the spec of
before on its own: those that then change the revision are the reason. Each costs the making of a
pod, so what is below a field is checked only where that field is one, and not for long.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeAlias

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.problems import InvalidManifest
from chiplog_operator.resources.build import revision
from chiplog_operator.resources.settings import BuildSettings

Path: TypeAlias = tuple[str, ...]
CONFIG: Path = ("config",)
MAX_REASONS = 10
"""At most this many fields are named."""


def restart_reasons(
    before: BrokerCluster, after: BrokerCluster, settings: BuildSettings
) -> tuple[str, ...]:
    """The changed fields that need a restart, as users name them, like
    `spec.config[num.io.threads]`. At most `MAX_REASONS`, and then "and more".

    A field is a reason if the old spec with only this field changed has another revision. Empty if
    no single field of the spec is a reason, as with another version of the operator.
    """
    old, new = before.to_manifest(), after.to_manifest()
    old_revision = revision(before, settings)

    def is_reason(path: Path) -> bool:
        return _revision_with(old, new, path, settings) != old_revision

    differing = sorted(set(_differences(old["spec"], new["spec"])))
    # Each check builds a pod template. So the fields below a field of the spec are checked only if
    # that is a reason as a whole, and only until there are enough reasons.
    by_field = groupby(differing, key=itemgetter(0))
    candidates = (path for field, paths in by_field if is_reason((field,)) for path in paths)
    found = [_name(path) for path in islice(filter(is_reason, candidates), MAX_REASONS + 1)]
    return tuple(found if len(found) <= MAX_REASONS else [*found[:-1], "and more"])


def _differences(old: Any, new: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all fields that differ between two values found at `path`."""
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        before, after = old or {}, new or {}
        for name in before.keys() | after.keys():
            yield from _differences(before.get(name), after.get(name), (*path, name))
    elif old != new:
        yield path


def _revision_with(
    old: Mapping[str, Any], new: Mapping[str, Any], path: Path, settings: BuildSettings
) -> str:
    """The revision of the old spec with one field changed; empty if that spec cannot be parsed."""
    changed: Any = deepcopy(dict(old))
    target, source = changed["spec"], new["spec"]
    for name in path[:-1]:
        target, source = target.setdefault(name, {}), source.get(name, {})
    if path[-1] in source:
        target[path[-1]] = source[path[-1]]
    else:
        target.pop(path[-1], None)
    try:
        return revision(BrokerCluster.from_manifest(changed), settings)
    except InvalidManifest:
        return ""


def _name(path: Path) -> str:
    """The field as users name it. Keys of `config` contain dots, so they are in brackets."""
    if path[:1] == CONFIG and len(path) > 1:
        return f"spec.config[{path[1]}]"
    return ".".join(("spec", *path))
