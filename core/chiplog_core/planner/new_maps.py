"""Maps of topics that have none: partitions are placed as soon as there is room for them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from chiplog_core.planner.admin_topics import partitions_of
from chiplog_core.planner.elections import elect_all
from chiplog_core.planner.growth import Room
from chiplog_core.planner.maps_plan import MapsPlan, Situation, Wait
from chiplog_core.planner.placement import Load
from chiplog_core.planner.rebuild import rebuild
from chiplog_core.planner.topic_config import configured
from chiplog_core.topic_name import is_internal

ASSEMBLY_TIME = timedelta(seconds=60)
"""How long the first topics of a cluster wait for its last brokers, so that they are spread over
all of them. After that they go to the brokers there are: better uneven than never."""

REQUEUE_AFTER_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTopic:
    """A topic as its Topic, or the cluster itself, wants it to be made."""

    name: str
    owner_uid: Uid | None
    """None for a topic of the cluster itself."""
    partitions: int
    replicas: int
    config: Mapping[str, str]
    lost_id: TopicId | None = None
    """The id it had, where there was a map of it."""
    had_partitions: int = 1
    is_spread_alone: bool = False
    """Whether it is placed as if there were no other topic."""
    remedy: str = ""
    """What else can be done where its map is lost."""

    @property
    def wait_key(self) -> str:
        """The key under which the plan says why the topic waits."""
        return self.owner_uid or self.name


def desired_topic(owner: Topic, settings: Settings) -> DesiredTopic:
    """What a Topic asks for, with the cluster's defaults."""
    return DesiredTopic(
        name=owner.topic_name,
        owner_uid=owner.metadata.uid,
        partitions=owner.spec.partitions or settings.partitions,
        replicas=owner.spec.replicas or settings.replicas,
        config=given_topic_config(owner.spec.config).values,
        lost_id=owner.status.topic_id,
        had_partitions=owner.status.partitions or 1,
        remedy=". To start empty instead, delete this Topic and create one with another name",
    )


class Places:
    """Brokers for new partitions."""

    def __init__(self, situation: Situation, plan: MapsPlan) -> None:
        self._situation = situation
        self._plan = plan
        self._room: Room | None = None
        self._capacity: Capacity | None = None
        self._assembling = self._awaited_brokers()

    @property
    def room(self) -> Room:
        if self._room is None:
            self._room = self._situation.find_room()
        return self._room

    def suffice_for(self, replicas: int, wait_key: str) -> bool:
        """Whether brokers can take the topic now. If not, the plan gets the reason."""
        waits = self._plan.waits
        if self._assembling:
            which = ", ".join(map(str, self._assembling))
            waits[wait_key] = Wait("WaitingForBrokers", f"waiting for broker {which} to start")
            self._plan.requeue_after_ms = REQUEUE_AFTER_MS
            return False
        if self._situation.settings.inherited is None:
            waits[wait_key] = Wait(
                "WaitingForCluster", "the spec of the BrokerCluster is refused or cannot be read"
            )
            return False
        available = len(self.room.racks)
        if available < replicas:
            message = f"needs {replicas} brokers that are ready, and there are {available}"
            waits[wait_key] = Wait("WaitingForBrokers", message)
            return False
        return True

    def take(self, wait_key: str, *, topics: int, partitions: int) -> bool:
        """Whether the cluster's limits allow this many more. If not, the plan gets the reason.

        Existing topics may exceed the limits; only new ones are checked here.
        """
        if self._capacity is None:
            partition_counts = partitions_of(self._situation.world)
            self._capacity = Capacity.of(
                self._situation.settings.limits,
                topics=len(partition_counts),
                partitions=sum(partition_counts.values()),
            )
        why = self._capacity.why_no_room(topics=topics, partitions=partitions)
        if why:
            self._plan.waits[wait_key] = Wait("ClusterFull", why)
            return False
        self._capacity = self._capacity.with_more(topics=topics, partitions=partitions)
        return True

    def _awaited_brokers(self) -> tuple[BrokerId, ...]:
        """Brokers that were never admitted. Empty once the cluster has a user's topic."""
        maps = self._situation.world.maps
        if any(
            partition_map.spec.generations
            for name, partition_map in maps.items()
            if not is_internal(name)
        ):
            return ()
        return tuple(filter(self._is_awaited, self._situation.broker_ids))

    def _is_awaited(self, broker_id: BrokerId) -> bool:
        """Whether the broker is still starting for the first time."""
        broker = self._situation.world.brokers.get(broker_id)
        if broker is None:
            return True
        since = broker.metadata.creation_timestamp
        is_late = since is not None and self._situation.now - since > ASSEMBLY_TIME
        return broker.spec.session == 0 and not is_late


class NewMaps:
    """What a topic without a map begins with; why it cannot begin goes into the plan."""

    def __init__(self, situation: Situation, plan: MapsPlan, places: Places) -> None:
        self._situation = situation
        self._plan = plan
        self._places = places

    def first_map(self, desired: DesiredTopic) -> PartitionMap | None:
        """The new map; None if it must wait. If a map was lost, it has the data that the topic
        had before."""
        if desired.lost_id is None:
            generation = self._first_generation(desired)
        else:
            generation = self._rebuilt(desired.lost_id, desired)
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
        """The map of a topic without any data; None if it must wait."""
        generation = self._first_generation(desired)
        return None if generation is None else self._spec(desired, generation)

    def _first_generation(self, desired: DesiredTopic) -> Generation | None:
        """The topic's first partitions; None if they must wait."""
        if not self._places.suffice_for(desired.replicas, desired.wait_key):
            return None
        is_users = not is_internal(desired.name)
        if is_users and not self._places.take(
            desired.wait_key, topics=1, partitions=desired.partitions
        ):
            return None
        room = self._places.room
        if desired.is_spread_alone:
            room = replace(room, load=Load())
        partitions = room.partitions((), desired.partitions, desired.replicas)
        return Generation(topic_id=self._situation.new_topic_id(), partitions=partitions)

    def _spec(self, desired: DesiredTopic, generation: Generation) -> PartitionMapSpec:
        inherited = self._situation.settings.inherited or {}
        spec = PartitionMapSpec(
            cluster=self._situation.world.metadata.name,
            topic_name=desired.name,
            owner_uid=desired.owner_uid,
            current=generation.topic_id,
            min_isr=1,
            durability=Durability(TopicConfig(desired.config, inherited)[DURABILITY]),
            generations=(generation,),
        )
        return configured(spec, desired.config, inherited)

    def _rebuilt(self, topic_id: TopicId, desired: DesiredTopic) -> Generation | None:
        """The partitions of a topic whose map was lost, from the brokers' reports; None if
        reports are missing."""
        brokers, reports = self._situation.brokers, self._situation.answers.reports
        found = rebuild(topic_id, desired.had_partitions, brokers, reports)
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
    shown = ", ".join(map(str, partitions[:10]))
    more = " and more" if len(partitions) > 10 else ""
    return f"partition {shown}{more}"
