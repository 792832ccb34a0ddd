"""Brokers on nodes that are about to be drained.

`kubectl drain` cordons a node before it evicts its pods. A broker there gets `intent: Drain`, so it
gives up its leaderships before its pod is evicted: the eviction then costs no election. When the
node is uncordoned, or the pod runs on another node, it is a normal broker again.
"""

from chiplog_core.ids import BrokerId
from chiplog_core.observed.world import World


def cordoned_brokers(world: World) -> frozenset[BrokerId]:
    """The brokers whose pods are on cordoned nodes."""
    cordoned = {name for name, node in world.nodes.items() if node.cordoned}
    if not cordoned:
        return frozenset()
    return frozenset(broker_id for broker_id, pod in world.pods.items() if pod.node in cordoned)


def why_not_scheduled(world: World, broker_id: BrokerId) -> str:
    """Why the pod of a broker has no node, if that is because of the node for which its volume was
    made, and the remedy; else empty."""
    pod, claim = world.pods.get(broker_id), world.claims.get(broker_id)
    if pod is None or pod.node or claim is None or not claim.node or not world.nodes:
        return ""
    node = world.nodes.get(claim.node)
    where = f"its volume was made on node {claim.node}"
    if node is None:
        return (
            f"{where}, which does not exist any more. If the volume can be used only there, "
            f"{_REMEDY.format(pod=pod.name)}"
        )
    if node.cordoned:
        return (
            f"{where}, which is cordoned. If the volume can be used only there, uncordon the node "
            f"(kubectl uncordon {claim.node}), or, if it will not come back, "
            f"{_REMEDY.format(pod=pod.name)}"
        )
    return ""


_REMEDY = (
    "start the broker with an empty volume: kubectl annotate pod {pod} "
    "chiplog.dev/delete-pod-and-pvc=true"
)
