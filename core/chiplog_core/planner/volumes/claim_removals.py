"""Deletes the volumes of brokers that were removed, if `storage.deleteClaim` says so.

Two steps, of different plans. First the decision is recorded in the Broker object
(`spec.claimRemoval`), with the uid of the claim. Then the claim is deleted. Both need the same
proof: the broker is retired, nothing runs for it, and no map and no newer report names it. The
second step is carried out only over the very objects from which it was planned.

A claim is the cluster's to delete only if the cluster owns it: the operator sets its
ownerReference while `storage.deleteClaim` is true. So Kubernetes deletes all claims with the
cluster, and none if the field was false.
"""

from collections.abc import Iterator
from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Action, DeleteClaim, Replace
from chiplog_core.model.broker import Broker, ClaimRemoval
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.world import ClaimState, World
from chiplog_core.planner.basis import basis_of
from chiplog_core.planner.moves.data_holders import holding, named_by_newer_reports


def claim_removals(world: World, settings: Settings, brokers: BrokerStates) -> Iterator[Action]:
    """The next step for the volume of each retired broker."""
    cluster = settings.valid_cluster
    if cluster is None or not cluster.spec.storage.delete_claim:
        return
    candidates = {
        broker_id: broker
        for broker_id, broker in sorted(world.brokers.items())
        if broker.spec.retired and _is_unused(world, broker_id)
    }
    is_known = world.is_complete and not (world.unreadable_maps or world.unreadable_brokers)
    is_ending = world.metadata.deletion_timestamp is not None
    if not candidates or not is_known or is_ending or brokers.unchecked_alive:
        return
    named = holding(world, brokers) | named_by_newer_reports(world)
    for broker_id, broker in candidates.items():
        if broker_id not in named:
            yield _next_step(world, broker, world.claims[broker_id])


def _is_unused(world: World, broker_id: BrokerId) -> bool:
    """Whether the broker has a claim that the cluster owns, and neither a pod nor a StatefulSet."""
    claim = world.claims.get(broker_id)
    if claim is None or claim.deleting or world.metadata.uid not in claim.owners:
        return False
    return broker_id not in world.pods and broker_id not in world.stateful_sets


def _next_step(world: World, broker: Broker, claim: ClaimState) -> Action:
    """Record the decision, or carry out the recorded one."""
    removal = ClaimRemoval(claim_name=claim.name, claim_uid=claim.uid)
    if broker.spec.claim_removal != removal:
        return Replace(resource=replace(broker, spec=replace(broker.spec, claim_removal=removal)))
    return DeleteClaim(
        broker_id=broker.spec.broker_id,
        broker=broker.metadata,
        claim_name=claim.name,
        claim_uid=claim.uid,
        basis=basis_of(world),
    )
