"""Records all writes of a simulated cluster and repeats them on the real API server.

The simulated server has no schemas, validation rules or defaults. The real one must accept and
refuse the same writes of operator and brokers, and store all that was sent.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, KubeApi, Manifest
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import ObjectKey, key_of, uid_of, version_of
from e2e.api_servers.alike import Differ
from e2e.api_servers.servers import Outcome, Side
from e2e.sim.api_store import ApiStore, copied

OF_OTHERS: Final = frozenset({kinds.DEFINITIONS, kinds.NAMESPACES, kinds.NODES, kinds.PODS})
"""Kinds that the simulator itself writes, in place of nodes and of an installation."""
USERS: Final = frozenset({"", labels.KAFKA_ADMIN})
"""Field managers that may send invalid manifests: users, and the operator for Kafka admin clients,
whose requests it turns into objects."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write to the simulated server, and its answer."""

    verb: str
    kind: Kind
    key: ObjectKey
    body: Manifest
    manager: str
    options: Mapping[str, Any]
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.verb} {self.kind.kind} {self.key.name} by {self.manager}: {self.body}"


@dataclass(slots=True)
class Writes:
    """The recorded writes.

    Recording ends when the simulation restores an older state, which the real server cannot do.
    """

    all: list[Write] = field(default_factory=list)
    is_over: bool = False
    depth: int = 0
    """Above 0 while a write is carried out: the writes that it calls itself are not recorded."""


@contextmanager
def recorded() -> Iterator[Writes]:
    """Record all writes to simulated servers while the block runs, by replacing their methods."""
    found = Writes()
    originals = {name: getattr(ApiStore, name) for name in ("restore", *TAKEN)}

    def restore(self: ApiStore, *given: Any, **named: Any) -> None:
        """End the recording, then restore."""
        found.is_over = True
        originals["restore"](self, *given, **named)

    def noting(name: str) -> Callable[..., Any]:
        """A replacement of the store's method `name` that records each outermost call."""

        def note(self: ApiStore, kind: Kind, *given: Any, **named: Any) -> Any:
            if found.is_over or found.depth or kind in OF_OTHERS:
                return originals[name](self, kind, *given, **named)
            asked = [copied(one) if isinstance(one, dict) else one for one in given]
            outcome = Outcome()
            found.depth += 1
            try:
                made = originals[name](self, kind, *given, **named)
                if (
                    name == "delete"
                ):  # it returns None; but an object with finalizers has a new version
                    made = self.find(kind, *given[0])
                outcome = Outcome(copied(made) if made else made)
            except ApiError as error:
                outcome = Outcome(error=type(error).__name__, message=str(error))
                raise
            finally:
                found.depth -= 1
                found.all.append(TAKEN[name](kind, asked, named, outcome))
            return made if name != "delete" else None

        return note

    try:
        for name in TAKEN:
            setattr(ApiStore, name, noting(name))
        ApiStore.restore = restore  # type: ignore[method-assign]
        yield found
    finally:
        for name, method in originals.items():
            setattr(ApiStore, name, method)


def _create(kind: Kind, given: list[Any], named: dict[str, Any], outcome: Outcome) -> Write:
    """A recorded `create`, from the arguments of `ApiStore.create` and its outcome."""
    made = outcome.value if isinstance(outcome.value, dict) else given[0]
    body = given[0]
    # If the name was to be generated, the real server gets the one that the simulated one chose.
    body["metadata"]["name"] = made["metadata"].get("name", "")
    options = {"dry_run": named.get("dry_run", False)}
    return Write("create", kind, key_of(body), body, named.get("manager", ""), options, outcome)


def _replace(kind: Kind, given: list[Any], named: dict[str, Any], outcome: Outcome) -> Write:
    """A recorded `replace`, from the arguments of `ApiStore.replace` and its outcome."""
    options = {"subresource": given[1] if given[1:] else named.get("subresource", "")}
    manager = named.get("manager", "")
    return Write("replace", kind, key_of(given[0]), given[0], manager, options, outcome)


def _patch(kind: Kind, given: list[Any], named: dict[str, Any], outcome: Outcome) -> Write:
    """A recorded `patch`, from the arguments of `ApiStore.patch` and its outcome."""
    options: dict[str, Any] = {"subresource": named.get("subresource", "")}
    options["dry_run"] = named.get("dry_run", False)
    key = ObjectKey(*given[0])
    return Write("patch", kind, key, given[1], named.get("manager", ""), options, outcome)


def _apply(kind: Kind, given: list[Any], named: dict[str, Any], outcome: Outcome) -> Write:
    """A recorded `apply`, from the arguments of `ApiStore.apply` and its outcome."""
    manager = given[1] if given[1:] else named.get("manager", "")
    return Write("apply", kind, key_of(given[0]), given[0], manager, {}, outcome)


def _apply_new(kind: Kind, given: list[Any], named: dict[str, Any], outcome: Outcome) -> Write:
    return replace(_apply(kind, given, named, outcome), verb="apply_new")


