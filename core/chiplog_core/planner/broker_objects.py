"""Plans the Broker objects of a cluster: which exist, and the operator's decisions in their specs.

Brokers are numbered from 1. The id of a retired broker is not used again, because its object holds
the last session number. A broker is removed in steps: `intent: Remove`, so that nothing is placed
on it any more; its replicas move to other brokers (`wanted_replicas`); and when no map names it,
`retired`, in a later plan that has seen the first step. Until then the removal can be undone by
setting the number of brokers back.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.actions import Action, Create, Replace
from chiplog_core.model.admin import AdminAnswer
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.naming import labels, names
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.pinned import pinning_topics
from chiplog_core.observed.sessions import in_its_session
from chiplog_core.observed.settings import Settings, config_for_brokers
from chiplog_core.observed.world import World
from chiplog_core.planner.admin.requests import AdminPlan
from chiplog_core.planner.brokers.cordoned import cordoned_brokers
from chiplog_core.planner.brokers.endpoints import broker_endpoints
from chiplog_core.planner.brokers.maintenance import under_maintenance
from chiplog_core.planner.brokers.node_ports import kept_node_ports
from chiplog_core.planner.brokers.removal_order import named_for_removal, staying_ids
from chiplog_core.planner.brokers.volume_losses import losing_volumes
from chiplog_core.planner.moves.data_holders import holding, named_by_newer_reports
from chiplog_core.planner.moves.throttles import throttle_config, throttled_broker
from chiplog_core.planner.moves.wanted_replicas import leaving_brokers
from chiplog_core.planner.news import broker_news
from chiplog_core.planner.placement.scale_in_room import being_removed, room_problems
from chiplog_core.planner.volumes.rebuild_requests import RebuildRequests, next_to_rebuild
from chiplog_core.problems import Problem
from chiplog_core.topic_name import is_internal

ADMISSION_WEIGHT = 1_000_000
"""Writes that admit or fence a broker come before those of all maps: whole brokers wait for
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersPlan:
    """The brokers that should exist, and the writes for them."""

    ids: tuple[BrokerId, ...]
    """The brokers whose Kubernetes objects, like StatefulSets, should exist."""
    actions: tuple[Action, ...]
    problems: tuple[Problem, ...] = ()
    intents: Mapping[BrokerId, BrokerIntent] = field(default_factory=dict)
    """This plan's decision for each broker, which may not be written yet."""


def plan_brokers(
    world: World,
    settings: Settings,
    brokers: BrokerStates,
    admin: AdminPlan,
    requests: RebuildRequests,
    new_topic_id: Callable[[], TopicId],
) -> BrokersPlan:
    """Create, change, admit, fence and retire brokers. `admin` has the answers to admin clients,
    and the throttles that they set; `requests` are those for new volumes."""
    wanted = _wanted(world, settings, brokers, requests)
    ids, intents = wanted.ids, wanted.intents
    removable = _removable(world, brokers) - under_maintenance(settings.cluster)
    next_specs = {
        broker_id: _answering(
            throttled_broker(
                _next_spec(
                    world,
                    settings,
                    broker,
                    intents.get(broker_id),
                    can_retire=broker_id in removable,
                ),
                admin.throttles,
            ),
            settings,
            admin.answers,
        )
        for broker_id, broker in sorted(world.brokers.items())
    }
    actions: list[Action] = []
    for broker_id, spec in next_specs.items():
        broker = world.brokers[broker_id]
        if spec != broker.spec:
            is_urgent = _urgent(spec) != _urgent(broker.spec)
            weight = ADMISSION_WEIGHT if is_urgent else 0
            news = broker_news(broker, spec)
            actions.append(Replace(resource=replace(broker, spec=spec), weight=weight, news=news))
    retired = {broker_id for broker_id, spec in next_specs.items() if spec.retired}
    actions += _creations(world, settings, ids, new_topic_id)
    return BrokersPlan(
        ids=tuple(broker_id for broker_id in ids if broker_id not in retired),
        actions=tuple(actions),
        problems=wanted.problems,
        intents=intents,
    )


