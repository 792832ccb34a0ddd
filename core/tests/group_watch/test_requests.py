"""Whom to ask what about groups and partitions."""

from chiplog_core.group_watch.lags import Moment
from chiplog_core.group_watch.requests import Coordinators, position_requests
from chiplog_core.groups.at import At
from chiplog_core.groups.placement import partition_of
from chiplog_core.limits import MAX_EXCHANGED_OFFSETS
from tests.group_watch.cluster import OFFSETS, topic_map

COUNT = 3
IDS = {partition_of(name, COUNT): name for name in ("a", "b", "c", "d", "e", "f", "g")}
"""A group for each partition."""


def test_a_coordinator_is_the_leader_of_the_groups_partition() -> None:
    coordinators = Coordinators.of(topic_map(OFFSETS, [1, None, 2]))

    assert [coordinators.of_group(IDS[number]) for number in range(COUNT)] == [1, None, 2]
    requests = coordinators.requests(IDS.values(), all_groups=False)
    assert {broker_id: one.groups for broker_id, (one,) in requests.items()} == {
        1: (IDS[0],),
        2: (IDS[2],),
    }


def test_for_all_groups_each_leader_is_asked_about_its_partitions_and_nobody_about_others() -> None:
    coordinators = Coordinators.of(topic_map(OFFSETS, [1, None, 1]))

    ((broker_id, (request,)),) = coordinators.requests((), all_groups=True).items()

    assert broker_id == 1
    assert request.groups == ()
    assert [one.partition for one in request.partitions] == [0, 2]


def test_before_there_is_a_map_nobody_coordinates() -> None:
    nobody = Coordinators.of(None)

    assert nobody.partition_of("a") is None
    assert nobody.of_group("a") is None
    assert nobody.requests(["a"], all_groups=False) == {}


def test_the_times_of_one_partition_fit_into_one_request_and_the_rest_waits() -> None:
    orders = At("orders", 0)
    times = [Moment(orders, offset) for offset in range(MAX_EXCHANGED_OFFSETS + 5)]

    ((_, (request,)),) = position_requests(
        [], times, {"orders": topic_map("orders", [1])}.get
    ).items()

    (partition,) = request.topics[0].partitions
    assert partition.offsets == tuple(range(MAX_EXCHANGED_OFFSETS))


def test_a_partition_without_a_leader_is_asked_of_nobody() -> None:
    maps = {"orders": topic_map("orders", [1, None])}

    found = position_requests([At("orders", 0), At("orders", 1), At("gone", 0)], [], maps.get)

    ((broker_id, (request,)),) = found.items()
    (topic,) = request.topics
    assert broker_id == 1
    assert [one.partition for one in topic.partitions] == [0]
