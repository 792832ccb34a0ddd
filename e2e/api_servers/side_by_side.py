"""Makes the same random calls on the real API server and on the simulated one.

Both must accept and refuse the same calls with the same answers, and their watches must report the
same events in the same order. The calls are those of operator and brokers. They use objects from
earlier answers: current ones, outdated ones, and deleted ones with the same name.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from chiplog_kube.api import ApiError, EventType, KubeApi, Manifest, ObjectList, WatchEvent
from chiplog_kube.kinds import CONFIG_MAPS, LEASES, Kind
from e2e.api_servers.alike import Differ, Names, agree
from e2e.api_servers.servers import Outcome, Side
from e2e.sim.tests.subjects import THINGS

OBJECTS: Final = ("a", "b", "b-c", "d")
MANAGERS: Final = ("one", "two")
COLORS: Final = ("red", "blue")
LABELS: Final = ("", "", "color=red", "color", "color=red,shape=round", "shape=round")
HELD: Final = "chiplog.dev/held"
MORE: Final = "chiplog.dev/more"
FAR: Final = 1_000_000
"""Added to a resource version, it gives one that the server has not reached yet."""
SETTLED_S: Final = 0.1
WITHIN_S: Final = 10.0
"""How long the real server may take to deliver the events of watches."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """How random objects of a kind are made."""

    kind: Kind
    part: str
    """Name of the part with the content, like spec or data."""
    values: Mapping[str, tuple[object, ...]]
    """Field of this part -> its possible values."""
    has_status: bool = False


TEXT: Final = ("x", "y", "z")
INNER: Final = ({"c": 1}, {"c": 2, "d": 3}, {"d": 4})
FORMS: Final = (
    Form(
        THINGS,
        "spec",
        {"size": (1, 2, 3), "on": (True, False), "deep": INNER, "many": ([1], [1, 2], [])},
        has_status=True,
    ),
    Form(
        LEASES,
        "spec",
        {
            "holderIdentity": TEXT,
            "leaseDurationSeconds": (6, 15),
            "leaseTransitions": (0, 1, 2),
            "renewTime": tuple(f"2026-01-01T12:00:0{second}.123456Z" for second in range(3)),
        },
    ),
    Form(CONFIG_MAPS, "data", {"k": TEXT, "l": TEXT, "m": TEXT}),
)
STATUS: Final[dict[str, tuple[object, ...]]] = {
    "phase": TEXT,
    "conditions": ([], [{"type": "Ready", "status": "True"}]),
    "deep": INNER,
}


class Spot(NamedTuple):
    """Kind, namespace and name of an object, the same on both servers."""

    form: Form
    namespace: str
    name: str


class Pair(NamedTuple):
    """One answer of both servers about an object."""

    real: Manifest
    simulated: Manifest


@dataclass(slots=True)
class WatchedEvents:
    """The events of one server's watch, and the class of the error that ended it, if any."""

    events: list[WatchEvent] = field(default_factory=list)
    error: str = ""


@dataclass(slots=True)
class Watched:
    """The same watch on both servers; `what` describes it in messages."""

    what: str
    real: WatchedEvents = field(default_factory=WatchedEvents)
    simulated: WatchedEvents = field(default_factory=WatchedEvents)


@dataclass(slots=True)
class Seen:
    """Counts calls, errors and events of all runs, so that a test can check that they covered
    enough."""

    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)


