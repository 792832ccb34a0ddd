"""Who counts as dead: only after looking again, and at once where the kubelet says so."""

import asyncio
from typing import Any

import pytest

from chiplog_kube import kinds
from chiplog_kube.api import Unavailable
from chiplog_operator.caches import ClusterKey
from chiplog_operator.liveness import Liveness

KEY = ClusterKey("shop", "demo")
ONE, TWO, THREE = (f"{number:032x}" for number in (1, 2, 3))


class Watched:
    """Leases of three brokers, and what the liveness of their processes is thought to be."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.changed = 0
        self.liveness = Liveness(bench.api, bench.clock, self)
        self.heard = self.liveness.listener_for("")
        self.renewals = 0

    def cluster_changed(self, _cluster: ClusterKey, *, urgent: bool = False) -> None:
        assert urgent
        self.changed += 1

    async def begin(self) -> None:
        for number in (1, 2, 3):
            labels = {"chiplog.dev/cluster": "demo", "chiplog.dev/broker-id": str(number)}
            meta = {"namespace": "shop", "name": f"demo-{number}", "labels": labels}
            await self.bench.api.create(kinds.LEASES, {"metadata": meta}, field_manager="op")
        self.heard.listed()
        await self.renew(1, 2, 3)

    async def renew(self, *numbers: int, is_seen: bool = True) -> None:
        self.renewals += 1
        for number in numbers:
            spec = {"holderIdentity": f"{number:032x}", "renewTime": f"t{self.renewals}"}
            lease = await self.bench.api.patch(
                kinds.LEASES, "shop", f"demo-{number}", {"spec": spec}, field_manager="b"
            )
            if is_seen:
                self.liveness.lease_changed(KEY, lease)

    async def live(self, seconds: int, *numbers: int, is_seen: bool = True) -> None:
        for _ in range(seconds):
            await self.renew(*numbers, is_seen=is_seen)
            await self.bench.clock.advance(1)

    def ended(self) -> set[str]:
        return set(self.liveness.ended(KEY))


@pytest.fixture
def watched(bench: Any) -> Watched:
    return Watched(bench)


def run(watched: Watched, scenario: Any) -> None:
    async def whole() -> None:
        await watched.begin()
        task = asyncio.create_task(watched.liveness.run())
        try:
            await scenario()
        finally:
            task.cancel()
            await asyncio.wait({task})

    watched.bench.run(whole())


def test_one_that_falls_silent_has_ended_and_one_that_renews_lives(watched: Watched) -> None:
    async def scenario() -> None:
        await watched.live(5, 1, 2, 3)
        assert watched.liveness.alive(KEY) == {ONE, TWO, THREE}
        await watched.live(4, 1, 2)
        assert watched.ended() == set()
        await watched.live(4, 1, 2)
        assert watched.ended() == {THREE}
        assert watched.liveness.alive(KEY) == {ONE, TWO}
        await watched.live(1, 1, 2, 3)
        assert watched.ended() == set()

    run(watched, scenario)


def test_renewals_that_the_watch_did_not_tell_are_found_by_the_list(watched: Watched) -> None:
    async def scenario() -> None:
        await watched.live(3, 1, 2, 3)
        await watched.live(30, 1, 2, 3, is_seen=False)
        assert watched.ended() == set()

    run(watched, scenario)


def test_without_the_list_nobody_is_given_up(watched: Watched) -> None:
    async def scenario() -> None:
        await watched.live(3, 1, 2, 3)
        watched.bench.api.fault = lambda call: Unavailable("no") if call.verb == "list" else None
        await watched.live(30, 1, 2)
        assert watched.ended() == set()
        watched.bench.api.fault = lambda _: None
        await watched.live(2, 1, 2)
        assert watched.ended() == {THREE}

    run(watched, scenario)


def test_while_the_watch_is_broken_nobody_is_given_up(watched: Watched) -> None:
    async def scenario() -> None:
        await watched.live(3, 1, 2, 3)
        watched.heard.interrupted()
        await watched.live(30, 1, 2, is_seen=False)
        assert watched.ended() == set()
        watched.heard.listed()
        await watched.live(5, 1, 2)
        assert watched.ended() == set()
        await watched.live(4, 1, 2)
        assert watched.ended() == {THREE}

    run(watched, scenario)


def test_a_stall_of_the_operator_counts_for_nobody(watched: Watched) -> None:
    async def scenario() -> None:
        await watched.live(3, 1, 2, 3)
        watched.bench.clock.jump(300)
        await watched.bench.clock.advance(3)
        assert watched.ended() == set()

    run(watched, scenario)


def test_the_kubelets_word_counts_at_once_and_for_good(watched: Watched) -> None:
    def pod(message: str) -> dict[str, Any]:
        ended = {"terminated": {"message": message, "exitCode": 1, "reason": "Error"}}
        return {"metadata": {}, "status": {"containerStatuses": [{"lastState": ended}]}}

    async def scenario() -> None:
        await watched.live(3, 1, 2, 3)
        before = watched.changed
        watched.liveness.pod_changed(KEY, pod(TWO))
        assert watched.ended() == {TWO}
        assert watched.changed == before + 1
        watched.liveness.pod_changed(KEY, pod(TWO))
        assert watched.changed == before + 1
        await watched.live(3, 1, 2, 3)
        assert watched.ended() == {TWO}
        assert TWO not in watched.liveness.alive(KEY)

    run(watched, scenario)


def test_leases_that_were_deleted_are_not_asked_for_for_ever(watched: Watched) -> None:
    """As those of a BrokerCluster that was deleted; and nobody is declared dead by that."""

    async def scenario() -> tuple[int, int]:
        await watched.begin()
        task = asyncio.create_task(watched.liveness.run())
        await watched.live(2, 1, 2, 3)
        for number in (1, 2, 3):
            await watched.bench.api.delete(kinds.LEASES, "shop", f"demo-{number}")
        await watched.bench.clock.advance(30)
        asked = len(watched.bench.api.calls)
        await watched.bench.clock.advance(60)
        task.cancel()
        return asked, len(watched.bench.api.calls)

    before, after = watched.bench.run(scenario())
    assert before == after
    assert watched.ended() == set()


def test_a_process_that_says_that_its_disk_failed_is_remembered(watched: Watched) -> None:
    words = {"message": f"{TWO} disk failed", "exitCode": 1, "reason": "Error"}
    statuses = [{"lastState": {"terminated": words}}]

    async def scenario() -> None:
        await watched.live(3, 1, 2, 3)
        assert watched.liveness.failed_disks(KEY) == frozenset()
        pod = {"metadata": {}, "status": {"containerStatuses": statuses}}
        watched.liveness.pod_changed(KEY, pod)
        assert watched.ended() == {TWO}
        assert watched.liveness.failed_disks(KEY) == {TWO}

    run(watched, scenario)
