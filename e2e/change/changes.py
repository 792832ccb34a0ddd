"""What an administrator changes on a running cluster: replicas, brokers, nodes, the image.

Each change returns when it is complete, and leaves three brokers behind as it found them.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.naming import labels, names
from e2e.change.kafkas_tool import plan_of, reassign
from e2e.change.moved import broker_ids, wait_pods, wait_quiesced, wait_replicas
from e2e.change.spec import configure
from e2e.chaos.scene import Scene, check_effect
from e2e.cluster import layout, node
from e2e.cluster.kubectl import eventually
from e2e.main.replicas import places, pod_of, wait_in_sync
from e2e.spark.rebalances import RebalanceUnderTest, lead_all

SCALE_LIMIT_S = 240
ROLL_LIMIT_S = 300
DRAIN_LIMIT_S = 120
BROKER_IMAGE = "chiplog/broker"
# An image under this name has the same content: pods that ask for it are other pods.
OTHER_TAG = "again"


@dataclass(frozen=True, slots=True)
class Change:
    """A change, with its name in tables; `make` returns when it is complete."""

    name: str
    make: Callable[[Scene], None]


def replication_factor(scene: Scene) -> None:
    """Replication factor 1, 3, 2 and 3 again."""
    for count in (1, 3, 2, 3):
        set_replicas(scene, count)
    eventually("the Topic says so", lambda: has_replicas(scene, 3), 10)


def set_replicas(scene: Scene, count: int) -> None:
    """Change the number of replicas of the topic, and wait until it has them."""
    change = json.dumps({"spec": {"replicas": count}})
    scene.cluster.kubectl("patch", "ct", scene.topic, "--type=merge", "-p", change)
    wait_replicas(scene.cluster, scene.topic, count)


def has_replicas(scene: Scene, count: int) -> bool:
    """Whether the status of the Topic has this number, and no change any more."""
    status = scene.cluster.kubectl.get("ct", scene.topic)["status"]
    return bool(status["replicas"] == count and "replicasChange" not in status)


def brokers_added_and_removed(scene: Scene) -> None:
    """Two brokers are added, get replicas of every partition, and are removed again."""
    cluster = scene.cluster
    before = sorted(broker_ids(scene.cluster))
    cluster.kubectl("scale", f"cbc/{cluster.name}", f"--replicas={len(before) + 2}")
    cluster.wait_cluster_ready(SCALE_LIMIT_S)
    added = sorted(broker_ids(scene.cluster) - set(before))
    check_effect("two more brokers", len(added) == 2)
    spread(scene, scene.topic, [*added, *before])
    check_effect("replicas on the added brokers", set(added) <= set(scene.brokers()))
    cluster.kubectl("scale", f"cbc/{cluster.name}", f"--replicas={len(before)}")
    wait_quiesced(cluster, SCALE_LIMIT_S)
    wait_pods(cluster, *before, limit_s=SCALE_LIMIT_S)


def spread(scene: Scene, topic: str, brokers: Sequence[int]) -> None:
    """Give each partition three of the brokers as replicas, beginning with the next one each."""
    count = len(places(scene.cluster, topic))
    targets = {
        number: [brokers[(number + step) % len(brokers)] for step in range(3)]
        for number in range(count)
    }
    reassign(scene.cluster, plan_of(topic, targets), "--execute")
    wait_quiesced(scene.cluster, SCALE_LIMIT_S)


def moved_by_kafkas_tool(scene: Scene) -> None:
    """Every partition goes from two of three brokers to two others, leaders included."""
    set_replicas(scene, 2)  # a reassignment must keep the number that the spec has
    ids = sorted(broker_ids(scene.cluster))
    for shift in (1, 2):
        targets = [
            [ids[(number + shift + step) % len(ids)] for step in range(2)]
            for number in range(len(scene.places()))
        ]
        reassign(scene.cluster, plan_of(scene.topic, dict(enumerate(targets))), "--execute")
        wait_quiesced(scene.cluster, SCALE_LIMIT_S)
        found = [list(place.replicas) for place in scene.places()]
        check_effect(f"replicas {targets}, not {found}", found == targets)
    set_replicas(scene, 3)


def node_drained(scene: Scene) -> None:
    """A leader's node is cordoned and drained, and put back to use."""
    drain_node_of(scene, scene.some_leader())


