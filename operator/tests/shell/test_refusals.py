"""A whole operator that keeps connections to its brokers: what it believes, and what it leaves."""

import asyncio
import logging
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_core.planner.leadership.refusals import BETWEEN_MS
from chiplog_kube import kinds
from tests.shell.pod_network import REFUSED, RESET, TIMED_OUT, UNREACHABLE, PodNetwork

NAMESPACE, CLUSTER = "shop", "demo"
RENEWAL_S = 1.5


def host(number: int) -> str:
    return f"10.1.0.{number}"


class Connected:
    """A cluster whose brokers can be connected to."""

    def __init__(self, bench: Any, caplog: pytest.LogCaptureFixture) -> None:
        self.bench = bench
        self.net = bench.net = PodNetwork()
        self._caplog = caplog
        caplog.set_level(logging.INFO, "chiplog_operator.refusals")

    async def begin(self, replicas: int = 3) -> None:
        for kind, name in ((kinds.DEFINITIONS, "topics.chiplog.dev"), (kinds.NAMESPACES, "shop")):
            await self.bench.api.create(kind, {"metadata": {"name": name}}, field_manager="test")
        await self.bench.apply_cluster()
        await self.bench.clock.advance(1)
        await self.bench.start_brokers()
        for number in (1, 2, 3):
            self.net.listen(host(number), self.bench.brokers[number].incarnation)
            await self.add_pod(number)
        await self.bench.live(4.5)
        await self.bench.apply_topic("orders", partitions=3, replicas=replicas)
        await self.bench.live(3)
        assert self.leaders() == [1, 2, 3]

    async def add_pod(self, number: int, address: str | None = None) -> None:
        await self.bench.add_pod(number, host(number) if address is None else address)

    async def remove_pod(self, number: int) -> None:
        name = names.pod(CLUSTER, BrokerId(number))
        await self.bench.api.delete(kinds.PODS, NAMESPACE, name)

    def leaders(self) -> list[int | None]:
        texts = self.bench.leaders("orders")
        return [int(one.split("@")[0]) if one else None for one in texts]

    def broker(self, number: int) -> Any:
        return self.bench.one(kinds.BROKERS, names.broker(CLUSTER, BrokerId(number)))["spec"]

    def said(self, event: str) -> list[Any]:
        return [one for one in self._caplog.records if one.getMessage() == event]

    def run(self, scenario: Any) -> None:
        async def whole() -> None:
            async with self.bench.running():
                await scenario()

        self.bench.run(whole())


@pytest.fixture
def cluster(bench: Any, caplog: pytest.LogCaptureFixture) -> Connected:
    return Connected(bench, caplog)


def test_a_process_that_ends_is_replaced_without_a_word_of_the_kubelet(cluster: Connected) -> None:
    async def scenario() -> None:
        await cluster.begin()
        tried = cluster.net.tried[host(1)]
        cluster.net.die(host(1))
        await cluster.bench.clock.advance(0.2)
        assert cluster.leaders() == [2, 2, 3]
        assert cluster.broker(1)["fenced"]
        assert cluster.net.tried[host(1)] == tried + 2
        (line,) = cluster.said("process_refused")
        assert line.broker == 1
        assert line.incarnation == cluster.bench.brokers[1].incarnation
        await cluster.bench.live(9, without=(1,))
        assert cluster.leaders() == [2, 2, 3]

    cluster.run(scenario)


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (REFUSED,),
        (UNREACHABLE,),
        (TIMED_OUT,),
        (RESET,),
        (REFUSED, UNREACHABLE),
        (REFUSED, TIMED_OUT),
        (REFUSED, RESET),
        (UNREACHABLE, REFUSED),
        (RESET, REFUSED, REFUSED),
    ],
    ids=str,
)
def test_a_connection_that_ends_proves_nothing_unless_two_are_refused(
    cluster: Connected, faults: tuple[OSError, ...]
) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.net.close(host(1), *faults)
        await cluster.bench.clock.advance(0.2)
        await cluster.bench.live(30)
        assert cluster.leaders() == [1, 2, 3]
        assert cluster.broker(1)["session"] == 1
        assert not cluster.said("process_refused")
        assert not cluster.said("refusal_not_believed")
        assert cluster.net.open_to(host(1)) == 1, "it is connected to again"

    cluster.run(scenario)


def test_a_process_that_lives_after_all_is_admitted_anew(cluster: Connected) -> None:
    """The network lied: that costs a session."""

    async def scenario() -> None:
        await cluster.begin()
        cluster.net.close(host(1), REFUSED, REFUSED)
        await cluster.bench.clock.advance(0.2)
        assert cluster.broker(1)["fenced"]
        assert cluster.leaders() == [2, 2, 3]
        await cluster.bench.live(RENEWAL_S)
        assert cluster.broker(1)["fenced"], "that renewal may have been on its way"
        await cluster.bench.live(2 * RENEWAL_S)
        spec = cluster.broker(1)
        assert not spec.get("fenced")
        assert spec["session"] == 2
        assert spec["admittedIncarnation"] == cluster.bench.brokers[1].incarnation
        await cluster.bench.live(9)
        assert cluster.net.open_to(host(1)) == 1, "and watched again"
        cluster.net.die(host(1))
        await cluster.bench.clock.advance(0.2)
        assert cluster.broker(1)["fenced"]

    cluster.run(scenario)