class SideBySide:
    """Both servers, and the random calls on them; the methods in `MOVES` make one call each."""

    def __init__(
        self, real: Side, simulated: Side, namespaces: tuple[str, ...], seed: int, seen: Seen
    ) -> None:
        self.real, self.simulated, self.namespaces, self.seen = real, simulated, namespaces, seen
        self.chance = random.Random(seed)  # noqa: S311 - calls that can be made again
        self.names = Names()
        self.objects: dict[Spot, list[Pair]] = {}
        """All answers about each object, the newest last."""
        self.lists: list[tuple[str, str]] = []
        """Resource versions of lists (real, simulated), from which watches can start."""
        self.watches: list[Watched] = []
        self.history: list[str] = []
        """All calls so far, as text for messages."""

    def run(self, calls: int) -> None:
        """Make this many random calls and compare all answers and events. Raises `Differ`."""
        self.list_all()
        for _ in range(calls):
            self.chance.choices(tuple(MOVES), tuple(MOVES.values()))[0](self)
        self.list_all()
        self.compare_watches()

    # -- reading

    def get(self) -> None:
        """Read a random object."""
        spot = self.spot()
        self.both(f"get {shown(spot)}", lambda api, _: api.get(spot.form.kind, *spot[1:]), spot)

    def list_(self) -> None:
        """List a random kind with random selectors."""
        kind = self.chance.choice(FORMS).kind
        namespace, labels = self.chance.choice(self.namespaces), self.chance.choice(LABELS)
        fields = self.fields()
        self.both(
            f"list {kind.kind} {namespace} {labels} {fields}",
            lambda api, _: api.list_(kind, namespace, labels=labels, fields=fields),
        )

    def list_all(self) -> None:
        for form in FORMS:
            for namespace in self.namespaces:
                self.list_one(form.kind, namespace)

    def list_one(self, kind: Kind, namespace: str) -> None:
        self.both(f"list {kind.kind} {namespace}", lambda api, _: api.list_(kind, namespace))

    # -- writing

    def create(self) -> None:
        """Create a random object on both servers, sometimes as a dry run or with fields that create
        ignores or refuses."""
        spot, dry_run = self.spot(), self.rarely()
        given, manager = self.manifest(spot), self.chance.choice(MANAGERS)
        if spot.form.has_status and self.rarely():
            given["status"] = self.some(STATUS)
        if not dry_run and self.rarely():
            given["metadata"]["resourceVersion"] = "1"
        self.write(
            f"create{' dry' if dry_run else ''} {given} by {manager}",
            spot,
            lambda api, _: api.create(
                spot.form.kind, given, field_manager=manager, dry_run=dry_run
            ),
            keep=not dry_run,
        )

    def patch(self) -> None:
        """A merge patch of an object, sometimes with a uid or resource version as a precondition.

        These are of an earlier answer, which may be outdated.
        """
        spot, dry_run = self.spot(), self.rarely()
        subresource = "status" if spot.form.has_status and self.chance.random() < 0.3 else ""
        patch: dict[str, Any] = {"metadata": {}}
        if self.chance.random() < 0.6:
            patch[spot.form.part] = self.some(spot.form.values, removes=True)
        if spot.form.has_status and (subresource or self.rarely()):
            patch["status"] = self.some(STATUS, removes=True)
        if self.chance.random() < 0.4 and not subresource:
            patch["metadata"] |= self.changed_metadata()
        known, manager = self.known(spot, stale=0.3), self.chance.choice(MANAGERS)
        named = self.chance.choice(((), (), (), ("uid",), ("resourceVersion",), IDENTITY))

        def call(api: KubeApi, side: int) -> Any:
            mine = {name: known[side]["metadata"][name] for name in named} if known else {}
            given = {**patch, "metadata": {**patch["metadata"], **mine}}
            return api.patch(
                spot.form.kind,
                *spot[1:],
                given,
                field_manager=manager,
                subresource=subresource,
                dry_run=dry_run,
            )

        what = f"patch {shown(spot)} {subresource} {patch} {named if known else ''} by {manager}"
        self.write(what + (" dry" if dry_run else ""), spot, call, keep=not dry_run)

    def replace(self) -> None:
        """Write a changed copy of an earlier answer, sometimes without its uid or resource
        version."""
        spot = self.spot()
        known = self.known(spot, stale=0.2)
        if known is None:
            return
        subresource = "status" if spot.form.has_status and self.chance.random() < 0.3 else ""
        change: dict[str, Any] = {}
        if self.chance.random() < 0.7:
            change[spot.form.part] = self.some(spot.form.values)
        if spot.form.has_status and self.chance.random() < 0.5:
            change["status"] = self.some(STATUS)
        labels = self.labels() if self.rarely() and not subresource else None
        without = self.chance.choice(((), (), (), (), ("uid",), ("resourceVersion",), IDENTITY))
        manager = self.chance.choice(MANAGERS)

        def call(api: KubeApi, side: int) -> Any:
            meta = {k: v for k, v in known[side]["metadata"].items() if k not in without}
            # Operator and brokers do not send managedFields, either.
            meta.pop("managedFields", None)
            if labels is not None:
                meta["labels"] = labels
            given = {**known[side], **change, "metadata": meta}
            return api.replace(
                spot.form.kind, given, field_manager=manager, subresource=subresource
            )

        what = f"replace {shown(spot)} {subresource} {change} {labels} -{without} by {manager}"
        self.write(what, spot, call)

    def apply(self) -> None:
        """A server-side apply, without nested maps that two managers could share.

        There the servers are known to differ: see the table in the test.
        """
        spot, manager = self.spot(), self.chance.choice(MANAGERS)
        given = self.manifest(spot)
        plain = {name: of for name, of in spot.form.values.items() if of is not INNER}
        name = self.chance.choice(tuple(plain))
        # Always with a label: if an apply removes the last label, the real server stores the object
        # twice, with one more version than it answers.
        given["metadata"].setdefault("labels", {})["by"] = "apply"
        given[spot.form.part] = self.some(plain) | {name: self.chance.choice(plain[name])}
        self.write(
            f"apply {given} by {manager}",
            spot,
            lambda api, _: api.apply(spot.form.kind, given, field_manager=manager),
        )

    def delete(self) -> None:
        """Delete a random object, sometimes with a uid or resource version as a precondition."""
        spot = self.spot()
        known = self.known(spot, stale=0.3)
        named = self.chance.choice(((), ("uid",), ("resourceVersion",), IDENTITY))

        def call(api: KubeApi, side: int) -> Any:
            meta = known[side]["metadata"] if known else {}
            mine = {PRECONDITIONS[name]: meta[name] for name in named} if known else {}
            return api.delete(spot.form.kind, *spot[1:], **mine)

        self.write(f"delete {shown(spot)} {named if known else ''}", spot, call)

    # -- watching

    def watch(self) -> None:
        """Start a watch on both servers, from the version of an earlier list or object."""
        form, namespace = self.chance.choice(FORMS), self.chance.choice(self.namespaces)
        starts = list(self.lists)
        for spot, pairs in self.objects.items():
            if spot.form is form:
                starts += [(version(pair.real), version(pair.simulated)) for pair in pairs[-2:]]
        start = self.chance.choice(starts)
        if self.chance.random() < 0.05:
            # A version of the future, as clients have after etcd was restored from an older backup.
            start = str(int(start[0]) + FAR), str(int(start[1]) + FAR)
        labels, fields = self.chance.choice(LABELS), self.fields()
        what = f"watch {form.kind.kind} {namespace} {labels} {fields} from {start}"
        watched = Watched(what)
        self.history.append(what)
        self.watches.append(watched)
        for side, side_events, since in zip(
            (self.real, self.simulated), (watched.real, watched.simulated), start, strict=True
        ):
            follow = followed(side.api, side_events, form.kind, namespace, since, labels, fields)
            side.loop.create_task(follow)
        self.seen.calls["watch"] += 1

    def compare_watches(self) -> None:
        """Wait for events that are still on their way, then compare all watches."""
        self.simulated.wait(SETTLED_S)
        for _ in range(int(WITHIN_S / SETTLED_S)):
            if all(len(one.real.events) >= len(one.simulated.events) for one in self.watches):
                break
            self.real.wait(SETTLED_S)
        self.real.wait(SETTLED_S)
        for one in self.watches:
            self.compare_watch(one)

    def compare_watch(self, one: Watched) -> None:
        """Raise `Differ` unless the watch had the same events, or the same error, on both
        servers."""
        if one.real.error != one.simulated.error:
            self.fail(
                f"{one.what}: error of the real server {one.real.error!r}, "
                f"simulated {one.simulated.error!r}"
            )
        brief = [[described(event) for event in side.events] for side in (one.real, one.simulated)]
        if brief[0] != brief[1]:
            self.fail(f"{one.what}:\n  real events {brief[0]},\n  simulated {brief[1]}")
        for real, simulated in zip(one.real.events, one.simulated.events, strict=True):
            self.seen.events[real.type] += 1
            try:
                agree(self.names, real, simulated)
            except Differ as why:
                self.fail(f"{one.what}: {described(real)}: {why}")

    # -- both at once

    def write(
        self, what: str, spot: Spot, call: Callable[[KubeApi, int], Any], *, keep: bool = True
    ) -> None:
        """Make a writing call on both servers and compare the answers, then read the object back.

        `keep` notes the answer for later calls; that of a dry run is not kept.
        """
        self.both(what, call, spot if keep else None)
        self.both(
            f"get {shown(spot)}",
            lambda api, _: api.get(spot.form.kind, *spot[1:]),
            spot,
        )

    def both(
        self, what: str, call: Callable[[KubeApi, int], Any], spot: Spot | None = None
    ) -> Outcome:
        """Make a call on both servers and compare; returns the real outcome. Raises `Differ`.

        `call` gets the client and 0 for the real server, 1 for the simulated one. With `spot`, the
        answer is noted as one about this object.
        """
        self.history.append(what)
        real = self.real.do(lambda api: call(api, 0))
        simulated = self.simulated.do(lambda api: call(api, 1))
        self.seen.calls[what.split(maxsplit=1)[0]] += 1
        if real.error:
            self.seen.errors[real.error] += 1
        if real.error != simulated.error:
            self.fail(f"real {brief_of(real)}, simulated {brief_of(simulated)}")
        try:
            agree(self.names, real.value, simulated.value)
        except Differ as why:
            self.fail(str(why))
        if isinstance(real.value, ObjectList) and isinstance(simulated.value, ObjectList):
            self.lists.append((real.value.resource_version, simulated.value.resource_version))
        elif isinstance(real.value, dict) and isinstance(simulated.value, dict) and spot:
            self.objects.setdefault(spot, []).append(Pair(real.value, simulated.value))
        return real

    def fail(self, why: str) -> None:
        """Raise `Differ` with the last calls."""
        raise Differ(
            f"{why}\nafter {len(self.history)} calls, the last of them\n" + self.calls_made()
        )

    def calls_made(self) -> str:
        return "\n".join(f"  {one}" for one in self.history[-12:])

    # -- random values

    def rarely(self) -> bool:
        """True in one of ten calls."""
        return self.chance.random() < 0.1

    def spot(self) -> Spot:
        """A random kind, namespace and name."""
        return Spot(
            self.chance.choice(FORMS),
            self.chance.choice(self.namespaces),
            self.chance.choice(OBJECTS),
        )

    def fields(self) -> str:
        """A field selector; mostly none ("")."""
        named = f"metadata.name={self.chance.choice(OBJECTS)}"
        return named if self.chance.random() < 0.2 else ""

    def known(self, spot: Spot, stale: float) -> Pair | None:
        """The last answer about an object, or with probability `stale` a random one; None if
        none."""
        pairs = self.objects.get(spot)
        if not pairs:
            return None
        return self.chance.choice(pairs) if self.chance.random() < stale else pairs[-1]

    def labels(self) -> dict[str, str]:
        """Random labels, often none."""
        found = {}
        if self.chance.random() < 0.5:
            found["color"] = self.chance.choice(COLORS)
        if self.chance.random() < 0.3:
            found["shape"] = "round"
        return found

    def changed_metadata(self) -> dict[str, Any]:
        """A merge patch of metadata: labels, finalizers or annotations; None removes a field."""
        labels: dict[str, object] = {"color": self.chance.choice((*COLORS, None))}
        if self.rarely():
            labels["shape"] = self.chance.choice(("round", None))
        return self.chance.choice(
            (
                {"labels": labels},
                {"labels": None},
                {"finalizers": [HELD]},
                {"finalizers": [HELD, MORE]},
                {"finalizers": []},
                {"finalizers": None},
                {"finalizers": None, "labels": labels},
                {"annotations": {"note": self.chance.choice((*TEXT, None))}},
                {"deletionTimestamp": None},
            )
        )

    def some(
        self, values: Mapping[str, tuple[object, ...]], *, removes: bool = False
    ) -> dict[str, Any]:
        """A random half of these fields with random values; with `removes`, some are None."""
        chosen = [name for name in values if self.chance.random() < 0.5]
        return {
            name: None if removes and self.rarely() else self.chance.choice(values[name])
            for name in chosen
        }

    def manifest(self, spot: Spot) -> Manifest:
        """A random manifest of this object."""
        meta: dict[str, Any] = {"namespace": spot.namespace, "name": spot.name}
        if labels := self.labels():
            meta["labels"] = labels
        if self.chance.random() < 0.2:
            meta["finalizers"] = [HELD]
        return {
            "apiVersion": spot.form.kind.api_version,
            "kind": spot.form.kind.kind,
            "metadata": meta,
            spot.form.part: self.some(spot.form.values),
        }


