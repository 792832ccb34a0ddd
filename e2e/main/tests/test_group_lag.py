"""The lag of groups: exact where nothing moves, never negative, and there within a second."""

import itertools
import re
import time
from collections.abc import Iterator
from statistics import median

import pytest

from e2e import measured
from e2e.clients.group_members import LibrdkafkaMember
from e2e.clients.load import Load
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.group_lag import BURST_RECORDS, Group, produce, read_often, seconds_until_shown
from e2e.main.operator import Operator
from e2e.main.setting_up import NewTopic

pytestmark = [pytest.mark.main, pytest.mark.timeout(600)]

NUMBERS = itertools.count(1)
PARTITIONS = 3
READS = 10_000 if is_full() else 2_000
BURSTS = 20 if is_full() else 5
SHOWN_LIMIT_S = 1.0
# A hang guard. The figure beside its limit is what is printed.
HANG_LIMIT_S = 5 * SHOWN_LIMIT_S
SETTLED_LIMIT_S = 30
METRICS = (
    "import urllib.request as r;"
    "print(r.urlopen('http://127.0.0.1:9404/metrics', timeout=10).read().decode())"
)
LEAST_METRIC = """
import re, sys, urllib.request as r
LINE = '^kafka_consumergroup_lag(?:_sum)?{.*consumergroup="' + sys.argv[1] + '".*} (.*)$'
found = []
for _ in range(500):
    text = r.urlopen('http://127.0.0.1:9404/metrics', timeout=10).read().decode()
    found += map(float, re.findall(LINE, text, re.M))
print(len(found), min(found))
"""


def scraped(operator: Operator) -> str:
    """What Prometheus would scrape from the active operator."""
    return operator.kubectl.execute(operator.leader()["metadata"]["name"], "python3", "-c", METRICS)


@pytest.fixture
def group(cluster: BrokerClusterUnderTest, new_topic: NewTopic) -> Iterator[Group]:
    """A group with a topic of its own, of which it has consumed nothing."""
    name = f"group-lag-{next(NUMBERS)}"
    topic = new_topic(name, PARTITIONS, replicas=3)
    yield Group(cluster.kubectl, cluster.bootstrap, name, topic, PARTITIONS)
    cluster.kubectl("delete", "ccg", name, "--ignore-not-found")


def test_status_and_metric_are_list_offsets_minus_offset_fetch(
    cluster: BrokerClusterUnderTest, operator: Operator, group: Group
) -> None:
    produce(group.bootstrap, group.topic, PARTITIONS, 300)
    group.commit({0: 60, 1: 0})
    group.apply(cluster.name, maxLag={"records": 50})
    expected = {0: 60, 1: 0}
    assert group.by_kafka() == expected

    def agree() -> bool:
        assert group.reported() == expected
        assert group.measured(scraped(operator)) == expected
        return True

    eventually("status and metric agree", agree, SETTLED_LIMIT_S)
    status = group.status()
    assert (status["state"], status["totalLag"], status["maxLag"]) == ("Empty", 60, 60)
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    found = {one["type"]: (one["status"], one["reason"]) for one in conditions}
    assert found["LagWithinObjective"] == ("False", "LagTooLarge")
    shown = cluster.kubectl("get", "ccg", group.name)
    assert re.search(rf"{group.name} +demo +Empty +0 +60 +60 +True", shown), shown


def test_a_lag_is_never_negative_under_load(
    cluster: BrokerClusterUnderTest, operator: Operator, group: Group
) -> None:
    # Its reader commits a hundred records at a time: on a busy machine it comes to the last
    # partition late, and a partition without a commit has no lag.
    group.commit(dict.fromkeys(range(PARTITIONS), 0))
    with Load(group.bootstrap, group.topic, PARTITIONS) as load:
        reader = LibrdkafkaMember(group.bootstrap, group.name, group.topic).start()
        group.apply(cluster.name)
        eventually(
            "the lag of all partitions is told",
            lambda: len(group.reported()) == PARTITIONS and min(group.reported().values()) >= 0,
            SETTLED_LIMIT_S,
        )
        began_s = time.monotonic()
        found = read_often(group, READS)
        leader = operator.leader()["metadata"]["name"]
        of_metric = operator.kubectl.execute(
            leader, "python3", "-c", LEAST_METRIC, group.name, timeout_s=300
        )
        seconds = time.monotonic() - began_s
        acknowledged = load.acknowledged()
        reader.stop()
    count, least = of_metric.split()
    measured.note(
        f"lag under load: {READS} reads of the object and {count} of the metric in "
        f"{seconds:.0f} s, {acknowledged} records: never below {min(found)} and "
        f"{float(least):.0f} (limit 0), at most {max(found)}"
    )
    assert min(found) >= 0
    assert float(least) >= 0
    assert len(set(found)) > 1, "nothing moved"


def test_an_injected_lag_is_shown_within_a_second(
    cluster: BrokerClusterUnderTest, group: Group
) -> None:
    group.commit(dict.fromkeys(range(PARTITIONS), 0))
    group.apply(cluster.name)
    found = []
    for _ in range(BURSTS):
        group.commit(dict.fromkeys(range(PARTITIONS), 0))
        eventually("all is consumed", lambda: group.status().get("totalLag") == 0, 30)
        found.append(seconds_until_shown(group, HANG_LIMIT_S))
        assert group.by_kafka() == group.reported()
    measured.note(
        f"lag of {BURST_RECORDS} records shown {len(found)} times after the load's end: "
        f"p50 {median(found):.2f} s, worst {max(found):.2f} s (limit {SHOWN_LIMIT_S:.0f} s)"
    )