def test_only_one_in_five_seconds_is_believed(cluster: Connected) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.net.die(host(1))
        await cluster.bench.clock.advance(0.2)
        assert cluster.leaders() == [2, 2, 3]
        cluster.net.die(host(2))
        await cluster.bench.clock.advance(0.2)
        assert cluster.leaders() == [2, 2, 3]
        assert not cluster.broker(2).get("fenced")
        (line,) = cluster.said("refusal_not_believed")
        assert line.broker == 2

    cluster.run(scenario)


def test_after_that_the_next_one_is(cluster: Connected) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.net.die(host(1))
        await cluster.bench.live(BETWEEN_MS / 1000 + RENEWAL_S, without=(1,))
        cluster.net.die(host(2))
        await cluster.bench.clock.advance(0.2)
        assert cluster.broker(2)["fenced"]
        assert cluster.leaders() == [3, 3, 3]

    cluster.run(scenario)


def test_a_broker_with_the_only_replica_is_left_to_the_kubelet(cluster: Connected) -> None:
    async def scenario() -> None:
        await cluster.begin(replicas=1)
        cluster.net.die(host(1))
        await cluster.bench.clock.advance(0.2)
        assert not cluster.broker(1).get("fenced")
        (line,) = cluster.said("refusal_not_believed")
        assert "no other in-sync replica of orders-0" in line.reason

    cluster.run(scenario)


def test_another_process_at_the_address_is_not_taken_for_the_admitted_one(
    cluster: Connected,
) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.net.listen(host(1), "f" * 32)
        cluster.net.close(host(1))
        await cluster.bench.live(9)
        cluster.net.die(host(1))
        await cluster.bench.live(9)
        assert cluster.leaders() == [1, 2, 3]
        assert [one.reason for one in cluster.said("process_not_watched")] == [
            "another process answers at this address"
        ]

    cluster.run(scenario)


@pytest.mark.parametrize("fault", [REFUSED, UNREACHABLE, TIMED_OUT], ids=str)
def test_one_that_was_never_reached_is_tried_seldom_and_told_once(
    cluster: Connected, fault: OSError
) -> None:
    """As where a network policy forbids it."""

    async def scenario() -> None:
        cluster.net.faults[host(1)].extend([fault] * 10_000)
        await cluster.begin()
        before = cluster.net.tried[host(1)]
        await cluster.bench.live(60)
        assert cluster.net.tried[host(1)] - before <= 60 / 5 + 1
        assert len(cluster.said("process_not_watched")) == 1
        assert cluster.leaders() == [1, 2, 3]
        cluster.net.faults[host(1)].clear()
        await cluster.bench.live(9)
        assert cluster.net.open_to(host(1)) == 1

    cluster.run(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 404 Not Found\r\n\r\nthis broker runs alone\n" + "x" * 9000,
        "SSH-2.0-OpenSSH_9.2\r\n" + "x" * 9000,
        "HTTP/1.0 200 OK\r\n\r\n" + "x" * 9000,
    ],
)
def test_whoever_answers_something_else_is_not_listened_to(cluster: Connected, answer: str) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.net.answer(host(1), answer)
        cluster.net.close(host(1))
        await cluster.bench.live(9)
        assert cluster.net.open_to(host(1)) == 0
        assert [one.reason for one in cluster.said("process_not_watched")] == [
            "the answer contains no incarnation"
        ]

    cluster.run(scenario)


def test_connections_end_with_pods_and_with_the_operator(cluster: Connected) -> None:
    tasks: set[str] = set()

    def watching() -> set[str]:
        return {one.get_name() for one in asyncio.all_tasks() if "refusals" in one.get_name()}

    async def scenario() -> None:
        await cluster.begin()
        assert [cluster.net.open_to(host(number)) for number in (1, 2, 3)] == [1, 1, 1]
        tasks.update(watching())
        await cluster.remove_pod(2)
        await cluster.bench.live(RENEWAL_S)
        assert [cluster.net.open_to(host(number)) for number in (1, 2, 3)] == [1, 0, 1]
        assert len(watching()) == len(tasks) - 1
        await cluster.add_pod(2)
        await cluster.bench.live(RENEWAL_S)
        assert cluster.net.open_to(host(2)) == 1
        assert len(watching()) == len(tasks)

    cluster.run(scenario)
    assert len(tasks) == 4, "one for each broker, and one that looks after them"
    assert [cluster.net.open_to(host(number)) for number in (1, 2, 3)] == [0, 0, 0]


def test_a_pod_that_was_replaced_is_not_what_was_connected_to(cluster: Connected) -> None:
    """The address goes to another pod before the operator has looked: it is not believed."""

    async def scenario() -> None:
        await cluster.begin()
        await cluster.remove_pod(1)
        await cluster.add_pod(1, "10.1.0.9")
        cluster.net.die(host(1))
        await cluster.bench.live(3)
        assert not cluster.said("process_refused")
        assert cluster.leaders() == [1, 2, 3]

    cluster.run(scenario)


def test_a_process_that_hangs_is_not_refused(cluster: Connected) -> None:
    async def scenario() -> None:
        await cluster.begin()
        cluster.net.hang(host(1))
        await cluster.bench.live(3)
        assert cluster.leaders() == [1, 2, 3]
        assert cluster.net.open_to(host(1)) == 1

    cluster.run(scenario)


def test_a_fault_in_here_stops_nothing_else(
    cluster: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await cluster.begin()
        monkeypatch.setattr("chiplog_operator.refusals.reason_to_doubt", lambda *_: 1 / 0)
        cluster.net.die(host(1))
        await cluster.bench.live(15, without=(1,))
        assert cluster.said("refusals_failed")
        assert cluster.leaders() == [2, 2, 3], "its Lease has expired"

    cluster.run(scenario)
