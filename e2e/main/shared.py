"""Clusters that many tests share: a cluster that one test leaves broken must not fail the next
test.

A shared cluster is checked after every test that uses it. If it is not Ready after some time, it is
repaired, and if that fails, replaced by one with the same namespace and name, so that fixtures stay
valid. All this happens between the tests, outside of their time limits.
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
    """An action that may make a cluster work again.

    `name` is a participle for messages, like "repaired"; `limit_s` is how long the cluster may take
    to become Ready after it.
    """

    name: str
    apply: Callable[[], None]
    limit_s: float


@dataclass(frozen=True, slots=True)
class Shared:
    """A cluster that tests share.

    `wait_whole` waits until it works; it gets a limit in seconds, and raises `TimeoutError` after
    it.
    """

    name: str
    wait_whole: Callable[[float], object]
    remedies: Sequence[Remedy]
    patience_s: float = PATIENCE_S

    def repair(self) -> str:
        """Wait until the cluster works, applying one remedy after the other if it does not.

        Returns the name of the remedy that helped; "" if none was needed. If none helped, raises
        the error of the last one.
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
            except Exception as why:  # noqa: BLE001 - the next remedy may still help
                failure = why
            else:
                return remedy.name
        raise failure


_shared: dict[str, Shared] = {}


@contextmanager
def shared(one: Shared) -> Iterator[None]:
    """While the block runs, check the cluster after every test with the fixture `cluster`."""
    _shared[one.name] = one
    try:
        yield
    finally:
        del _shared[one.name]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of the timer of every test
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """After a test, repair all shared clusters before the next test begins."""
    done = yield
    if "cluster" in getattr(item, "fixturenames", ()):
        for one in list(_shared.values()):
            _repair(one, item.nodeid)
    return done


def _repair(one: Shared, after: str) -> None:
    """Repair a cluster if needed, and note it; `after` is the test that has just ended."""
    try:
        if how := one.repair():
            measured.note(f"{one.name} did not work after {after}: it was {how}")
    except Exception as why:  # noqa: BLE001 - the next test reports it by failing
        measured.note(f"{one.name} did not work after {after}, and no remedy helped: {why}")


def wait_whole(one: BrokerClusterUnderTest, limit_s: float) -> float:
    """Wait until the cluster is Ready and not paused; returns the seconds it took."""

    def whole() -> bool:
        found = one.kubectl.get("cbc", one.name)
        conditions = found.get("status", {}).get("conditions", ())
        paused = any(condition["type"] == PAUSED for condition in conditions)
        assert is_ready(found), shown(found)
        assert not paused, shown(found)
        return True

    return eventually(f"cbc/{one.name} is Ready and not paused", whole, limit_s, every_s=0.5)


def repair(one: BrokerClusterUnderTest) -> None:
    """Remove the pause annotation, and restart the brokers that are not Ready."""
    one.kubectl("annotate", "cbc", one.name, f"{labels.PAUSE}-")
    broken = [pod["metadata"]["name"] for pod in one.pods() if not _is_pod_ready(pod)]
    if broken:
        one.kubectl("delete", "pod", *broken, "--ignore-not-found", "--wait=false")


def _is_pod_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