def _urgent(spec: BrokerSpec) -> tuple[object, ...]:
    """The fields of a spec whose changes are written before all maps (`ADMISSION_WEIGHT`)."""
    return spec.session, spec.fenced, spec.maps_check


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The brokers that should exist now, including those that are being removed."""

    ids: list[BrokerId]
    intents: Mapping[BrokerId, BrokerIntent]
    problems: tuple[Problem, ...] = ()
    """Why brokers cannot be removed."""


def _wanted(
    world: World, settings: Settings, brokers: BrokerStates, requests: RebuildRequests
) -> _Wanted:
    """The brokers that should exist now, and what should become of each. Until everything is
    known, the existing brokers and the decisions about them stay."""
    existing = [
        broker_id for broker_id, broker in sorted(world.brokers.items()) if not broker.spec.retired
    ]
    cluster = settings.valid_cluster
    if cluster is None or not world.is_complete or world.unreadable_brokers:
        return _Wanted(existing, _present_intents(world, existing))
    named, bad_name = named_for_removal(cluster.metadata.annotations, world.brokers)
    wanted = staying_ids(world.brokers, cluster.spec.replicas, named)
    surplus = [broker_id for broker_id in existing if broker_id not in wanted]
    ids = sorted({*wanted, *surplus, *_without_object(world)})
    if surplus and world.unreadable_maps:
        # A map that cannot be parsed may have more replicas than brokers would be left.
        return _Wanted(ids, _present_intents(world, ids))
    held = under_maintenance(cluster)
    drained = cordoned_brokers(world) | held | losing_volumes(world)
    drained |= next_to_rebuild(requests, world, brokers)
    leaving: Collection[BrokerId] = surplus
    problems: tuple[Problem, ...] = ()
    if surplus:
        takers = [broker_id for broker_id in wanted if broker_id not in drained]
        no_place = _scale_in_problems(surplus, world, cluster)
        no_room = tuple(room_problems(world, cluster, brokers, surplus, wanted, takers))
        problems = no_place + no_room
        begun = being_removed(world, surplus)
        if bad_name is not None and len(begun) < len(surplus):
            problems = (bad_name, *problems)
        if no_place:
            leaving = ()
        elif problems:  # those whose removal has begun continue
            leaving = begun
    intents = dict.fromkeys(ids, BrokerIntent.SERVE)
    intents |= dict.fromkeys(drained.intersection(ids), BrokerIntent.DRAIN)
    intents |= dict.fromkeys(leaving, BrokerIntent.REMOVE)
    return _Wanted(ids, intents, problems)


def _without_object(world: World) -> frozenset[BrokerId]:
    """The brokers with a StatefulSet whose Broker object is lost, as when etcd was restored while
    they were added. They get an object again, so that they are emptied and removed like others."""
    return frozenset(world.stateful_sets) - world.brokers.keys()


def _present_intents(world: World, ids: list[BrokerId]) -> dict[BrokerId, BrokerIntent]:
    """What was decided about these brokers."""
    return {
        broker_id: world.brokers[broker_id].spec.intent
        if broker_id in world.brokers
        else BrokerIntent.SERVE
        for broker_id in ids
    }


def _removable(world: World, brokers: BrokerStates) -> frozenset[BrokerId]:
    """Those of the brokers that are being removed whose data is not needed: no map and no report of
    a newer map names them.

    None while a live broker has yet to compare its disk with the maps: these may have been restored
    from a backup, and lack the moves that were made since.
    """
    leaving = leaving_brokers(world.brokers)
    is_known = world.is_complete and not world.unreadable_maps and not brokers.unchecked_alive
    if not leaving or not is_known:  # mostly nobody leaves: then no map needs to be looked through
        return frozenset()
    return leaving - holding(world, brokers) - named_by_newer_reports(world)


def _scale_in_problems(
    surplus: Sequence[BrokerId], world: World, cluster: BrokerCluster
) -> tuple[Problem, ...]:
    """Why the brokers `surplus` cannot be removed, nor stay on their way if that has begun: topics
    have more replicas than brokers would be left, or place partitions on them by hand."""
    return (*_too_many_replicas(world, cluster), *_assigned_to(surplus, world, cluster))


def _assigned_to(
    surplus: Sequence[BrokerId], world: World, cluster: BrokerCluster
) -> Iterator[Problem]:
    """The problem that spec.assignments of Topics names brokers that would be removed.

    A broker that is being removed already does not count: its Topic says that it cannot be there.
    """
    staying = set(surplus) - being_removed(world, surplus)
    found = {}
    for topic in pinning_topics(world, cluster):
        named = {one for entry in topic.spec.assignments for one in entry.replicas} & staying
        if named:
            name = f"{topic.metadata.namespace}/{topic.metadata.name}"
            found[name] = ", ".join(map(str, sorted(named)))
    if found:
        topics = "; ".join(f"{name} (broker {ids})" for name, ids in sorted(found.items())[:10])
        more = f" and {len(found) - 10} more" if len(found) > 10 else ""
        yield Problem(
            "spec.replicas",
            f"is {cluster.spec.replicas}, but spec.assignments of these Topics names brokers that "
            f"would be removed: {topics}{more}",
            "name other brokers there first, or set it back",
        )


def _too_many_replicas(world: World, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """The problem that a topic has more replicas than brokers would be left.

    Internal topics get fewer replicas by themselves.
    """
    wanted = cluster.spec.replicas
    too_large = sorted(
        (name, replicas)
        for name, partition_map in world.maps.items()
        if not is_internal(name) and (replicas := _most_replicas(partition_map.spec)) > wanted
    )
    if not too_large:
        return ()
    topics = ", ".join(f"{name} ({replicas})" for name, replicas in too_large[:10])
    more = f" and {len(too_large) - 10} more" if len(too_large) > 10 else ""
    owned = {topic.topic_name for topic in world.topics}
    orphans = [name for name, _ in too_large if name not in owned]
    create = f" (create one for {', '.join(orphans[:10])})" if orphans else ""
    return (
        Problem(
            "spec.replicas",
            f"is {wanted}, but these topics have more replicas: {topics}{more}",
            f"set spec.replicas of these Topics to at most {wanted} first{create}, or set it back",
        ),
    )


def _most_replicas(spec: PartitionMapSpec) -> int:
    """The highest number of replicas that a partition of the map will have."""
    return max(
        (len(state.target) for generation in spec.generations for state in generation.partitions),
        default=0,
    )


def _next_spec(
    world: World,
    settings: Settings,
    broker: Broker,
    intent: BrokerIntent | None,
    *,
    can_retire: bool,
) -> BrokerSpec:
    """The broker's spec after this plan, without answers to admin clients. `intent` is None for a
    broker that should not exist, which is one that is retired. `can_retire` is whether nothing
    needs its data."""
    spec = in_its_session(world, broker)
    if world.maps_check and not spec.retired and spec.maps_check != world.maps_check:
        spec = replace(spec, maps_check=world.maps_check)
    cluster = settings.valid_cluster
    if spec.retired or cluster is None or intent is None:
        return spec
    if can_retire and intent is BrokerIntent.REMOVE and spec.intent is BrokerIntent.REMOVE:
        return replace(spec, retired=True)  # an earlier plan has written the intent
    return _described(world, cluster, settings, replace(spec, intent=intent))


def _answering(
    spec: BrokerSpec, settings: Settings, answers: Mapping[BrokerId, tuple[AdminAnswer, ...]]
) -> BrokerSpec:
    """The spec with the answers to its clients' admin requests."""
    if settings.cluster is None or spec.retired:
        return spec
    return replace(spec, answers=answers.get(spec.broker_id, spec.answers))


