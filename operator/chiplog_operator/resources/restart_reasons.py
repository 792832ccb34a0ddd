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
"""This many are named."""


def restart_reasons(
    before: BrokerCluster, after: BrokerCluster, settings: BuildSettings
) -> tuple[str, ...]:
    """The fields whose change needs a restart, as users name them, like
    `spec.config[num.io.threads]`.

    Empty if no single field of the spec is the reason, as with another version of the operator.
    """
    old, new = before.to_manifest(), after.to_manifest()
    old_revision = revision(before, settings)

    def is_one(path: Path) -> bool:
        return _revision_with(old, new, path, settings) != old_revision

    differing = sorted(set(_differences(old["spec"], new["spec"])))
    of_fields = groupby(differing, key=itemgetter(0))
    that_restart = (path for name, below in of_fields if is_one((name,)) for path in below)
    found = [_name(path) for path in islice(filter(is_one, that_restart), MAX_REASONS + 1)]
    return tuple(found if len(found) <= MAX_REASONS else [*found[:-1], "and more"])


def _differences(old: Any, new: Any, path: Path = ()) -> Iterator[Path]:
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
    at, given = changed["spec"], new["spec"]
    for name in path[:-1]:
        at, given = at.setdefault(name, {}), given.get(name, {})
    if path[-1] in given:
        at[path[-1]] = given[path[-1]]
    else:
        at.pop(path[-1], None)
    try:
        return revision(BrokerCluster.from_manifest(changed), settings)
    except InvalidManifest:
        return ""


def _name(path: Path) -> str:
    if path[:1] == CONFIG and len(path) > 1:
        return f"spec.config[{path[1]}]"
    return ".".join(("spec", *path))
