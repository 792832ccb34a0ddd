"""An operator that is told where to look: what one namespace refuses holds up no other."""

from collections.abc import Callable
from typing import Any

import pytest

from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden
from chiplog_kube.kinds import Kind
from tests.shell.memory_api import Call
from tests.shell.test_system import NAMESPACE, prepare, start

GONE = "gone"


@pytest.fixture(autouse=True)
def two(bench: Any) -> None:
    bench.namespaces = (NAMESPACE, GONE)


def refusing(namespace: str, *refused: Kind) -> Callable[[Call], ApiError | None]:
    """As after the Role went with its namespace; some kinds only, where they are named."""
    names = {kind.kind for kind in refused}

    def fault(call: Call) -> ApiError | None:
        if call.verb not in {"list", "watch"} or call.namespace != namespace:
            return None
        if names and call.kind not in names:
            return None
        return Forbidden(f"{call.kind} is forbidden in {namespace}")

    return fault


def allowing(_call: Call) -> ApiError | None:
    return None


def operators_writes(bench: Any) -> list[Call]:
    return [call for call in bench.api.writes() if call.field_manager != "broker"]


def test_a_namespace_that_goes_does_not_keep_others_from_failover(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.live(15)
            bench.api.fault = refusing(GONE)
            await bench.api.break_watches()
            await bench.live(6)
            await bench.live(60, without=(1,))

    bench.run(scenario())
    assert set(bench.leaders("orders")) == {"2@1", "3@1", None}


def test_nor_from_a_start(bench: Any) -> None:
    async def scenario() -> None:
        bench.api.fault = refusing(GONE)
        async with bench.running():
            await start(bench)
            await bench.live(15)

    bench.run(scenario())
    assert bench.ready(kinds.TOPICS, "orders") == ("True", "Ready")


@pytest.mark.parametrize(
    "refused", [(), (kinds.PARTITION_MAPS,), (kinds.BROKERS,), (kinds.TOPICS,), (kinds.LEASES,)]
)
def test_where_not_all_was_listed_nothing_is_decided(bench: Any, refused: tuple[Kind, ...]) -> None:
    """Brokers that hang are given up when all of it can be read again, and not before."""

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.live(15)
        bench.api.fault = refusing(NAMESPACE, *refused)
        bench.api.calls.clear()
        async with bench.running():
            await bench.live(90, without=(1,))
            assert operators_writes(bench) == []
            bench.api.fault = allowing
            await bench.live(120, without=(1,))

    bench.run(scenario())
    assert set(bench.leaders("orders")) == {"2@1", "3@1", None}


async def start_with_topic_elsewhere(bench: Any) -> None:
    """A cluster that serves a topic whose Topic is in another namespace."""
    await prepare(bench)
    await bench.apply_cluster(allowedTopicNamespaces=[GONE])
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "Topic",
        "metadata": {"namespace": GONE, "name": "orders"},
        "spec": {"clusterRef": {"name": "demo", "namespace": NAMESPACE}, "partitions": 3},
    }
    await bench.api.create(kinds.TOPICS, manifest, field_manager="kubectl")
    await bench.clock.advance(1)
    await bench.start_brokers()
    await bench.live(15)


def test_topics_elsewhere_that_cannot_be_read_are_not_taken_for_deleted(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start_with_topic_elsewhere(bench)
        before = bench.one(kinds.PARTITION_MAPS, "demo.orders")
        bench.api.fault = refusing(GONE)
        async with bench.running():
            await bench.live(90)
            assert (
                bench.one(kinds.PARTITION_MAPS, "demo.orders")["spec"]["generations"]
                == (before["spec"]["generations"])
            )
            await bench.live(60, without=(1,))

    bench.run(scenario())
    assert "1@1" not in bench.leaders("orders"), "brokers are given up all the same"


def test_topics_where_this_operator_does_not_look_are_not_made_again(bench: Any) -> None:
    """As after an upgrade, for which somebody has named fewer namespaces than were watched."""

    async def scenario() -> None:
        async with bench.running():
            await start_with_topic_elsewhere(bench)
        bench.namespaces = (NAMESPACE,)
        async with bench.running():
            await bench.live(150)
            assert len(bench.api.all_of(kinds.TOPICS)) == 1
        bench.namespaces = (NAMESPACE, GONE)
        async with bench.running():
            await bench.live(9)

    bench.run(scenario())
    assert bench.ready(kinds.TOPICS, "orders") == ("True", "Ready")
