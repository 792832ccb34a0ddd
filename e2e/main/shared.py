"""Clusters that many tests share: one that a test leaves broken fails no test after it.

After every test that uses a shared cluster it is checked. One that is not Ready is given some
time, then repaired, then replaced: the same namespace and name, so everything that tests hold
of it stays valid. All of that is outside of every test, and of every test's time limit.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from chiplog_core.naming import labels
from e2e import measured
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, is_ready, shown

PATIENCE_S, REPAIR_LIMIT_S, REPLACE_LIMIT_S = 60, 90, 120
PAUSED = "ReconciliationPaused"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that may make a cluster whole, and how long that may take."""

    name: str
    apply: Callable[[], None]
    limit_s: float


@dataclass(frozen=True, slots=True)
class Shared:
    """A cluster that tests share. `wait_whole` raises `TimeoutError` after so many seconds."""

    name: str
    wait_whole: Callable[[float], object]
    remedies: Sequence[Remedy]
    patience_s: float = PATIENCE_S

    def repair(self) -> str:
        """The name of the remedy that helped; empty where it was whole.

        Raises what the last remedy raised, or `TimeoutError` where none helped.
        """
        try:
            self.wait_whole(self.patience_s)
        except TimeoutError as why:
            failure: Exception = why
        else:
            return ""
        for remedy in self.remedies:
            try:
                remedy.apply()
                self.wait_whole(remedy.limit_s)
            except Exception as why:  # noqa: BLE001 - the next remedy may help all the same
                failure = why
            else:
                return remedy.name
        raise failure


_shared: dict[str, Shared] = {}


@contextmanager
def shared(one: Shared) -> Iterator[None]:
    """While the block runs, the cluster is checked after every test that asks for `cluster`."""
    _shared[one.name] = one
    try:
        yield
    finally:
        del _shared[one.name]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of the timer of every test
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """After a test: what it left broken is repaired before the next one begins."""
    done = yield
    if "cluster" in getattr(item, "fixturenames", ()):
        for one in list(_shared.values()):
            _repair(one, item.nodeid)
    return done


def _repair(one: Shared, after: str) -> None:
    try:
        if how := one.repair():
            measured.note(f"{one.name} was not whole after {after}: it was {how}")
    except Exception as why:  # noqa: BLE001 - the next test says so by itself
        measured.note(f"{one.name} was not whole after {after}, and nothing helped: {why}")


def wait_whole(one: BrokerClusterUnderTest, limit_s: float) -> float:
    """Until the cluster is Ready and nobody has paused it; returns seconds."""

    def whole() -> bool:
        found = one.kubectl.get("cbc", one.name)
        conditions = found.get("status", {}).get("conditions", ())
        paused = any(condition["type"] == PAUSED for condition in conditions)
        assert is_ready(found), shown(found)
        assert not paused, shown(found)
        return True

    return eventually(f"bc/{one.name} is whole", whole, limit_s, every_s=0.5)


def repair(one: BrokerClusterUnderTest) -> None:
    """Remove the pause, and restart the brokers that are not Ready."""
    one.kubectl("annotate", "cbc", one.name, f"{labels.PAUSE}-")
    broken = [pod["metadata"]["name"] for pod in one.pods() if not _is_pod_ready(pod)]
    if broken:
        one.kubectl("delete", "pod", *broken, "--ignore-not-found", "--wait=false")


def _is_pod_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
