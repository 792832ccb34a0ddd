"""From Topics to PartitionMaps: every change of a map in a plan is one write.

A map goes through a series of pure edits: what its Topic wishes, what brokers confirmed, what
their disks know better, what leaders propose, who leads. What comes out is written over the
version that went in, if it differs. A Topic that is wrong in some way changes nothing, and its
last good state runs on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from chiplog_core import api, labels, names
from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.given import given_topic_config
from chiplog_core.config.topic_keys import DURABILITY, Durability
from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import Generation, PartitionMap, PartitionMapSpec
from chiplog_core.model.topic import Topic
from chiplog_core.planner.actions import Action, Announce, Create, DeleteMap, EventType, Replace
from chiplog_core.planner.deletion import confirmed, let_go, unconfirmed
from chiplog_core.planner.elections import elect_all
from chiplog_core.planner.growth import Room, grown
from chiplog_core.planner.members import Members
from chiplog_core.planner.ownership import Ownership
from chiplog_core.planner.preferred import Moves, prefer_all
from chiplog_core.planner.proposals import judge_all
from chiplog_core.planner.rebuild import rebuild
from chiplog_core.planner.regression import (
    NOTHING_ACCEPTED,
    Answers,
    Loss,
    accepted_losses,
    settle_all,
)
from chiplog_core.planner.settings import Settings, paused, unmanaged
from chiplog_core.planner.topic_config import configured, flushed
from chiplog_core.planner.world import World
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate.topic import check_partition_count

ASSEMBLY_TIME = timedelta(seconds=60)
"""How long the first topics of a cluster wait for its last brokers, so that they are spread over
all of them. After that they go to the brokers there are: better uneven than never."""

LOOK_AGAIN_MS = 1_000


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a topic is not as its spec says, though nothing is wrong with the spec."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the maps are planned from."""

    world: World
    settings: Settings
    members: Members
    answers: Answers
    moves: Moves
    ownership: Ownership
    broker_ids: tuple[BrokerId, ...]
    find_room: Callable[[], Room]
    new_topic_id: Callable[[], TopicId]
    now: datetime


@dataclass(slots=True)
class MapsPlan:
    """The writes, and what is to be told of each Topic, by its uid."""

    actions: list[Action] = field(default_factory=list)
    changing: set[str] = field(default_factory=set)
    """Names of the topics whose maps are written."""
    waits: dict[str, Wait] = field(default_factory=dict)
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """Found against the topic as it is, on top of those of the spec alone."""
    look_again_ms: int | None = None