def drain_node_of(scene: Scene, broker: int) -> None:
    """Cordon and drain the node of a broker, put it back to use, and wait for the broker."""
    cluster, operator = scene.cluster, scene.operator
    where, session = scene.node(broker).name, scene.session(broker)
    try:
        cluster.kubectl("cordon", where)
        cluster.kubectl(
            *("drain", where, "--ignore-daemonsets", "--delete-emptydir-data", "--force"),
            f"--timeout={DRAIN_LIMIT_S}s",
            timeout_s=DRAIN_LIMIT_S + 30,
        )
    finally:
        cluster.kubectl("uncordon", where)
    scene.wait_admitted(broker, session)
    operator.wait_whole()


def volume_replaced(scene: Scene) -> None:
    """A leader gets a new, empty volume, and copies everything from the others."""
    cluster, broker = scene.cluster, scene.some_leader()
    pod, claim = pod_of(cluster, broker), names.volume_claim(cluster.name, BrokerId(broker))
    session, before = scene.session(broker), cluster.uids("pvc")[claim]
    cluster.kubectl("annotate", "pod", pod, f"{labels.DELETE_POD_AND_PVC}=true")
    scene.wait_admitted(broker, session)
    check_effect(f"another claim than before of {pod}", cluster.uids("pvc")[claim] != before)


def evened_out(scene: Scene) -> None:
    """Everything is put on two brokers, one of which leads all; then a Rebalance, measured by the
    brokers, spreads it."""
    cluster, partitions = scene.cluster, range(len(scene.places()))
    set_replicas(scene, 2)
    all_on_two = plan_of(scene.topic, {one: [1, 2] for one in partitions})
    reassign(cluster, all_on_two, "--execute")
    wait_quiesced(cluster, SCALE_LIMIT_S)
    lead_all(cluster, scene.topic, 1)
    rebalance = RebalanceUnderTest(cluster.kubectl, cluster.name, "campaign")
    rebalance.apply(measure="Brokers")
    rebalance.wait("ProposalReady", SCALE_LIMIT_S)
    rebalance.say("approve")
    rebalance.wait("Ready", SCALE_LIMIT_S)
    cluster.kubectl("delete", "rebalance", rebalance.name)
    check_effect("replicas on every broker", {1, 2, 3} == set(scene.brokers()))
    set_replicas(scene, 3)


def image_rolled(scene: Scene) -> None:
    """The brokers get another image, one after the other, and then the first one again."""
    first = scene.operator.references[BROKER_IMAGE]
    other = f"{first}-{OTHER_TAG}"
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: tag(one, first, other), layout.NODES))
    roll_to(scene, other, other)
    roll_to(scene, None, first)


def tag(one: layout.Node, image: str, other: str) -> None:
    """Give an image of a node a second name."""
    names = (f"docker.io/{reference}" for reference in (image, other))
    node.ctr(one, "images", "tag", "--force", *names)


def roll_to(scene: Scene, asked_for: str | None, image: str) -> None:
    """Set `spec.image`, or remove it for None, and wait until all brokers run `image`."""
    configure(scene.cluster, image=asked_for)

    def all_run_it() -> bool:
        found = {one["metadata"]["name"]: images_of(one) for one in scene.cluster.pods()}
        others = {name: used for name, used in found.items() if used != {image}}
        assert not others, others
        return True

    eventually(f"every broker runs {image}", all_run_it, ROLL_LIMIT_S, every_s=1)
    scene.cluster.wait_cluster_ready(ROLL_LIMIT_S)
    wait_in_sync(scene.cluster)


def images_of(pod: dict[str, object]) -> set[str]:
    spec = pod["spec"]
    assert isinstance(spec, dict)
    return {str(one["image"]) for one in spec["containers"]}


CHANGES = (
    Change("replication factor 1, 3, 2, 3", replication_factor),
    Change("brokers 3, 5, 3", brokers_added_and_removed),
    Change("moved by Kafka's tool", moved_by_kafkas_tool),
    Change("node drained", node_drained),
    Change("volume replaced", volume_replaced),
    Change("evened out by a Rebalance", evened_out),
    Change("image rolled, twice", image_rolled),
)
