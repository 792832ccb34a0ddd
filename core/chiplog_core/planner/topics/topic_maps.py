"""Plans the changes of PartitionMaps; all changes of one map in a plan are one write.

A map goes through a series of pure edits: the spec of its Topic, confirmations of brokers, reports
about their disks, the leaders' proposals, elections, and moves of leaderships. If the result
differs from the version that was read, it replaces that version. A Topic with problems in its spec
changes nothing: the topic stays as it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from chiplog_core.config.given import given_topic_config
from chiplog_core.model.actions import (
    Announce,
    Create,
    DeleteMap,
    EventType,
    LeaderChange,
    Replace,
)
from chiplog_core.model.broker_capacity import BrokerCapacity
from chiplog_core.model.partition_map import Generation, PartitionMap, PartitionMapSpec
from chiplog_core.model.topic import Topic
from chiplog_core.naming import api, labels
from chiplog_core.observed.settings import paused, unmanaged
from chiplog_core.planner.leadership.elections import elect_all
from chiplog_core.planner.leadership.leader_orders import order_all
from chiplog_core.planner.leadership.preferred import prefer_all
from chiplog_core.planner.leadership.proposals import judge_all
from chiplog_core.planner.leadership.regression import (
    NOTHING_ACCEPTED,
    Loss,
    accepted_losses,
    settle_all,
)
from chiplog_core.planner.moves.admin_reassignments import begin_all
from chiplog_core.planner.moves.reassignment import reassign_all
from chiplog_core.planner.moves.throttles import throttled_map
from chiplog_core.planner.moves.wanted_replicas import (
    ReplicaMover,
    Wanted,
    count_copies,
    internal_load,
    leaving_brokers,
)
from chiplog_core.planner.placement.assignments import creations, in_force, why_not_placed
from chiplog_core.planner.placement.growth import grown
from chiplog_core.planner.placement.volume_room import VolumeRoom, find_volume_room
from chiplog_core.planner.topics.deletion import confirmed, map_of_deleted_topic, unconfirmed
from chiplog_core.planner.topics.internal_topics import (
    config_without_owner,
    desired_internal_topics,
    replicas_without_owner,
)
from chiplog_core.planner.topics.maps_plan import MapsPlan, Situation, Wait
from chiplog_core.planner.topics.new_maps import (
    NOT_POSSIBLE,
    DesiredTopic,
    NewMaps,
    PlacementChecks,
    desired_topic,
)
from chiplog_core.planner.topics.topic_config import configured, flushed
from chiplog_core.validate.topic import check_partition_count


class MapPlanner:
    """Plans all PartitionMaps of a cluster."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._world = situation.world
        self._plan = MapsPlan()
        self._placement = PlacementChecks(situation, self._plan)
        self._new = NewMaps(situation, self._plan, self._placement)
        # A replica on a retired broker never returns: it is replaced, too.
        self._leaving = leaving_brokers(situation.world.brokers) | {
            broker_id
            for broker_id, broker in situation.world.brokers.items()
            if broker.spec.retired
        }
        self._mover: ReplicaMover | None = None

    def plan(self) -> MapsPlan:
        """Plan the change of each map, and new maps for topics that have none."""
        owners = self._situation.ownership.owners
        for name in sorted(self._world.maps.keys() | owners.keys()):
            observed = self._world.maps.get(name)
            if observed is not None:
                self._change(observed, owners.get(name))
            else:
                self._begin(desired_topic(owners[name], self._situation.settings))
        for desired in desired_internal_topics(self._world, self._situation.settings):
            self._begin(desired)
        return self._plan

    def _begin(self, desired: DesiredTopic) -> None:
        """Plan the creation of a topic's map, unless it must wait."""
        new_map = self._new.first_map(desired)
        if new_map is not None:
            self._plan.changing.add(desired.name)
            self._plan.actions.append(Create(resource=new_map))

    def _change(self, observed: PartitionMap, owner: Topic | None) -> None:
        """Plan the changes of one map, or its deletion. `owner` is None if no Topic owns its
        name."""
        brokers, answers = self._situation.brokers, self._situation.answers
        spec = observed.spec
        if self._situation.settings.cluster is not None and not (owner and paused(owner.metadata)):
            spec = self._desired_spec(spec, owner)
            has_live_owner = owner is not None and owner.metadata.deletion_timestamp is None
            if not has_live_owner and self._is_finished(observed, spec):
                self._plan.actions.append(DeleteMap(resource=observed))
                return
        # Without a Topic, as for an internal topic, the annotations of the map itself count.
        annotated = observed.metadata if owner is None else owner.metadata
        annotation = annotated.annotations.get(labels.UNCLEAN_ELECTION, "")
        accepted = accepted_losses(annotation) if annotation else NOTHING_ACCEPTED
        spec = throttled_map(spec, self._situation.throttles)
        spec, losses = settle_all(spec, brokers, answers, accepted)
        spec = judge_all(spec, brokers, answers.proposals)
        spec = elect_all(spec, brokers)
        spec = reassign_all(spec, brokers, self._situation.move_reports, observed.spec)
        spec = begin_all(spec, brokers, self._situation.reassignments, observed.spec)
        spec = self._moving(spec, owner, observed.spec)
        spec = order_all(spec, brokers, self._situation.orders)
        spec = prefer_all(spec, brokers, self._situation.moves)
        if spec is observed.spec or spec == observed.spec:
            return
        is_deletion = owner is not None and len(spec.tombstones) > len(observed.spec.tombstones)
        self._plan.changing.add(spec.topic_name)
        changes = leader_changes(observed.spec, spec)
        self._plan.actions.append(
            Replace(
                resource=replace(observed, spec=spec),
                before=observed,
                weight=sum(change.after is not None for change in changes),
                leader_changes=changes,
                deleted_topic=owner.metadata if is_deletion and owner is not None else None,
            )
        )
        self._plan.actions += _announced(losses, owner, observed)

    def _is_finished(self, observed: PartitionMap, spec: PartitionMapSpec) -> bool:
        """Whether nothing is left of the topic, so that its map can be deleted.

        Only what the observed map says counts, not what this plan is about to write, except for the
        confirmations of tombstones in `spec`.
        """
        is_empty = observed.spec.current is None and not observed.spec.generations
        return (
            is_empty and spec.current is None and not unconfirmed(spec) and self._world.is_complete
        )

    def _desired_spec(self, spec: PartitionMapSpec, owner: Topic | None) -> PartitionMapSpec:
        """The map as its owner's spec asks for it; without an owner, as the cluster's spec does."""
        spec = confirmed(spec, self._world)
        if owner is None:
            own = config_without_owner(spec, self._situation.settings, self._world)
            return self._with_inherited(spec, own)
        if owner.metadata.deletion_timestamp is not None:
            return (
                map_of_deleted_topic(spec, owner, self._world) if self._world.is_complete else spec
            )
        if unmanaged(owner.metadata):
            return spec
        if spec.current is None:
            return self._with_new_generation(spec, owner)
        if spec.owner_uid != owner.metadata.uid:
            spec = replace(spec, owner_uid=owner.metadata.uid)
        return self._matched(spec, owner)

    def _matched(self, spec: PartitionMapSpec, owner: Topic) -> PartitionMapSpec:
        """The map with the configuration and the number of partitions of its Topic. If the Topic's
        spec has problems, only inherited configuration changes."""
        uid = owner.metadata.uid
        current = _current(spec)
        if self._situation.ownership.problems[uid]:
            return self._with_inherited(spec)
        problems = check_partition_count(len(current.partitions), owner.spec)
        if problems:
            self._plan.problems[uid] = problems
            return self._with_inherited(spec)
        wanted = owner.spec.partitions or len(current.partitions)
        if wanted > len(current.partitions):
            spec = self._with_partitions(spec, current, wanted, owner)
        inherited = self._situation.settings.inherited
        own = given_topic_config(owner.spec.config).values
        spec = configured(
            spec,
            own,
            spec.inherited_config if inherited is None else inherited,
            owner.spec.asked_replicas,
        )
        return flushed(spec, self._world)

    def _moving(
        self, spec: PartitionMapSpec, owner: Topic | None, before: PartitionMapSpec
    ) -> PartitionMapSpec:
        """The map with the next moves of replicas that its Topic or the cluster asks for."""
        wanted = self._wanted_replicas(spec, owner)
        if wanted is None or all(
            wanted.is_met_by(state)
            for generation in spec.generations
            for state in generation.partitions
        ):
            return spec
        if self._mover is None:
            brokers = self._situation.brokers
            targets = replace(self._placement.targets, room=self._room())
            self._mover = ReplicaMover(
                brokers,
                targets,
                replace(targets, load=internal_load(self._world.maps)),
                count_copies(self._world.maps, brokers, self._situation.reassignments),
                self._plan.moves_waiting,
            )
        return self._mover.begin(spec, wanted, before)

    def _room(self) -> VolumeRoom:
        """The room on the brokers' volumes."""
        cluster = self._situation.settings.valid_cluster
        limits = cluster.spec.broker_capacity if cluster is not None else None
        return find_volume_room(self._world, (limits or BrokerCapacity()).max_disk_percent)

    def _wanted_replicas(self, spec: PartitionMapSpec, owner: Topic | None) -> Wanted | None:
        """How the replicas of a map should be placed; None if nothing may move now."""
        cluster = self._situation.settings.valid_cluster
        if cluster is None or not self._world.is_complete:
            return None
        ordered = self._situation.replica_orders.get(spec.topic_name, {})
        if owner is None:
            replicas = replicas_without_owner(spec, self._situation.settings, self._world)
            return Wanted(replicas, self._leaving, ordered)
        metadata = owner.metadata
        if metadata.deletion_timestamp is not None or paused(metadata):
            return None
        has_problems = bool(
            self._situation.ownership.problems[metadata.uid]
            or self._plan.problems.get(metadata.uid)
        )
        follows_spec = not (unmanaged(metadata) or has_problems)
        if not follows_spec:
            return Wanted(None, self._leaving, ordered)
        asked = owner.spec
        if asked.assignments:
            self._report_assignments(spec, owner)
        assigned = in_force(asked, self._world.brokers)
        return Wanted(asked.asked_replicas, self._leaving, ordered, assigned)

    def _report_assignments(self, spec: PartitionMapSpec, owner: Topic) -> None:
        """Let the Topic's status say which of its assignments cannot be followed now, and why."""
        why = why_not_placed(
            owner.spec, spec.current_partitions, self._world, self._situation.brokers
        )
        if why:
            message = (
                f"spec.assignments cannot be followed: {why}; correct it, or start the broker. "
                "Until then these partitions stay on brokers that they have"
            )
            self._plan.waits.setdefault(owner.metadata.uid, Wait(NOT_POSSIBLE, message))

    def _with_inherited(
        self, spec: PartitionMapSpec, own: Mapping[str, str] | None = None
    ) -> PartitionMapSpec:
        """The map with the cluster's present inherited configuration. `own` is the topic's own
        configuration; None: as the map has it."""
        inherited = self._situation.settings.inherited
        if spec.current is None or inherited is None:
            return spec
        return flushed(
            configured(spec, spec.config if own is None else own, inherited), self._world
        )

    def _with_partitions(
        self, spec: PartitionMapSpec, current: Generation, wanted: int, owner: Topic
    ) -> PartitionMapSpec:
        """The map whose current generation has grown to `wanted` partitions, if brokers and limits
        allow it; otherwise unchanged."""
        replicas = owner.spec.asked_replicas or current.replication_factor
        uid, added = owner.metadata.uid, wanted - len(current.partitions)
        told, new = creations(owner.spec), range(len(current.partitions), wanted)
        if not self._placement.can_place(new, replicas, told, uid):
            return spec
        if not self._placement.reserve_capacity(uid, topics=0, partitions=added):
            return spec
        larger = grown(current, wanted, replicas, self._placement.targets, told)
        generations = tuple(
            larger if generation is current else generation for generation in spec.generations
        )
        return replace(spec, generations=generations)

    def _with_new_generation(self, spec: PartitionMapSpec, owner: Topic) -> PartitionMapSpec:
        """The map of a deleted topic with a generation for the new Topic of that name; unchanged
        until every broker has confirmed that the old data is deleted."""
        if waiting := unconfirmed(spec):
            ids = ", ".join(map(str, waiting))
            message = (
                f"a topic of this name was deleted, and broker {ids} has not yet confirmed that "
                "its data is deleted; the name is free after that"
            )
            self._plan.waits[owner.metadata.uid] = Wait("WaitingForDeletion", message)
            return spec
        first = self._new.first_spec(desired_topic(owner, self._situation.settings))
        return spec if first is None else first


def _current(spec: PartitionMapSpec) -> Generation:
    """The current generation of a topic that is not deleted."""
    return next(
        generation for generation in spec.generations if generation.topic_id == spec.current
    )


def leader_changes(before: PartitionMapSpec, after: PartitionMapSpec) -> tuple[LeaderChange, ...]:
    """The partitions whose leader in `after` is on another broker or in another session than in
    `before`, including those that have no leader any more."""
    leaders = {
        (generation.topic_id, state.partition): state.leader
        for generation in before.generations
        for state in generation.partitions
    }
    return tuple(
        LeaderChange(partition=state.partition, before=leader, after=state.leader)
        for generation in after.generations
        for state in generation.partitions
        if (leader := leaders.get((generation.topic_id, state.partition))) != state.leader
    )


def _announced(
    losses: tuple[Loss, ...], owner: Topic | None, observed: PartitionMap
) -> Iterator[Announce]:
    """Events for elections that may have lost records: about the Topic, else about the map."""
    involved = observed if owner is None else owner
    for loss in losses:
        yield Announce(
            kind=involved.KIND.kind,
            api_version=api.API_VERSION,
            metadata=involved.metadata,
            type=EventType.WARNING,
            reason="UncleanElection",
            message=str(loss),
        )