def _described(
    world: World, cluster: BrokerCluster, settings: Settings, spec: BrokerSpec
) -> BrokerSpec:
    """The spec with the broker's present rack, node, addresses, node ports and configuration."""
    inherited = settings.inherited
    assert inherited is not None, "a spec without problems says what topics inherit"
    throttles = throttle_config(world, cluster, spec.config)
    return replace(
        spec,
        rack=_rack(world, cluster, spec),
        node=_node(world, spec),
        endpoints=broker_endpoints(world, cluster, spec.broker_id, spec.endpoints),
        node_ports=kept_node_ports(world, cluster, spec.broker_id, spec.node_ports),
        config={**config_for_brokers(cluster, inherited), **throttles},
    )


def _rack(world: World, cluster: BrokerCluster, spec: BrokerSpec) -> str | None:
    """The rack, from the label of the pod's node; None if the cluster or the node has none. It
    stays as it was while the node is not known."""
    if cluster.spec.rack is None:
        return None
    pod = world.pods.get(spec.broker_id)
    node = None if pod is None else world.nodes.get(pod.node)
    if node is None:
        return spec.rack
    return node.labels.get(cluster.spec.rack.topology_key)


def _node(world: World, spec: BrokerSpec) -> str | None:
    """The pod's node. While there is no pod, or it waits for a node, the last one stays: replicas
    on a node that failed still share it."""
    pod = world.pods.get(spec.broker_id)
    return spec.node if pod is None or not pod.node else pod.node


def _creations(
    world: World,
    settings: Settings,
    ids: list[BrokerId],
    new_topic_id: Callable[[], TopicId],
) -> list[Action]:
    """The Broker objects to create."""
    cluster = settings.valid_cluster
    missing = [broker_id for broker_id in ids if broker_id not in world.brokers]
    if not missing or cluster is None:
        return []
    cluster_id_so_far = next(
        (broker.spec.cluster_id for _, broker in sorted(world.brokers.items())), None
    )
    # Brokers refuse data with another cluster id, so the id must survive the loss of all Broker
    # objects: it is in the cluster's status, too.
    cluster_id_so_far = cluster_id_so_far or cluster.status.cluster_id
    if cluster_id_so_far is None:
        # Only one Broker is created with a new id. The next plan, maybe of another operator, finds
        # the id there and creates the others with it.
        missing = missing[:1]
    cluster_id = cluster_id_so_far or str(
        new_topic_id()
    )  # a topic id has the same form, and is as unique
    return [
        Create(resource=_broker(world, cluster, settings, cluster_id, broker_id))
        for broker_id in missing
    ]


def _broker(
    world: World,
    cluster: BrokerCluster,
    settings: Settings,
    cluster_id: str,
    broker_id: BrokerId,
) -> Broker:
    """A new Broker object, before its first admission."""
    name = world.metadata.name
    spec = BrokerSpec(
        cluster=name, cluster_id=cluster_id, broker_id=broker_id, intent=BrokerIntent.SERVE
    )
    return Broker(
        metadata=Metadata(
            name=names.broker(name, broker_id),
            namespace=world.metadata.namespace,
            labels={**labels.of_cluster(name), labels.BROKER_ID: str(broker_id)},
        ),
        spec=_described(world, cluster, settings, spec),
    )