class MapPlanner:
    """Plans all maps of a cluster, one after the other."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._world = situation.world
        self._plan = MapsPlan()
        self._room: Room | None = None
        self._assembling = self._awaited_brokers()

    def plan(self) -> MapsPlan:
        owners = self._situation.ownership.owners
        for name in sorted(self._world.maps.keys() | owners.keys()):
            observed, owner = self._world.maps.get(name), owners.get(name)
            if observed is not None:
                self._change(observed, owner)
            elif owner is not None and owner.metadata.deletion_timestamp is None:
                self._create(name, owner)
        return self._plan

    # -- a map that exists

    def _change(self, observed: PartitionMap, owner: Topic | None) -> None:
        members, answers = self._situation.members, self._situation.answers
        spec = observed.spec
        if self._situation.settings.cluster is not None and not (owner and paused(owner.metadata)):
            spec = self._wished(spec, owner)
            is_wanted = owner is not None and owner.metadata.deletion_timestamp is None
            if not is_wanted and self._is_finished(observed, spec):
                self._plan.actions.append(DeleteMap(resource=observed))
                return
        annotation = (
            "" if owner is None else owner.metadata.annotations.get(labels.UNCLEAN_ELECTION, "")
        )
        accepted = accepted_losses(annotation) if annotation else NOTHING_ACCEPTED
        spec, losses = settle_all(spec, members, answers, accepted)
        spec = judge_all(spec, members, answers.proposals)
        spec = elect_all(spec, members)
        spec = prefer_all(spec, members, self._situation.moves)
        if spec is observed.spec or spec == observed.spec:
            return
        is_deletion = owner is not None and len(spec.tombstones) > len(observed.spec.tombstones)
        self._plan.changing.add(spec.topic_name)
        self._plan.actions.append(
            Replace(
                resource=replace(observed, spec=spec),
                weight=_new_leaders(observed.spec, spec),
                deleted_topic=owner.metadata if is_deletion and owner is not None else None,
            )
        )
        self._plan.actions += _announced(losses, owner, observed)

    def _is_finished(self, observed: PartitionMap, spec: PartitionMapSpec) -> bool:
        """Whether nothing is left: decided only from what was observed to be written."""
        is_empty = observed.spec.current is None and not observed.spec.generations
        return (
            is_empty and spec.current is None and not unconfirmed(spec) and self._world.is_complete
        )

    def _wished(self, spec: PartitionMapSpec, owner: Topic | None) -> PartitionMapSpec:
        spec = confirmed(spec, self._world)
        if owner is None:
            return self._inheriting(spec)
        if owner.metadata.deletion_timestamp is not None:
            return let_go(spec, owner, self._world) if self._world.is_complete else spec
        if unmanaged(owner.metadata):
            return spec
        if spec.current is None:
            return self._named_anew(spec, owner)
        if spec.owner_uid != owner.metadata.uid:
            spec = replace(spec, owner_uid=owner.metadata.uid)
        return self._followed(spec, owner)

    def _followed(self, spec: PartitionMapSpec, owner: Topic) -> PartitionMapSpec:
        """With the configuration and the partitions of its Topic, if those can be had."""
        uid = owner.metadata.uid
        current = _current(spec)
        if self._situation.ownership.problems[uid]:
            return self._inheriting(spec)
        problems = _problems_with_change(current, owner)
        if problems:
            self._plan.problems[uid] = problems
            return self._inheriting(spec)
        wanted = owner.spec.partitions or len(current.partitions)
        if wanted > len(current.partitions):
            spec = self._with_partitions(spec, current, wanted, owner)
        inherited = self._situation.settings.inherited
        own = given_topic_config(owner.spec.config).values
        spec = configured(spec, own, spec.inherited_config if inherited is None else inherited)
        return flushed(spec, self._world)

    def _inheriting(self, spec: PartitionMapSpec) -> PartitionMapSpec:
        inherited = self._situation.settings.inherited
        if spec.current is None or inherited is None:
            return spec
        return flushed(configured(spec, spec.config, inherited), self._world)

    def _with_partitions(
        self, spec: PartitionMapSpec, current: Generation, wanted: int, owner: Topic
    ) -> PartitionMapSpec:
        if not self._has_room(len(current.partitions[0].replicas), owner):
            return spec
        larger = grown(current, wanted, self._get_room())
        generations = tuple(
            larger if generation is current else generation for generation in spec.generations
        )
        return replace(spec, generations=generations)

    # -- a map that does not

    def _named_anew(self, spec: PartitionMapSpec, owner: Topic) -> PartitionMapSpec:
        """The name of a deleted topic, for a new one as soon as nothing is left of the old."""
        if waiting := unconfirmed(spec):
            which = ", ".join(map(str, waiting))
            message = (
                f"a topic of this name was deleted, and broker {which} has not yet confirmed that "
                "its data is gone; the name is free when it has"
            )
            self._plan.waits[owner.metadata.uid] = Wait("WaitingForDeletion", message)
            return spec
        generation = self._first_generation(owner)
        return spec if generation is None else self._first_spec(owner, generation)

    def _create(self, name: str, owner: Topic) -> None:
        lost_id = owner.status.topic_id
        if lost_id is None:
            generation = self._first_generation(owner)
        else:
            generation = self._rebuilt(lost_id, owner)
        if generation is None:
            return
        spec = elect_all(self._first_spec(owner, generation), self._situation.members)
        cluster = self._world.metadata
        made = PartitionMap(
            metadata=Metadata(
                name=names.partition_map(cluster.name, name),
                namespace=cluster.namespace,
                labels=labels.of_cluster(cluster.name),
            ),
            spec=spec,
        )
        self._plan.changing.add(name)
        self._plan.actions.append(Create(resource=made))

    def _first_generation(self, owner: Topic) -> Generation | None:
        settings = self._situation.settings
        replicas = owner.spec.replicas or settings.replicas
        if not self._has_room(replicas, owner):
            return None
        count = owner.spec.partitions or settings.partitions
        partitions = self._get_room().partitions((), count, replicas)
        return Generation(topic_id=self._situation.new_topic_id(), partitions=partitions)

    def _first_spec(self, owner: Topic, generation: Generation) -> PartitionMapSpec:
        own = given_topic_config(owner.spec.config).values
        inherited = self._situation.settings.inherited or {}
        spec = PartitionMapSpec(
            cluster=self._world.metadata.name,
            topic_name=owner.topic_name,
            owner_uid=owner.metadata.uid,
            current=generation.topic_id,
            min_isr=1,
            durability=Durability(TopicConfig(own, inherited)[DURABILITY]),
            generations=(generation,),
        )
        return configured(spec, own, inherited)

    def _rebuilt(self, topic_id: TopicId, owner: Topic) -> Generation | None:
        members, reports = self._situation.members, self._situation.answers.reports
        found = rebuild(topic_id, owner.status.partitions or 1, members, reports)
        if isinstance(found, Generation):
            return found
        message = (
            f"the PartitionMap of topic id {topic_id} is gone and is rebuilt from the brokers' "
            f"disks; not every replica of {_list_of(found)} was reported yet. To start empty "
            "instead, delete this Topic and make one of another name"
        )
        self._plan.waits[owner.metadata.uid] = Wait("MetadataMissing", message)
        return None

    # -- room

    def _get_room(self) -> Room:
        if self._room is None:
            self._room = self._situation.find_room()
        return self._room

    def _has_room(self, replicas: int, owner: Topic) -> bool:
        """Whether brokers can take the topic now; else the plan says why not."""
        waits, uid = self._plan.waits, owner.metadata.uid
        if self._assembling:
            which = ", ".join(map(str, self._assembling))
            waits[uid] = Wait("WaitingForBrokers", f"waits for broker {which} to start")
            self._plan.look_again_ms = LOOK_AGAIN_MS
            return False
        if self._situation.settings.inherited is None:
            waits[uid] = Wait("WaitingForCluster", "the BrokerCluster is not in order yet")
            return False
        available = len(self._get_room().racks)
        if available < replicas:
            message = f"needs {replicas} brokers that serve, and there are {available}"
            waits[uid] = Wait("WaitingForBrokers", message)
            return False
        return True

    def _awaited_brokers(self) -> tuple[BrokerId, ...]:
        """Brokers never admitted yet, while the cluster is new and has no topic."""
        if any(one.spec.generations for one in self._world.maps.values()):
            return ()
        return tuple(filter(self._is_awaited, self._situation.broker_ids))

    def _is_awaited(self, broker_id: BrokerId) -> bool:
        broker = self._world.brokers.get(broker_id)
        if broker is None:
            return True
        since = broker.metadata.creation_timestamp
        is_late = since is not None and self._situation.now - since > ASSEMBLY_TIME
        return broker.spec.session == 0 and not is_late


def _current(spec: PartitionMapSpec) -> Generation:
    return next(one for one in spec.generations if one.topic_id == spec.current)


def _problems_with_change(current: Generation, owner: Topic) -> tuple[Problem, ...]:
    problems = check_partition_count(len(current.partitions), owner.spec)
    have, wanted = len(current.partitions[0].replicas), owner.spec.replicas
    if wanted is None or wanted == have:
        return problems
    return (
        *problems,
        Problem(
            "spec.replicas",
            f"is {wanted}, but the topic has {have} and replicas cannot be moved yet",
            f"set it back to {have}",
            Reason.NOT_SUPPORTED,
        ),
    )


def _new_leaders(before: PartitionMapSpec, after: PartitionMapSpec) -> int:
    """How many partitions get a leader by this write."""
    leaders = {
        (generation.topic_id, state.partition): state.leader
        for generation in before.generations
        for state in generation.partitions
    }
    return sum(
        state.leader is not None
        and leaders.get((generation.topic_id, state.partition)) != state.leader
        for generation in after.generations
        for state in generation.partitions
    )


def _announced(
    losses: tuple[Loss, ...], owner: Topic | None, observed: PartitionMap
) -> Iterator[Announce]:
    about = observed if owner is None else owner
    for loss in losses:
        yield Announce(
            kind=about.KIND.kind,
            api_version=api.API_VERSION,
            metadata=about.metadata,
            type=EventType.WARNING,
            reason="UncleanElection",
            message=str(loss),
        )


def _list_of(partitions: list[PartitionIndex]) -> str:
    shown = ", ".join(map(str, partitions[:10]))
    more = " and more" if len(partitions) > 10 else ""
    return f"partition {shown}{more}"
