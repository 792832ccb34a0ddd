"""A Rebalance by the brokers' own counters: no Spark, and clients lose nothing while it moves."""

import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from chiplog_core.naming import labels
from chiplog_core.rebalance.even import even_counts
from e2e import measured
from e2e.change.gaps import check_gaps
from e2e.change.kafkas_tool import plan_of, reassign
from e2e.change.moved import broker_ids, wait_pods, wait_quiesced
from e2e.change.spec import configure
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.cluster.kubectl import eventually
from e2e.kafka.tools import run_tool
from e2e.long_form import LONG_FORM
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.main.replicas import places
from e2e.main.setting_up import NewTopic
from e2e.main.traffic import Traffic
from e2e.spark.rebalances import RebalanceUnderTest, lead_all

pytestmark = [pytest.mark.change, pytest.mark.timeout(400)]

SIZE = 3
DATA, LOAD = "crowded", "crowded-load"
PARTITIONS = {DATA: 12, LOAD: 6}
GROWN = 12
TILTED = 9
NUMBERED = 12
RECORDS_EACH, RECORD_BYTES = 200, 10_000
PROPOSED_LIMIT_S, MOVED_LIMIT_S, LED_LIMIT_S, SHARED_LIMIT_S = 45, 90, 60, 120
EVEN_PERCENT = 5


