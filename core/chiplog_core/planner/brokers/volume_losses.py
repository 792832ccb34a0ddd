"""Brokers that lose their volume with their pod, because its claim is being deleted.

Kubernetes keeps such a claim until its pod is gone. The operator itself leaves a claim like this if
it ends in the middle of a rebuild; a person does with `kubectl delete pvc`. Until the pod is gone
the broker works, but nothing may rely on its data: it gets nothing new, does not count as a copy
when another volume is to be deleted, and its pod is deleted only as a rebuild (`volume_rebuilds`).
"""

from chiplog_core.ids import BrokerId
from chiplog_core.observed.world import World


def losing_volumes(world: World) -> frozenset[BrokerId]:
    """The brokers whose volume claims are being deleted, but for retired ones."""
    losing = frozenset(broker_id for broker_id, claim in world.claims.items() if claim.deleting)
    return losing - retired_brokers(world) if losing else losing


def retired_brokers(world: World) -> frozenset[BrokerId]:
    """The brokers that are retired: they have no data, and their pods will not come back."""
    return frozenset(one for one, broker in world.brokers.items() if broker.spec.retired)
