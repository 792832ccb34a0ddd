"""Which brokers clients are told of."""

import asyncio
from typing import Any

from chiplog_broker.metadata.kubernetes.brokers import LINGER_S, Brokers
from chiplog_broker.metadata.view import ClusterView
from tests.storage.memory_disk import ManualClock

CLUSTER_ID = "5XQrWp_aQZ-1KjNu2qeQGw"


def manifest(broker_id: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Broker",
        "metadata": {"name": f"c1-{broker_id}", "namespace": "ns"},
        "spec": {
            "cluster": "c1",
            "clusterId": CLUSTER_ID,
            "brokerId": broker_id,
            "intent": "Serve",
            "session": 1,
            "admittedIncarnation": f"{broker_id:032x}",
            "endpoints": [{"listener": "plain", "host": f"b{broker_id}", "port": 9092}],
            **spec,
        },
    }


class Told:
    """What follows from objects as they come."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.view = ClusterView(CLUSTER_ID, 1)
        self.brokers = Brokers("c1", self.clock, lambda _: self.brokers.show(self.view))

    def see(self, broker_id: int, **spec: Any) -> None:
        self.brokers.broker_changed(None, manifest(broker_id, **spec))

    @property
    def named(self) -> list[int]:
        return [one.node_id for one in self.view.nodes("plain")]


def test_who_ends_is_named_for_a_moment() -> None:
    told = Told()
    told.see(1)
    told.see(2)
    told.see(2, fenced=True)
    assert told.named == [1, 2]
    assert list(told.view.brokers) == [1], "it is not one of those that live"
    told.clock.time_ms += int(LINGER_S * 1000)
    told.see(1)
    assert told.named == [1]


def test_a_live_broker_that_lists_no_own_listener_uses_plain_text() -> None:
    told = Told()
    process, reported = f"{2:032x}", [{"listener": "internal"}]
    status = {"incarnation": process, "session": 1, "listenerCertificates": reported}
    told.brokers.broker_changed(None, manifest(2) | {"status": status})
    assert told.view.brokers[2].uses_tls
    has_plain = [told.view.has_plain_brokers]
    for is_fenced in (False, True):
        told.see(1, fenced=is_fenced)
        has_plain.append(told.view.has_plain_brokers)
    assert has_plain == [False, True, False]


def test_who_was_never_seen_alive_is_not_named() -> None:
    told = Told()
    told.see(1)
    told.see(2, fenced=True)
    told.see(3, session=0, admittedIncarnation=None)
    assert told.named == [1]


def test_who_is_retired_is_not_named() -> None:
    told = Told()
    told.see(1)
    told.see(2)
    told.see(2, fenced=True, retired=True)
    assert told.named == [1]


def test_who_is_back_is_named_for_good() -> None:
    told = Told()
    told.see(2)
    told.see(2, fenced=True)
    told.see(2, session=2)
    told.clock.time_ms += int(LINGER_S * 1000)
    told.see(1)
    assert told.named == [1, 2]


def test_it_is_forgotten_though_nothing_else_happens() -> None:
    async def scenario() -> None:
        told = Told()
        told.see(1)
        told.see(2)
        forgetting = asyncio.get_running_loop().create_task(
            told.brokers.keep_view_current(told.view)
        )
        told.see(2, fenced=True)
        assert told.named == [1, 2]
        for _ in range(10):  # turns of the loop; the clock runs as soon as somebody sleeps
            await asyncio.sleep(0)
        assert told.named == [1]
        forgetting.cancel()

    asyncio.run(scenario())