@LONG_FORM
def test_what_is_all_on_two_brokers_is_spread_over_three(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    eventually("topics of other tests are gone", lambda: topics(cluster) == ["orders"], 60)
    for topic, partitions in PARTITIONS.items():
        new_topic(topic, partitions, replicas=2)
    crowd(cluster)
    for partition in range(PARTITIONS[DATA]):
        Librdkafka().produce(cluster.bootstrap, DATA, filling(), partition=partition)
    note_spread(cluster, "before")
    rebalance = RebalanceUnderTest(cluster.kubectl, cluster.name, "by-brokers")
    with Traffic(cluster.bootstrap, LOAD, PARTITIONS[LOAD]) as traffic:
        began_s = time.monotonic()
        rebalance.apply(measure="Brokers")
        proposal = rebalance.wait("ProposalReady", PROPOSED_LIMIT_S)["proposal"]
        proposed_s = time.monotonic() - began_s
        rebalance.say("approve")
        rebalance.wait("Ready", MOVED_LIMIT_S)
        moved_s = time.monotonic() - began_s - proposed_s
        led_s = eventually("leaders are even", lambda: is_even(led(cluster)), LED_LIMIT_S)
    cluster.kubectl("delete", "rebalance", rebalance.name)
    measured.note(
        f"Rebalance by brokers: proposed after {proposed_s:.1f} s; "
        f"{proposal['numLeaderMovements']} leaderships and {proposal['numReplicaMovements']} "
        f"replicas ({proposal['dataToMoveMB']} MB) moved in {moved_s:.1f} s, the last leaderships "
        f"{led_s:.1f} s later"
    )
    check_gaps(traffic, "a Rebalance from two brokers to three")
    assert cluster.kubectl("get", "jobs", "-o", "name").strip() == ""
    bytes_percent, leaders_percent = note_spread(cluster, "after")
    assert bytes_percent <= EVEN_PERCENT
    assert leaders_percent <= EVEN_PERCENT


def test_a_broker_that_is_added_gets_its_share_by_itself(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    # One replica each: with more of them, racks limit what a fourth broker may get.
    topic = new_topic("grown", GROWN, replicas=1)
    for partition in range(GROWN):
        Librdkafka().produce(cluster.bootstrap, topic, filling(), partition=partition)
    configure(cluster, autoRebalance=[{"mode": "add-brokers"}])
    try:
        eventually("three brokers are known", lambda: auto(cluster)["balancedBrokers"], 60)
        configure(cluster, replicas=4)
        began_s = time.monotonic()
        cluster.wait_cluster_ready(180)
        started_s = time.monotonic() - began_s
        (new,) = broker_ids(cluster) - {1, 2, 3}
        eventually(
            "the new broker has its share",
            lambda: new in auto(cluster)["balancedBrokers"],
            SHARED_LIMIT_S,
            every_s=0.5,
        )
        shared_s = time.monotonic() - began_s - started_s
        replicas = Counter(one for place in places(cluster, topic) for one in place.replicas)
        leaders = Counter(place.leader for place in places(cluster, topic))
        measured.note(
            f"brokers 3 to 4: started after {started_s:.1f} s, share moved {shared_s:.1f} s later: "
            f"{replicas[new]} replicas and {leaders[new]} leaders of {GROWN} (even: {GROWN // 4})"
        )
        # Replicas of `orders` count, too, and only one broker has any that the rack of the new one
        # may have: one more partition may make the numbers even instead.
        assert leaders[new] == replicas[new]
        assert GROWN // 4 <= replicas[new] <= GROWN // 4 + 1
        assert auto(cluster)["state"] == "Idle"
    finally:
        configure(cluster, autoRebalance=None, replicas=3)
    wait_quiesced(cluster, 180)
    wait_pods(cluster, 1, 2, 3)


@LONG_FORM
def test_leaders_that_stay_uneven_are_evened_out_in_a_window(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("tilted", TILTED, replicas=3)
    lead_all(cluster, topic, 1)
    template = RebalanceUnderTest(cluster.kubectl, cluster.name, "tilted-template")
    template.apply(measure="Brokers", goals=["LeaderReplicaDistributionGoal"])
    cluster.kubectl("annotate", "rebalance", template.name, f"{labels.REBALANCE_TEMPLATE}=true")
    mode = {"mode": "imbalance", "threshold": 30, "unevenFor": "5s", "template": template.name}
    try:
        configure(cluster, autoRebalance=[{**mode, "windows": [in_six_hours()]}])
        eventually("it waits for a window", lambda: auto(cluster)["waitsUntil"], 90, every_s=0.5)
        found = auto(cluster)
        assert (found["state"], found["leadersSkewPercent"] > 30) == ("Idle", True), found
        began_s = time.monotonic()
        configure(cluster, autoRebalance=[mode])
        eventually(
            "the leaders are even",
            lambda: spread(led(cluster, "orders", topic)) <= 1,
            SHARED_LIMIT_S,
            every_s=0.5,
        )
        even_s = time.monotonic() - began_s
        eventually("it has ended", lambda: auto(cluster)["finishedAt"], 30, every_s=0.5)
        leaders = led(cluster, "orders", topic)
        measured.note(
            f"leaders uneven by {found['leadersSkewPercent']} % (threshold 30 %): waits for the "
            f"window until {found['waitsUntil']}; without it even after {even_s:.1f} s: "
            f"{[leaders[one] for one in range(1, SIZE + 1)]}; "
            f"{auto(cluster)['runs']} Rebalance"
        )
        assert auto(cluster)["runs"] == 1
    finally:
        configure(cluster, autoRebalance=None)
        cluster.kubectl("delete", "rebalance", "--all", "--wait=false")


@LONG_FORM
def test_a_capacity_goal_that_cannot_be_met_is_told_with_figures(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    new_topic("many", TILTED, replicas=3)
    rebalance = RebalanceUnderTest(cluster.kubectl, cluster.name, "too-many")
    try:
        configure(cluster, brokerCapacity={"maxReplicas": TILTED})
        began_s = time.monotonic()
        rebalance.apply(measure="Brokers")
        message = rebalance.wait("ProposalReady", PROPOSED_LIMIT_S)["proposal"]["message"]
        took_s = time.monotonic() - began_s
        measured.note(f"capacity: after {took_s:.1f} s the proposal says: {message}")
        assert "ReplicaCapacityGoal is not met: broker 1 would hold" in message
        assert f"more than {TILTED}" in message
        configure(cluster, replicas=1)
        eventually(
            "the removal is refused",
            lambda: "spec.brokerCapacity.maxReplicas" in ready_message(cluster),
            60,
        )
    finally:
        configure(cluster, brokerCapacity=None, replicas=3)
        cluster.kubectl("delete", "rebalance", rebalance.name)


@LONG_FORM
def test_numbers_of_replicas_become_even_although_nothing_is_stored(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    eventually("topics of other tests are gone", lambda: topics(cluster) == ["orders"], 60)
    topic = new_topic("numbered", NUMBERED, replicas=1)
    reassign(cluster, plan_of(topic, {one: [1] for one in range(NUMBERED)}), "--execute")
    wait_quiesced(cluster)
    before = held(cluster, "orders", topic)
    rebalance = RebalanceUnderTest(cluster.kubectl, cluster.name, "by-number")
    began_s = time.monotonic()
    rebalance.apply(measure="Brokers", goals=["ReplicaDistributionGoal"])
    proposal = rebalance.wait("ProposalReady", PROPOSED_LIMIT_S)["proposal"]
    rebalance.say("approve")
    rebalance.wait("Ready", MOVED_LIMIT_S)
    took_s = time.monotonic() - began_s
    wait_quiesced(cluster)
    cluster.kubectl("delete", "rebalance", rebalance.name)
    after = held(cluster, "orders", topic)
    measured.note(
        f"replicas per broker {[before[one] for one in range(1, SIZE + 1)]} -> "
        f"{[after[one] for one in range(1, SIZE + 1)]} by {proposal['numReplicaMovements']} moves "
        f"in {took_s:.1f} s"
    )
    proposed = {one["broker"]: one["replicas"] for one in proposal["figures"]["after"]}
    assert proposed == dict(after)
    fewest, most = even_counts(after.total(), SIZE)
    assert all(fewest <= count <= most for count in after.values()), after
    assert not fewest <= before[1] <= most, before


@LONG_FORM
def test_the_brokers_that_a_user_names_go_first(
    cluster: BrokerClusterUnderTest, new_topic: NewTopic
) -> None:
    topic = new_topic("leaving", PARTITIONS[LOAD], replicas=3)
    configure(cluster, replicas=5)
    cluster.wait_cluster_ready(180)
    first, second = sorted(broker_ids(cluster) - {1, 2, 3})
    name = f"{labels.REMOVE_BROKER_IDS}="
    try:
        cluster.kubectl("annotate", "cbc", cluster.name, f"{name}{second + 1}")
        configure(cluster, replicas=4)
        eventually("the removal is refused", lambda: "never existed" in ready_message(cluster), 60)
        assert broker_ids(cluster) == {1, 2, 3, first, second}
        with Traffic(cluster.bootstrap, topic, PARTITIONS[LOAD]) as traffic:
            cluster.kubectl("annotate", "--overwrite", "cbc", cluster.name, f"{name}{first}")
            took_s = wait_pods(cluster, 1, 2, 3, second)
        check_gaps(traffic, f"broker {first} of five, named by a user, gone in {took_s:.0f} s")
        wait_quiesced(cluster)
        assert broker_ids(cluster) == {1, 2, 3, second}
    finally:
        configure(cluster, replicas=3)
        wait_quiesced(cluster, 180)
        wait_pods(cluster, 1, 2, 3)
        cluster.kubectl("annotate", "cbc", cluster.name, f"{labels.REMOVE_BROKER_IDS}-")


def held(cluster: BrokerClusterUnderTest, *topics: str) -> Counter[int]:
    """How many replicas of these topics each broker has."""
    return Counter(
        one for topic in topics for place in places(cluster, topic) for one in place.replicas
    )


def ready_message(cluster: BrokerClusterUnderTest) -> str:
    conditions = cluster.kubectl.get("cbc", cluster.name)["status"]["conditions"]
    return "".join(one.get("message", "") for one in conditions if one["type"] == "Ready")


def in_six_hours() -> dict[str, str]:
    """A window that is not open now."""
    hour = (datetime.now(UTC) + timedelta(hours=6)).hour
    return {"schedule": f"0 {hour} * * *", "duration": "1h"}


def auto(cluster: BrokerClusterUnderTest) -> Manifest:
    found: Manifest = cluster.kubectl.get("cbc", cluster.name)["status"]["autoRebalance"]
    return found


def topics(cluster: BrokerClusterUnderTest) -> list[str]:
    return cluster.kubectl("get", "ct", "-o", "jsonpath={.items[*].metadata.name}").split()


def filling() -> list[Record]:
    """Two megabytes."""
    return [Record(b"%010d" % number * (RECORD_BYTES // 10)) for number in range(RECORDS_EACH)]


def crowd(cluster: BrokerClusterUnderTest) -> None:
    """Put all replicas on the brokers 1 and 2, and all leaders on broker 1."""
    for topic, partitions in PARTITIONS.items():
        plan = plan_of(topic, {one: [1, 2] for one in range(partitions)})
        reassign(cluster, plan, "--execute")
    wait_quiesced(cluster)
    for topic in PARTITIONS:
        lead_all(cluster, topic, 1)
    assert led(cluster)[1] >= sum(PARTITIONS.values())


def spread(loads: Counter[int]) -> int:
    return max(loads.values()) - min(loads.values())


def led(cluster: BrokerClusterUnderTest, *topics: str) -> Counter[int]:
    """How many partitions of these topics each broker leads; by default of this test's and those
    that the cluster began with."""
    found = Counter(dict.fromkeys(range(1, SIZE + 1), 0))
    for topic in topics or ("orders", *PARTITIONS):
        found.update(one.leader for one in places(cluster, topic) if one.leader is not None)
    return found


def stored(cluster: BrokerClusterUnderTest) -> Counter[int]:
    """How many bytes of this test's data each broker has on disk, by Kafka's own tool."""
    said = run_tool(
        "kafka-log-dirs.sh",
        "--bootstrap-server",
        cluster.bootstrap,
        "--describe",
        "--topic-list",
        DATA,
    )
    (answer,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return Counter(
        {
            one["broker"]: sum(
                partition["size"]
                for directory in one["logDirs"]
                for partition in directory["partitions"]
            )
            for one in answer["brokers"]
        }
    )


def deviation_percent(loads: Counter[int]) -> float:
    """How far the worst broker is from an even share."""
    share = loads.total() / SIZE
    return max(abs(loads[broker] - share) for broker in range(1, SIZE + 1)) * 100 / share


def is_even(loads: Counter[int]) -> bool:
    assert deviation_percent(loads) <= EVEN_PERCENT, loads
    return True


def note_spread(cluster: BrokerClusterUnderTest, when: str) -> tuple[float, float]:
    """Print how even bytes and leaders are, and return it in percent."""
    sizes, leaders = stored(cluster), led(cluster)
    found = deviation_percent(sizes), deviation_percent(leaders)
    measured.note(
        f"{when}: MB per broker {[sizes[one] // 2**20 for one in range(1, SIZE + 1)]}, leaders "
        f"{[leaders[one] for one in range(1, SIZE + 1)]}; the worst is {found[0]:.1f} % and "
        f"{found[1]:.1f} % from even (limit {EVEN_PERCENT} %)"
    )
    return found