async def followed(  # noqa: PLR0913, PLR0917 - what a watch is asked
    api: KubeApi,
    watched: WatchedEvents,
    kind: Kind,
    namespace: str,
    since: str,
    labels: str,
    fields: str,
) -> None:
    """Collect the events of a watch, except bookmarks, until it ends or is cancelled."""
    try:
        async for event in api.watch(
            kind, namespace, resource_version=since, labels=labels, fields=fields
        ):
            if event.type is not EventType.BOOKMARK:
                watched.events.append(event)
    except ApiError as error:
        watched.error = type(error).__name__


def shown(spot: Spot) -> str:
    return f"{spot.form.kind.kind} {spot.namespace}/{spot.name}"


def version(manifest: Manifest) -> str:
    return str(manifest["metadata"]["resourceVersion"])


def described(event: WatchEvent) -> str:
    return f"{event.type} {event.object['metadata']['name']}"


def brief_of(outcome: Outcome) -> str:
    """An outcome's error or value, shortened for messages."""
    if outcome.error:
        return f"{outcome.error} ({outcome.message[:200]})"
    return repr(outcome.value)[:400]


IDENTITY: Final = ("uid", "resourceVersion")
# Field of metadata -> argument of `KubeApi.delete`.
PRECONDITIONS: Final = {"uid": "uid", "resourceVersion": "resource_version"}
# Call -> its weight in the random choice.
MOVES: Final[dict[Callable[[SideBySide], None], int]] = {
    SideBySide.get: 1,
    SideBySide.list_: 3,
    SideBySide.create: 6,
    SideBySide.patch: 14,
    SideBySide.replace: 7,
    SideBySide.apply: 8,
    SideBySide.delete: 4,
    SideBySide.watch: 3,
}