def _delete(kind: Kind, given: list[Any], named: dict[str, Any], outcome: Outcome) -> Write:
    """A recorded `delete`, from the arguments of `ApiStore.delete` and its outcome."""
    options = {"uid": named.get("uid", ""), "resource_version": named.get("version", "")}
    return Write("delete", kind, given[0], {}, "", options, outcome)


# Method of `ApiStore` -> what makes a `Write` of its arguments and its outcome.
TAKEN: Final[dict[str, Callable[[Kind, list[Any], dict[str, Any], Outcome], Write]]] = {
    "create": _create,
    "replace": _replace,
    "patch": _patch,
    "apply": _apply,
    "apply_new": _apply_new,
    "delete": _delete,
}


class Replay:
    """Repeats the writes of one simulated cluster on the real server."""

    def __init__(self, real: Side) -> None:
        self.real = real
        self.uids: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        """Simulated uids and versions -> the real ones."""
        self.mistaken: set[tuple[Kind, ObjectKey]] = set()
        """Objects that a user wrote with invalid fields: they may differ from then on."""
        self.seen: Counter[str] = Counter()

    def play(self, write: Write) -> None:
        """Repeat one write. Raises `Differ` unless the real server answers and stores the same."""
        if (write.kind, write.key) in self.mistaken:
            self.seen["after a mistake"] += 1
            return
        outcome = self.real.do(lambda api: self.call(api, write))
        self.seen[f"{write.verb} {write.kind.kind}"] += 1
        if outcome.error == "Invalid" and not write.outcome.error and write.manager in USERS:
            self.mistake(write)
            return
        if outcome.error != write.outcome.error:
            raise Differ(
                f"{write}\n  real: {outcome.error} {outcome.message}, "
                f"simulated: {write.outcome.error} {write.outcome.message}"
            )
        if write.verb == "delete" and write.outcome.value is not None:
            outcome = self.real.do(lambda api: api.get(write.kind, *write.key))
        made, simulated = outcome.value, write.outcome.value
        if isinstance(made, dict) and isinstance(simulated, dict):
            self.uids[uid_of(simulated)] = uid_of(made)
            self.versions[version_of(simulated)] = version_of(made)
            lost = missing(self.translated(simulated), made)
            if lost and write.manager in USERS:
                self.mistake(write)
            elif lost:
                raise Differ(f"{write}\n  {lost}")

    def mistake(self, write: Write) -> None:
        """Note an object whose invalid fields, sent by a user, were refused or dropped."""
        self.mistaken.add((write.kind, write.key))
        self.seen["a mistake"] += 1

    def call(self, api: KubeApi, write: Write) -> Any:
        """The call of the real server's client for this write."""
        body, options = self.translated(write.body), dict(write.options)
        by = write.manager or "user"
        match write.verb:
            case "create":
                return api.create(write.kind, body, field_manager=by, **options)
            case "replace":
                return api.replace(write.kind, body, field_manager=by, **options)
            case "patch":
                return api.patch(write.kind, *write.key, body, field_manager=by, **options)
            case "apply":
                return api.apply(write.kind, body, field_manager=by)
            case "apply_new":
                return api.apply_new(write.kind, body, field_manager=by)
            case _:
                uid, version = options["uid"], options["resource_version"]
                named = {
                    "uid": self.uids.get(uid, uid),
                    "resource_version": self.versions.get(version, version),
                }
                return api.delete(write.kind, *write.key, **named)

    def translated(self, manifest: Manifest) -> Manifest:
        """The manifest with real uids and the real version in place of the simulated ones."""
        made: Manifest = self._renamed(manifest)
        meta = made.get("metadata", {})
        if version := meta.get("resourceVersion"):
            meta["resourceVersion"] = self.versions.get(version, version)
        return made

    def _renamed(self, value: Any) -> Any:
        """The value with real uids, at any depth: each string that is a simulated uid is
        replaced."""
        if isinstance(value, Mapping):
            return {name: self._renamed(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._renamed(one) for one in value]
        return self.uids.get(value, value) if isinstance(value, str) else value


# Fields that each server chooses itself.
CHOSEN: Final = frozenset(
    {f".metadata.{name}" for name in ("creationTimestamp", "deletionTimestamp", "generateName")}
)


def missing(sent: Any, kept: Any, path: str = "") -> str:
    """The first field that the real server (`kept`) lacks or has otherwise than `sent`; "" if none.

    The real object may have further fields, like defaults.
    """
    if path in CHOSEN or sent in ({}, [], "", None):
        return ""
    if isinstance(sent, Mapping) and isinstance(kept, Mapping):
        found = (missing(inner, kept.get(name), f"{path}.{name}") for name, inner in sent.items())
        return next((one for one in found if one), "")
    if isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        pairs = enumerate(zip(sent, kept, strict=True))
        found = (missing(*both, f"{path}[{number}]") for number, both in pairs)
        return next((one for one in found if one), "")
    return "" if sent == kept else f"{path}: real {kept!r}, simulated {sent!r}"
