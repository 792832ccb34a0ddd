"""Brokers are asked what their disks know with every list of PartitionMaps, and waited for."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_operator.caches import ClusterKey
from chiplog_operator.maps_checks import MapsChecks

NAMESPACE, CLUSTER = "shop", "demo"
KEY = ClusterKey(NAMESPACE, CLUSTER)


async def start(bench: Any) -> None:
    """A cluster of three brokers that serve, and a topic."""
    for kind, name in ((kinds.DEFINITIONS, "topics.chiplog.dev"), (kinds.NAMESPACES, NAMESPACE)):
        await bench.api.create(kind, {"metadata": {"name": name}}, field_manager="test")
    await bench.apply_cluster()
    await bench.apply_topic("orders", partitions=3)
    await bench.clock.advance(1)
    await bench.start_brokers()
    await bench.live(4.5)


def asked(bench: Any) -> set[str]:
    return {one["spec"].get("mapsCheck", "") for one in bench.api.all_of(kinds.BROKERS)}


def test_all_brokers_are_asked_by_one_name_and_by_another_after_the_next_list(bench: Any) -> None:
    seen: list[set[str]] = []

    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            seen.append(asked(bench))
            await bench.live(30)
            seen.append(asked(bench))
            await bench.api.break_watches()
            await bench.live(6)
            seen.append(asked(bench))
            bench.api.compact()
            await bench.api.break_watches()
            await bench.live(6)
            seen.append(asked(bench))
        async with bench.running():
            await bench.live(3)
            seen.append(asked(bench))

    bench.run(scenario())
    assert all(len(one) == 1 and "" not in one for one in seen)
    first, later, *others = (next(iter(one)) for one in seen)
    assert first == later
    assert len({first, *others}) == 4


def test_nothing_is_decided_before_a_living_broker_has_answered(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            assert sorted(bench.leaders("orders")) == ["1@1", "2@1", "3@1"]
            one = bench.brokers[1]
            one.incarnation, one.is_silent = "1" * 32, True
            await one.register()
            await bench.live(6)
            broker = bench.one(kinds.BROKERS, names.broker(CLUSTER, BrokerId(1)))
            assert broker["spec"]["session"] == 2
            assert sorted(bench.leaders("orders")) == ["1@1", "2@1", "3@1"]
            one.is_silent = False
            await bench.live(3)
            assert sorted(bench.leaders("orders")) == ["1@2", "2@1", "3@1"]

    bench.run(scenario())


def manifest(version: int, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": "m", "uid": uid, "resourceVersion": str(version)}}


@dataclass
class Told:
    changes: list[str]

    def all_clusters_changed(self) -> None:
        self.changes.append("changed")


def checks(changes: list[str] | None = None) -> MapsChecks:
    told = Told([] if changes is None else changes)
    return MapsChecks(map("look-{}".format, count(1)).__next__, told)


def test_only_a_map_that_went_back_asks_anew() -> None:
    one = checks()
    one.listed("")
    one.read(KEY, manifest(5), manifest(6))
    one.read(KEY, None, manifest(1))
    assert one.of(KEY) == "look-1"
    one.read(KEY, manifest(6), manifest(5))
    assert one.of(KEY) == "look-2"
    one.read(KEY, manifest(6), manifest(7, uid="another"))
    assert one.of(KEY) == "look-3"
    one.read(KEY, manifest(6), None)
    assert one.of(KEY) == "look-4"
    assert one.of(ClusterKey("other", CLUSTER)) == "look-1"


def test_a_list_stands_for_its_namespace_or_for_all() -> None:
    changes: list[str] = []
    one = checks(changes)
    assert one.of(KEY) == ""
    one.start_check_of(KEY)
    one.listener_for("other").listed()
    assert one.of(KEY) == "look-1"
    one.listener_for(NAMESPACE).listed()
    assert (one.of(KEY), one.of(ClusterKey("other", "x"))) == ("look-3", "look-2")
    assert len(changes) == 3
