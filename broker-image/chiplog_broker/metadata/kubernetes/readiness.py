"""Whether the replicas here have caught up: a rolling restart waits for that."""

from collections.abc import Collection, Iterable

from chiplog_broker.metadata.kubernetes.topic_views import current_generation, held_by
from chiplog_core.ids import ReplicaRef, Session
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState


def replicas_behind(
    specs: Iterable[PartitionMapSpec],
    own: ReplicaRef,
    intact_since: Session,
    damaged: Collection[tuple[str, int]],
) -> list[str]:
    """The replicas, as `topic-partition`, that are not in sync in this session although they could
    be. `own` is this broker in this session; `damaged` are pairs of topic and partition.

    Not counted: replicas that a move is adding, damaged ones, and those of offline partitions,
    unless this broker can bring them online.
    """
    found = []
    for spec in specs:
        generation = current_generation(spec)
        for state in held_by(generation, own.broker_id) if generation else ():
            is_damaged = (spec.topic_name, state.partition) in damaged
            if not is_damaged and _is_behind(state, own, intact_since):
                found.append(f"{spec.topic_name}-{state.partition}")
    return found


def _is_behind(state: PartitionState, own: ReplicaRef, intact_since: Session) -> bool:
    """Whether this broker's replica of a partition could be in sync, but is not."""
    if own in state.isr or own.broker_id in state.adding:
        return False
    if state.leader is None and state.reports_wanted and len(state.isr) > 1:
        return False  # offline: it may wait for other replicas, or for a user's decision
    # In the ISR in an earlier session, since which nothing was lost: it can be elected.
    can_lead = any(
        replica.broker_id == own.broker_id and intact_since <= replica.session < own.session
        for replica in state.isr
    )
    return state.leader is not None or can_lead
