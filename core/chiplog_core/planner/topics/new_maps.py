"""PartitionMaps for topics without one: created as soon as brokers and limits allow the
partitions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from chiplog_core.admin.capacity import Capacity
from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.given import given_topic_config
from chiplog_core.config.topic_keys import DURABILITY, Durability
from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.metadata import Metadata, Uid
from chiplog_core.model.partition_map import Generation, PartitionMap, PartitionMapSpec
from chiplog_core.model.topic import Topic
from chiplog_core.naming import labels, names
from chiplog_core.observed.settings import Settings
from chiplog_core.planner.leadership.elections import elect_all
from chiplog_core.planner.placement.assignments import (
    Placements,
    creations,
    shown,
    why_no_place,
)
from chiplog_core.planner.placement.growth import PlacementTargets
from chiplog_core.planner.placement.striping import Load
from chiplog_core.planner.placement.too_few_brokers import why_too_few
from chiplog_core.planner.topics.admin_topics import partitions_of
from chiplog_core.planner.topics.maps_plan import MapsPlan, Situation, Wait
from chiplog_core.planner.topics.rebuild import rebuild
from chiplog_core.planner.topics.topic_config import configured
from chiplog_core.topic_name import is_internal

ASSEMBLY_TIME = timedelta(seconds=60)
"""How long the first topics of a new cluster wait until all its brokers have started, so that they
are spread over all of them. After that they are placed on the brokers that exist."""

REQUEUE_AFTER_MS = 1_000

NOT_POSSIBLE = "AssignmentNotPossible"
"""Reason of Ready: partitions cannot be on the brokers that the Topic names for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTopic:
    """A topic to create, as a Topic object or, for an internal topic, the cluster asks for it."""

    name: str
    owner_uid: Uid | None
    """uid of the Topic; None for an internal topic."""
    partitions: int
    replicas: int
    config: Mapping[str, str]
    lost_topic_id: TopicId | None = None
    """The topic's id in the status of its owner, if the topic had a map and the map was lost."""
    partitions_in_status: int = 1
    """How many partitions it had according to the owner's status, if its map was lost."""
    told: Placements = field(default_factory=dict)
    """The brokers of those partitions that a user places."""
    ignores_other_topics: bool = False
    """Whether the topic is placed as if there were no other topic."""
    remedy: str = ""
    """End of the message about a lost map: what else the owner can do."""

    @property
    def wait_key(self) -> str:
        """The key of the topic in `MapsPlan.waits`."""
        return self.owner_uid or self.name


def desired_topic(owner: Topic, settings: Settings) -> DesiredTopic:
    """The topic that a Topic object asks for. Numbers that its spec does not set are the cluster's
    defaults."""
    return DesiredTopic(
        name=owner.topic_name,
        owner_uid=owner.metadata.uid,
        partitions=owner.spec.partitions or settings.partitions,
        replicas=owner.spec.asked_replicas or settings.replicas,
        config=given_topic_config(owner.spec.config).values,
        lost_topic_id=owner.status.topic_id,
        partitions_in_status=owner.status.partitions or 1,
        told=creations(owner.spec),
        remedy=". To start empty instead, delete this Topic and create one with another name",
    )


class PlacementChecks:
    """Checks whether brokers and limits allow new partitions. If not, the reason goes into
    `MapsPlan.waits`."""

    def __init__(self, situation: Situation, plan: MapsPlan) -> None:
        """Reasons why a topic must wait are written into `plan`."""
        self._situation = situation
        self._plan = plan
        self._targets: PlacementTargets | None = None
        self._capacity: Capacity | None = None
        self._starting = self._starting_brokers()

    @property
    def targets(self) -> PlacementTargets:
        """The brokers that can take new partitions, found once per plan, when first needed."""
        if self._targets is None:
            self._targets = self._situation.find_placement_targets()
        return self._targets

    def can_place(self, partitions: range, replicas: int, told: Placements, wait_key: str) -> bool:
        """Whether there are brokers for these new partitions, each with this many replicas. `told`
        has the brokers of those that a user places. If not, the reason goes into the plan under
        `wait_key`."""
        waits = self._plan.waits
        if self._starting:
            starting = ", ".join(map(str, self._starting))
            waits[wait_key] = Wait("WaitingForBrokers", f"waiting for broker {starting} to start")
            self._plan.requeue_after_ms = REQUEUE_AFTER_MS
            return False
        if self._situation.settings.inherited is None:
            waits[wait_key] = Wait(
                "WaitingForCluster",
                "the spec of the BrokerCluster is refused or cannot be parsed: see its Ready "
                "condition",
            )
            return False
        placed = {
            number: told[number] for number in map(PartitionIndex, partitions) if number in told
        }
        if why := shown(self._why_not_told(placed, replicas)):
            message = (
                f"new partitions cannot be placed as the spec says: {why}; correct "
                "spec.assignments, or remove the entry from spec.initialAssignments"
            )
            waits[wait_key] = Wait(NOT_POSSIBLE, message)
            return False
        available = len(self.targets.refs)
        if available < replicas and len(placed) < len(partitions):
            message = why_too_few(self._situation.settings, self._situation.brokers, available)
            waits[wait_key] = Wait("WaitingForBrokers", f"needs {replicas} {message}")
            return False
        return True

    def _why_not_told(
        self, placed: Placements, replicas: int
    ) -> Iterator[tuple[PartitionIndex, str]]:
        """The partitions that cannot be created on the brokers that a user named, each with the
        reason."""
        brokers, targets = self._situation.world.brokers, self.targets
        for partition, target in sorted(placed.items()):
            why = next(filter(None, (why_no_place(one, brokers) for one in target)), "")
            if not why and len(target) != replicas:
                why = f"{len(target)} brokers are named for {replicas} replicas"
            if not why and targets.refs.keys().isdisjoint(target):
                why = f"none of its brokers ({', '.join(map(str, target))}) is running"
            if why:
                yield partition, why

    def reserve_capacity(self, wait_key: str, *, topics: int, partitions: int) -> bool:
        """Count this many more topics and partitions against the cluster's limits, if these allow
        them. Returns whether they do; if not, the reason goes into the plan under `wait_key`.

        Existing topics may exceed the limits; only new ones are checked here.
        """
        if self._capacity is None:
            partition_counts = partitions_of(self._situation.world)
            self._capacity = Capacity.of(
                self._situation.settings.limits,
                topics=len(partition_counts),
                partitions=sum(partition_counts.values()),
            )
        why = self._capacity.why_exceeded(topics=topics, partitions=partitions)
        if why:
            self._plan.waits[wait_key] = Wait("ClusterFull", why)
            return False
        self._capacity = self._capacity.with_more(topics=topics, partitions=partitions)
        return True

    def _starting_brokers(self) -> tuple[BrokerId, ...]:
        """Brokers whose first start is waited for. Empty once the cluster has a topic of a user."""
        maps = self._situation.world.maps
        if any(
            partition_map.spec.generations
            for name, partition_map in maps.items()
            if not is_internal(name)
        ):
            return ()
        return tuple(filter(self._is_first_start, self._situation.broker_ids))

    def _is_first_start(self, broker_id: BrokerId) -> bool:
        """Whether the broker was never admitted and is not older than `ASSEMBLY_TIME`."""
        broker = self._situation.world.brokers.get(broker_id)
        if broker is None:
            return True  # its object is about to be created
        created_at = broker.metadata.creation_timestamp
        is_late = created_at is not None and self._situation.now - created_at > ASSEMBLY_TIME
        return broker.spec.session == 0 and not is_late  # session 0: never admitted


