"""What an action is about: its object, how urgent it is, and words for the log."""

from chiplog_core.model.actions import (
    Action,
    Announce,
    Create,
    DeleteClaim,
    DeleteGroup,
    DeleteMap,
    RebuildVolume,
    Replace,
    Report,
    RequestRestarts,
    RestartPod,
    SetMetadata,
    WriteTopic,
    WriteUser,
)
from chiplog_core.model.metadata import Metadata
from chiplog_kube import kinds
from chiplog_kube.kinds import Kind

KIND_OF: dict[str, Kind] = {
    kind.kind: kind
    for kind in (
        kinds.BROKER_CLUSTERS,
        kinds.TOPICS,
        kinds.CONSUMER_GROUPS,
        kinds.USERS,
        kinds.VERIFICATIONS,
        kinds.REBALANCES,
        kinds.BROKERS,
        kinds.PARTITION_MAPS,
    )
}


def rank_of(action: Action) -> tuple[int, int]:
    """Sort key of actions, the most urgent first: replacing Brokers and PartitionMaps (those with
    more weight, like elections, before others), then other changes, then Events and statuses."""
    match action:
        case Replace():
            return (0, -action.weight)
        case Create() | SetMetadata() | WriteTopic() | WriteUser() | DeleteMap() | DeleteGroup():
            return (1, 0)
        case RestartPod() | RequestRestarts():
            return (1, 0)
        case RebuildVolume() | DeleteClaim():
            return (1, 1)  # after the writes that they wait for anyway
        case Announce() | Report():
            return (2, 0)


def target_of(action: Action) -> tuple[Kind, Metadata] | None:
    """The kind and metadata of the object that an action writes; None if no cache has it."""
    match action:
        case Create() | Replace() | DeleteMap():
            return KIND_OF[action.resource.KIND.kind], action.resource.metadata
        case WriteTopic():
            return kinds.TOPICS, action.metadata
        case WriteUser():
            return kinds.USERS, action.metadata
        case DeleteGroup():
            return kinds.CONSUMER_GROUPS, action.metadata
        case Report() | SetMetadata():
            return KIND_OF[action.kind.kind], action.metadata
        case Announce() | RestartPod() | RequestRestarts() | RebuildVolume() | DeleteClaim():
            return None


def facts_of(action: Action) -> dict[str, str]:
    """The fields of the action for the log."""
    match action:
        case Announce():
            return {"reason": action.reason, "object": action.metadata.name}
        case RestartPod() | RebuildVolume():
            return {"object": action.pod_name}
        case DeleteClaim():
            return {"object": action.claim_name}
        case RequestRestarts():
            return {"object": ", ".join(action.stateful_sets)}
        case _:
            target = target_of(action)
            return {"object": target[1].name} if target else {}
