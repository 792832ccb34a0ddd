"""The pod of a leader is killed while orders come in: what is seen of it, and what is lost."""

import time
from dataclasses import dataclass

from rich.table import Table

from e2e.cluster.console import console
from e2e.cluster.kubectl import eventually
from e2e.cluster.target import current_target
from e2e.demo import topic
from e2e.demo.first_program import progress
from e2e.demo.load import Load
from e2e.demo.topic import PARTITIONS, TOPIC
from e2e.main import replicas
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.cluster_metadata import told
from e2e.main.replicas import Place

PARTITION = 0
BEFORE, AFTER = 300, 300
"""So many orders are acknowledged before the kill, and after all is whole again."""
LIMIT_S = 120


@dataclass(slots=True)
class Seen:
    """One look at the topic that the map and kcat agreed on."""

    places: list[Place]


def kill_leader(cluster: BrokerClusterUnderTest, before: list[int], texts: list[str]) -> None:
    """Kill the leader of `orders-0` under load, and check that everything is there.

    `texts` are the records that were in the topic after the offsets `before`.
    """
    replicas.wait_in_sync(cluster)
    before_kill = look(cluster)
    describe(before_kill, "before")
    leader = replicas.leader_of(cluster, TOPIC, PARTITION)
    pod = replicas.pod_of(cluster, leader)
    with progress() as bars, Load(cluster.bootstrap, first_number=len(texts)) as load:
        bar = bars.add_task("orders acknowledged", total=None)

        def acknowledged(count: int) -> bool:
            bars.update(bar, completed=len(load.acknowledged))
            assert not load.refused, load.refused[:3]
            return len(load.acknowledged) >= count

        eventually("orders are acknowledged", lambda: acknowledged(BEFORE), LIMIT_S)
        killed_s = time.monotonic()
        how = kill(cluster, leader)
        console.print(f"{how}: broker {leader}, which leads {TOPIC}-{PARTITION}")
        describe(next_reign(cluster, before_kill), "after it")
        bars.update(bar, completed=len(load.acknowledged))
        replicas.wait_in_sync(cluster)
        whole_s = time.monotonic() - killed_s
        describe(look(cluster), f"{whole_s:.0f} s after the kill")
        so_far = len(load.acknowledged)
        eventually("orders go on", lambda: acknowledged(so_far + AFTER), LIMIT_S)
    assert not load.refused, load.refused[:3]
    gap_s = load.gap_s(PARTITION, killed_s)
    console.print(
        f"for {gap_s:.2f} s no order in {TOPIC}-{PARTITION} was acknowledged; "
        f"{pod} was in sync with everything again after {whole_s:.0f} s"
    )
    console.print(f"{len(load.acknowledged)} orders were acknowledged under way, none was refused")
    topic.check_texts(cluster.bootstrap, before, [*texts, *(one.text for one in load.acknowledged)])


def kill(cluster: BrokerClusterUnderTest, broker: int) -> str:
    """End a broker without letting it hand over; returns how."""
    if current_target().has_faults:
        replicas.kill(cluster, broker)
        return "kill -9"
    pod = replicas.pod_of(cluster, broker)
    cluster.kubectl("delete", "pod", pod, "--now", "--wait=false")
    return f"kubectl delete pod {pod} --now"


def look(cluster: BrokerClusterUnderTest) -> list[Place]:
    """The topic by its map, once kcat is told the same of leaders and in-sync replicas."""
    found = Seen([])

    def agreed() -> bool:
        found.places = replicas.places(cluster, TOPIC)
        answer = told(cluster.bootstrap, TOPIC)
        of_map = {one.partition: (one.leader, set(one.in_sync)) for one in found.places}
        leaders, in_sync = answer.leaders[TOPIC], answer.in_sync[TOPIC]
        of_kcat = {number: (leaders[number], set(in_sync[number])) for number in range(PARTITIONS)}
        assert of_kcat == of_map, f"kcat is told {of_kcat}, the map says {of_map}"
        return True

    eventually("kcat is told what the map says", agreed, LIMIT_S)
    return found.places


def next_reign(cluster: BrokerClusterUnderTest, before: list[Place]) -> list[Place]:
    """The topic when somebody leads again.

    Which replicas are in sync then depends on who is quicker, these looks or the broker's return.
    """
    found = Seen([])

    def begun() -> bool:
        found.places = look(cluster)
        return found.places[PARTITION].leader_epoch > before[PARTITION].leader_epoch

    eventually(f"{TOPIC}-{PARTITION} has a new leader epoch", begun, LIMIT_S)
    return found.places


def describe(places: list[Place], when: str) -> None:
    """The topic as `kafka-topics.sh --describe` shows it; kcat was told the same."""
    table = Table("Partition", "Leader", "Replicas", "Isr", title=f"{TOPIC}, {when}")
    for one in places:
        table.add_row(
            str(one.partition),
            "none" if one.leader is None else str(one.leader),
            ",".join(map(str, one.replicas)),
            ",".join(map(str, one.in_sync)),
        )
    console.print(table)
    console.print("kcat is told the same leaders and in-sync replicas")
