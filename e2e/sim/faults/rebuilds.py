"""Volumes that users let the operator replace by empty ones, or whose claims they delete.

Unlike in `volumes`, nothing is lost by chance: the operator decides when a volume may go.
"""

import asyncio
from typing import Final

from chiplog_core.naming import labels, names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults import scene
from e2e.sim.faults.move_steps import serving
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node

REBUILT_WITHIN_S: Final = 40.0
BY_HAND_SHARE: Final = 0.2


async def rebuild(stage: Stage) -> None:
    """Ask for new volumes of one or two brokers, at once or one after the other.

    Sometimes a user deletes the claim instead, or takes the request back.
    """
    able = serving(stage)
    stage.world.has_changed_brokers = True
    for number in stage.chance.sample(able, min(len(able), stage.chance.choice((1, 2)))):
        node = stage.world.nodes[number]
        stage.world.count_hit(node)
        claim = _claim(stage, node)
        if claim is None:
            continue
        is_by_hand = stage.chance.random() < BY_HAND_SHARE
        if is_by_hand and _may_lose_claim(stage, node):
            stage.world.expect_lost_claim(claim["metadata"]["uid"])
            key = ObjectKey(NAMESPACE, claim["metadata"]["name"])
            stage.world.store.delete(kinds.VOLUME_CLAIMS, key)
        else:
            _annotate(stage, node, "true")
        if stage.chance.random() < 0.6 and await _is_replaced(stage, node, claim):
            stage.count_effect("volume was rebuilt")
        elif stage.chance.random() < 0.3:
            _annotate(stage, node, None)


def _may_lose_claim(stage: Stage, node: Node) -> bool:
    """Whether a user may delete the claim: other replicas are in sync, and no other claim is being
    deleted. Of two, the operator would keep both pods, and wait for the user."""
    claims = stage.world.store.all_of(kinds.VOLUME_CLAIMS)
    is_only_one = not any("deletionTimestamp" in one["metadata"] for one in claims)
    return stage.mix.replicas > 1 and is_only_one and scene.is_dispensable(stage, node)


async def _is_replaced(stage: Stage, node: Node, claim: Manifest) -> bool:
    """Wait for another claim in place of this one; False if there is none in time."""
    uid = claim["metadata"]["uid"]

    def is_replaced() -> bool:
        found = _claim(stage, node)
        return found is not None and found["metadata"]["uid"] != uid

    if not await scene.until(stage, is_replaced, REBUILT_WITHIN_S):
        return False
    await asyncio.sleep(stage.chance.choice((0.0, 0.5, 3.0)))
    return True


def _claim(stage: Stage, node: Node) -> Manifest | None:
    name = names.volume_claim(CLUSTER, node.broker_id)
    return stage.world.store.peek(kinds.VOLUME_CLAIMS, NAMESPACE, name)


def _annotate(stage: Stage, node: Node, value: str | None) -> None:
    """Set or remove the annotation of the broker's pod, if there is one."""
    key = ObjectKey(NAMESPACE, node.host)
    if stage.world.store.peek(kinds.PODS, *key) is not None:
        patch = {"metadata": {"annotations": {labels.DELETE_POD_AND_PVC: value}}}
        stage.world.store.patch(kinds.PODS, key, patch)


OF_SPECS: Final[dict[str, Act]] = {"volume rebuilt": rebuild}
