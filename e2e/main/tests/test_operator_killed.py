"""The operator that leads is killed by force while a Topic is made: nothing is left half done."""

import json
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e import measured
from e2e.cluster import containers, processes
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.cluster_metadata import client_metadata
from e2e.main.operator import Operator
from e2e.main.topic_watch import TopicWatch

pytestmark = [pytest.mark.main, pytest.mark.timeout(1800 if is_full() else 400)]

KILLS = 20 if is_full() else 3
PARTITIONS = 4
# The other replica takes the Lease over when it has expired.
CONVERGE_LIMIT_S = 60
# Everything the operator makes for a cluster, but for the maps of its topics.
OWN_KINDS = "sts,svc,sa,role,rolebinding,cm,secret,pdb,lease,brk"


def seed() -> int:
    """What the instants are drawn from: printed, and given again by SEED to see the same ones."""
    return int(os.environ.get("SEED") or time.time_ns() % 1_000_000)


def own_objects(cluster: BrokerClusterUnderTest) -> set[tuple[str, str, str]]:
    """Kind, name and uid of everything of the cluster but its topics."""
    return {
        (one["kind"], one["metadata"]["name"], one["metadata"]["uid"])
        for one in cluster.own(OWN_KINDS)
    }


def apply(cluster: BrokerClusterUnderTest, name: str) -> None:
    cluster.kubectl.apply(json.dumps(topic_manifest(name, PARTITIONS, cluster.name)))


def creation_s(cluster: BrokerClusterUnderTest, seen: TopicWatch) -> float:
    """How long making a Topic takes undisturbed, from its first sight to Ready."""
    apply(cluster, "killed-never")
    began_s = seen.until("killed-never")
    return seen.until("killed-never", "True") - began_s


def kill_during(
    cluster: BrokerClusterUnderTest, operator: Operator, name: str, after_s: float
) -> float:
    """Kill the leader `after_s` after a Topic appeared; seconds until the Topic is Ready."""
    processes_of_leader = containers.in_pod(operator.leader()["metadata"]["uid"])
    assert processes_of_leader, "no process of the leader was found"
    with TopicWatch(cluster.kubectl) as seen, ThreadPoolExecutor(1) as pool:
        applied = pool.submit(apply, cluster, name)
        appeared_s = seen.until(name)
        time.sleep(max(0, appeared_s + after_s - time.monotonic()))
        processes.end(processes_of_leader, signal.SIGKILL, 5)
        applied.result(60)
    return cluster.wait_ready("ct", name, CONVERGE_LIMIT_S)


def assert_made_once(cluster: BrokerClusterUnderTest, name: str) -> None:
    """The topic's object, its map and clients' metadata agree, and there is one of each."""
    topic = cluster.kubectl.get("ct", name)
    maps = [one for one in cluster.own("pmap") if one["spec"]["topicName"] == name]
    assert len(maps) == 1, [one["metadata"]["name"] for one in maps]
    spec = maps[0]["spec"]
    assert spec["ownerUID"] == topic["metadata"]["uid"]
    assert spec["current"] == topic["status"]["topicId"]
    assert [one["topicId"] for one in spec["generations"]] == [spec["current"]]
    assert not spec.get("tombstones")
    eventually(
        f"clients are told of {name}",
        lambda: client_metadata(cluster.bootstrap).is_whole(name, PARTITIONS),
        20,
    )


def paired(cluster: BrokerClusterUnderTest) -> bool:
    """Whether maps and Topics are of the same topics; those just deleted are on their way.

    A map without an owner has no Topic: that of an internal topic.
    """
    maps = {one["spec"]["topicName"] for one in cluster.own("pmap") if "ownerUID" in one["spec"]}
    topics = {
        one["spec"].get("topicName", one["metadata"]["name"])
        for one in cluster.kubectl.get("ct")["items"]
    }
    assert maps == topics, f"maps alone: {maps - topics}, Topics alone: {topics - maps}"
    return True


def test_a_topic_converges_wherever_its_creation_is_cut(
    cluster: BrokerClusterUnderTest, operator: Operator
) -> None:
    from_seed = seed()
    drawn = random.Random(from_seed)  # noqa: S311 - instants, not secrets
    cluster.wait_cluster_ready()
    before, pods = own_objects(cluster), cluster.broker_pods()
    with TopicWatch(cluster.kubectl) as seen:
        length_s = creation_s(cluster, seen)
    names = ["killed-never"]
    measured.note(
        f"SEED={from_seed}: {KILLS} kills within the {length_s * 1000:.0f} ms of a creation"
    )
    try:
        for number in range(KILLS):
            operator.wait_whole()
            after_s = drawn.uniform(0, length_s)
            names.append(f"killed-{number}")
            took_s = kill_during(cluster, operator, names[-1], after_s)
            measured.note(f"killed after {after_s * 1000:.0f} ms: Ready {took_s:.1f} s later")
            assert_made_once(cluster, names[-1])
        operator.wait_whole()
        assert own_objects(cluster) == before
        assert cluster.broker_pods() == pods, "a broker was restarted"
        eventually("every map has its Topic and every Topic its map", lambda: paired(cluster), 60)
    finally:
        cluster.kubectl("delete", "ct", *names, "--ignore-not-found", "--wait=false")