class NewMaps:
    """Makes the first map of a topic. If it must wait, the reason goes into `MapsPlan.waits`."""

    def __init__(self, situation: Situation, plan: MapsPlan, placement: PlacementChecks) -> None:
        self._situation = situation
        self._plan = plan
        self._placement = placement

    def first_map(self, desired: DesiredTopic) -> PartitionMap | None:
        """The PartitionMap to create; None if the topic must wait. If the topic had a map that was
        lost, the map is rebuilt from the brokers' reports, so that the topic keeps its data."""
        if desired.lost_topic_id is None:
            generation = self._first_generation(desired)
        else:
            generation = self._rebuilt(desired.lost_topic_id, desired)
        if generation is None:
            return None
        spec = elect_all(self._spec(desired, generation), self._situation.brokers)
        cluster = self._situation.world.metadata
        return PartitionMap(
            metadata=Metadata(
                name=names.partition_map(cluster.name, desired.name),
                namespace=cluster.namespace,
                labels=labels.of_cluster(cluster.name),
            ),
            spec=spec,
        )

    def first_spec(self, desired: DesiredTopic) -> PartitionMapSpec | None:
        """The spec for a new, empty topic; None if it must wait."""
        generation = self._first_generation(desired)
        return None if generation is None else self._spec(desired, generation)

    def _first_generation(self, desired: DesiredTopic) -> Generation | None:
        """A new topic id with new, empty partitions; None if the topic must wait."""
        partitions, told = range(desired.partitions), desired.told
        if not self._placement.can_place(partitions, desired.replicas, told, desired.wait_key):
            return None
        is_of_user = not is_internal(desired.name)
        if is_of_user and not self._placement.reserve_capacity(
            desired.wait_key, topics=1, partitions=desired.partitions
        ):
            return None
        targets = self._placement.targets
        if desired.ignores_other_topics:
            targets = replace(targets, load=Load())
        placed = targets.place_partitions((), desired.partitions, desired.replicas, told)
        return Generation(topic_id=self._situation.new_topic_id(), partitions=placed)

    def _spec(self, desired: DesiredTopic, generation: Generation) -> PartitionMapSpec:
        """The spec with this generation and the desired configuration."""
        inherited = self._situation.settings.inherited or {}
        spec = PartitionMapSpec(
            cluster=self._situation.world.metadata.name,
            topic_name=desired.name,
            owner_uid=desired.owner_uid,
            current=generation.topic_id,
            min_isr=1,  # `configured` sets it from the configuration
            durability=Durability(TopicConfig(desired.config, inherited)[DURABILITY]),
            generations=(generation,),
        )
        return configured(spec, desired.config, inherited)

    def _rebuilt(self, topic_id: TopicId, desired: DesiredTopic) -> Generation | None:
        """The partitions of a topic whose map was lost, from the brokers' reports; None if
        reports are missing."""
        brokers, reports = self._situation.brokers, self._situation.answers.reports
        found = rebuild(topic_id, desired.partitions_in_status, brokers, reports)
        if isinstance(found, Generation):
            return found
        message = (
            f"the PartitionMap of topic id {topic_id} is missing and is being rebuilt from the "
            f"brokers' disks; not every replica of {_list_of(found)} has been reported "
            f"yet{desired.remedy}"
        )
        self._plan.waits[desired.wait_key] = Wait("MetadataMissing", message)
        return None


def _list_of(partitions: list[PartitionIndex]) -> str:
    """The partitions as messages name them: "partition 0, 1, 2", with "and more" after ten."""
    shown = ", ".join(map(str, partitions[:10]))
    more = " and more" if len(partitions) > 10 else ""
    return f"partition {shown}{more}"
