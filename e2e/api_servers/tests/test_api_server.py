"""The simulated API server does what the real one does, asked by the client of production.

What is not alike, and why no fault of ours can hide behind it:

| In the simulator | The real one | Why nothing hides there |
| --- | --- | --- |
| No schemas, rules, defaults | Refuses, prunes, fills in | `test_writes.py`: it takes all \
that operator and brokers wrote in simulated clusters |
| To an apply a list is one value, and inner maps go field by field | Items have owners; an \
emptied map may be null and refused, or written once more by the next write | Only the operator \
applies: no kinds of ours, no list or inner map that others write, and always with labels |
| Labels in a write of the status change nothing | The same, but the version counts on | \
With a status go uid and version only |
| No bookmarks | One a minute, and before a watch ends | A watch then goes on from a later \
version; what lies between is none of its events |
| An orphaning delete takes away at once | A finalizer holds the object until the garbage \
collector has run | Only StatefulSets; who creates one again waits while there is a \
deletionTimestamp, as lane `main` shows |
| Every client may do all, in any namespace | Forbidden, not found | Roles have tests of their \
own; no namespace ends in the simulator |
| Pods end when the simulated kubelet says so | Grace periods, deletion at once without a node | \
What a kubelet does is not the API server's; lane `main` has real ones |
| Fields: names only | Whatever a kind offers | Only Spark's objects are asked for otherwise, \
and those are not simulated |
| A dry run of a create that names a version is refused | It is not | Nobody makes one |
"""

from collections.abc import Callable
from typing import Any

import pytest

from chiplog_kube.api import EventType
from e2e import measured
from e2e.api_servers.alike import Differ
from e2e.api_servers.servers import Side, make_namespace, simulated_side
from e2e.api_servers.side_by_side import Seen, SideBySide
from e2e.lanes import is_full
from e2e.loopback.api_server import ApiServer
from e2e.sim import api_store, ownership
from e2e.sim.api_store import ApiStore, Selection

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800 if is_full() else 240)]

SEEDS = 300 if is_full() else 5
CALLS = 200
BITE_WITHIN = 12
"""So many seeds, and each of the planted faults is seen."""


def run(server: ApiServer, real: Side, seed: int, name: str, seen: Seen) -> None:
    """Raises `Differ`."""
    # One name begins with the other: lists are ordered by the whole key.
    namespaces = (f"{name}-{seed}", f"{name}-{seed}-b")
    for one in namespaces:
        make_namespace(server, one)
    with simulated_side() as simulated:
        SideBySide(real, simulated, namespaces, seed, seen).run(CALLS)


def test_the_same_calls_come_to_the_same(server: ApiServer, real: Side) -> None:
    seen = Seen()
    for seed in range(SEEDS):
        try:
            run(server, real, seed, "alike", seen)
        except Differ as why:
            pytest.fail(f"seed {seed}: {why}")
    calls, events = sum(seen.calls.values()), sum(seen.events.values())
    measured.note(
        f"{calls} calls of both API servers came to the same, {sum(seen.errors.values())} of them "
        f"refused alike: {dict(seen.errors)}; {events} equal events"
    )
    expected = {"NotFound", "AlreadyExists", "Conflict", "Invalid", "Unavailable"}
    assert seen.errors.keys() == expected, "some refusals were not tried"
    assert seen.events.keys() == {EventType.ADDED, EventType.MODIFIED, EventType.DELETED}


def nothing_is_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(api_store, "_check", lambda before, given: None)


def labels_select_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(api_store, "has_labels", lambda selector, labels: True)


def names_select_nothing(patch: pytest.MonkeyPatch) -> None:
    def takes(self: Selection, manifest: dict[str, Any]) -> bool:
        meta = manifest["metadata"]
        has_them = api_store.has_labels(self.labels, meta.get("labels", {}))
        return self.namespace in {"", meta["namespace"]} and has_them

    patch.setattr(Selection, "takes", takes)


def all_count_generations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(api_store, "counts_generations", lambda kind: True)


def applies_take_nothing_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(api_store, "applied", lambda owned, *more: ownership.applied({}, *more))


def new_finalizers_at_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(api_store, "_finalizers", lambda meta: [])


def each_write_is_one(patch: pytest.MonkeyPatch) -> None:
    """Also one that changes nothing."""
    whole: Any = ApiStore._update

    def update(self: ApiStore, kind: Any, before: Any, *given: Any, **named: Any) -> Any:
        version = self.version
        made = whole(self, kind, before, *given, **named)
        if self.version == version and not named.get("dry_run"):
            return self._store(kind, api_store.copied(before), EventType.MODIFIED)
        return made

    patch.setattr(ApiStore, "_update", update)


@pytest.mark.parametrize(
    "plant",
    [
        nothing_is_checked,
        labels_select_nothing,
        names_select_nothing,
        all_count_generations,
        applies_take_nothing_away,
        new_finalizers_at_the_end,
        each_write_is_one,
    ],
    ids=lambda plant: str(plant.__name__).replace("_", "-"),
)
def test_a_fault_of_the_simulated_one_is_seen(
    plant: Callable[[pytest.MonkeyPatch], None],
    server: ApiServer,
    real: Side,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    plant(monkeypatch)

    def runs() -> None:
        for seed in range(BITE_WITHIN):
            run(server, real, seed, request.node.callspec.id, Seen())

    with pytest.raises(Differ):
        runs()
