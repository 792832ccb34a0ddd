"""Following one kind of the cluster's objects."""

from collections.abc import Callable, Iterable

from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.metadata.kubernetes.store_parts import StoreParts
from chiplog_core.naming import labels
from chiplog_kube.api import Manifest
from chiplog_kube.cache import ObjectCache, OnChange
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import without_managed_fields
from chiplog_kube.reflector import Pace, Reflector, Scope

Listed = Callable[[Iterable[Manifest]], None]


def ignore_list(_present: Iterable[Manifest]) -> None:
    """Ignores complete lists, for kinds whose missing objects mean nothing."""


class _Listening:
    """Receives the notifications of a reflector, and passes complete lists on to `listed`."""

    def __init__(self, cache: ObjectCache, listed: Listed, outages: Outages) -> None:
        self._cache = cache
        self._listed = listed
        self._outages = outages

    def listed(self) -> None:
        """The cache now has exactly the objects of a complete list: pass them on."""
        self._outages.answered()
        self._listed(self._cache.values())

    def interrupted(self) -> None:
        """Does nothing: the known objects stay valid until the next list."""


def watch(
    parts: StoreParts, kind: Kind, seen: OnChange, listed: Listed = ignore_list, name: str = ""
) -> Reflector:
    """A reflector of the cluster's objects of this kind, or of the one with this name. It calls
    `seen` with an object before and after each change, and `listed` with all objects after each
    complete list."""

    def changed(before: Manifest | None, after: Manifest | None) -> None:
        parts.outages.answered()
        seen(before, after)

    cache = ObjectCache(changed, without_managed_fields)
    return Reflector(
        parts.api,
        Scope(
            kind=kind,
            namespace=parts.process.namespace,
            # A Role that names an object allows lists and watches with this field selector only.
            labels="" if name else f"{labels.CLUSTER}={parts.process.cluster}",
            fields=f"metadata.name={name}" if name else "",
        ),
        cache,
        clock=parts.clock,
        listener=_Listening(cache, listed, parts.outages),
        # A random number between 0 and 1, so that not all brokers retry at the same time.
        pace=Pace(spread=lambda: int.from_bytes(parts.rng.token(2)) / 0xFFFF),
    )
