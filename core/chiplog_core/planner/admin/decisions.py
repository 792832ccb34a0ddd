"""Decides one request of an admin client: a write to a Topic, an answer, or waiting.

First come the checks that any Kafka cluster makes (`chiplog_core.admin.checks`), then those that a
Topic's manifest goes through, then those about the Topic object: who manages it, and what its
deletion does to the records. Every refusal names the object and what to do instead.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from chiplog_core.admin.answers import PartitionVerdict, TopicCounts, Verdict
from chiplog_core.admin.checks import (
    check_configuration,
    check_creation,
    check_growth,
    check_not_internal,
)
from chiplog_core.admin.client_keys import check_broker_change, clients_part, split
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.operations import (
    ConfigureBroker,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    GrowTopic,
    OfUser,
    Operation,
    OperatorRequest,
    ReassignPartitions,
    Request,
)
from chiplog_core.admin.ownership import SPEC, Path, foreign_managers
from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.actions import WriteTopic, WriteUser
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.topic import Assignment, DeletionPolicy, Topic, TopicSpec
from chiplog_core.naming import api, labels
from chiplog_core.naming.names import object_name
from chiplog_core.observed.broker_states import BrokerStates, find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.settings import paused, unmanaged
from chiplog_core.observed.world import World, WriteResult
from chiplog_core.planner.admin.users import UserDecider
from chiplog_core.planner.admin.waiting import Waiting
from chiplog_core.planner.leadership.admin_elections import due, judged_elections
from chiplog_core.planner.moves.admin_reassignments import (
    Targets,
    Wish,
    judged_reassignments,
    targets_of,
)
from chiplog_core.planner.placement.assignments import NOWHERE, placements
from chiplog_core.planner.topics.admin_topics import Named, TopicNames, existing, facts_of
from chiplog_core.planner.topics.policies import PolicyJudge
from chiplog_core.problems import InvalidManifest, Problem, Reason
from chiplog_core.topic_name import is_internal
from chiplog_core.validate.topic import check_topic, check_topic_in_cluster

CODES = (
    ("spec.partitions", Code.INVALID_PARTITIONS),
    ("spec.replicas", Code.INVALID_REPLICATION_FACTOR),
    ("spec.initialAssignments", Code.INVALID_REPLICA_ASSIGNMENT),
    ("spec.assignments", Code.INVALID_REPLICA_ASSIGNMENT),
    ("spec.config", Code.INVALID_CONFIG),
    ("spec.topicName", Code.INVALID_TOPIC_EXCEPTION),
)
"""Beginning of a field's path -> Kafka's error code for a problem with it; a problem with any other
field is a POLICY_VIOLATION."""


@dataclass(frozen=True, slots=True)
class Electing:
    """Elections that this plan makes. A later plan, which sees the new leaders, answers the
    request."""

    topic_id: TopicId
    partitions: frozenset[PartitionIndex]


@dataclass(frozen=True, slots=True)
class Moving:
    """Reassignments that this plan begins. A later plan, which sees them in the map, answers the
    request."""

    topic_id: TopicId
    targets: Targets


@dataclass(frozen=True, slots=True)
class ThrottlingTopic:
    """Lists of throttled replicas that this plan writes into the topic's map. A later plan, which
    sees them there, answers the request."""

    name: str
    config: Mapping[str, str]
    """All that the topic then has of the clients' keys."""


@dataclass(frozen=True, slots=True)
class ThrottlingBroker:
    """Rates that this plan writes into the Broker. A later plan, which sees them there, answers the
    request."""

    broker_id: BrokerId
    config: Mapping[str, str]
    """All that the broker then has of the clients' keys."""


Decision: TypeAlias = (
    WriteTopic
    | WriteUser
    | Verdict
    | Waiting
    | Electing
    | Moving
    | ThrottlingTopic
    | ThrottlingBroker
)


class Decider:
    """Decides the requests of admin clients to one cluster, within one plan."""

    def __init__(self, world: World, cluster: BrokerCluster) -> None:
        self._world = world
        self._cluster = cluster
        self._users = UserDecider(world, cluster)
        self._names = TopicNames(world, cluster)
        self._facts = facts_of(world, cluster, self._names)
        self._policies = PolicyJudge(
            cluster=cluster,
            partitions=self._facts.default_partitions,
            replicas=self._facts.default_replicas,
            inherited=self._facts.inherited,
        )

    @cached_property
    def _brokers(self) -> BrokerStates:
        """The states of all brokers, found when the first request needs them."""
        return find_broker_states(self._world, awaiting_admission(self._world))

    def decide(self, operation: OperatorRequest, key: str) -> Decision:
        """The decision on the request in this plan. `key` identifies it among the requests of all
        brokers: the result of an earlier write for it is found by this key."""
        try:
            if isinstance(operation, OfUser):
                return self._users.decide(operation, key)
            return self._decide_on_cluster(operation, key)
        except Refused as refused:
            return Verdict(code=refused.code, message=str(refused))

    def _decide_on_cluster(self, operation: Request, key: str) -> Decision:
        """The decision on a request that is not about a user. Raises `Refused`."""
        if isinstance(operation, ElectLeaders):
            return self._elect(operation)
        if isinstance(operation, ReassignPartitions):
            return self._reassign(operation)
        if isinstance(operation, ConfigureBroker):
            return self._throttle_broker(operation)
        if isinstance(operation, ConfigureTopic):
            return self._configure(operation, key)
        return self._decide_on_topic(operation, key)

    def _decide_on_topic(self, operation: Operation, key: str) -> Decision:
        """The decision on a request that changes a Topic object. Raises `Refused`."""
        result = self._world.write_results.get(key)
        if result is not None:
            return self._after_write(operation, result)
        if isinstance(operation, CreateTopic):
            return self._create(operation, key)
        if isinstance(operation, DeleteTopic):
            return self._delete(operation, key)
        return self._change(operation, key)

    def _elect(self, operation: ElectLeaders) -> Decision:
        """The decision on ElectLeaders: elections to make, else the result for each partition."""
        generation = self._names.named(operation.name).generation
        # The client's topic id is None if it named the topic only.
        if generation is None or operation.topic_id not in {None, generation.topic_id}:
            raise _unknown(operation.name)
        found = list(judged_elections(operation, generation, self._brokers))
        if partitions := due(found):
            return Electing(generation.topic_id, partitions)
        return Verdict(
            partitions=tuple(verdict for verdict in found if isinstance(verdict, PartitionVerdict))
        )

    def _reassign(self, operation: ReassignPartitions) -> Decision:
        """The decision on AlterPartitionReassignments: moves to begin, else the result for each
        partition."""
        named = self._names.named(operation.name)
        generation = named.generation
        if named.map is None or generation is None or operation.topic_id != generation.topic_id:
            raise _unknown(operation.name)
        self._refuse_while_paused(self._world.metadata, "BrokerCluster")
        wish = Wish()
        if named.topic is not None:
            self._refuse_while_paused(named.topic.metadata, "Topic")
            wish = _wish(named.topic)
        spec = named.map.spec
        found = list(judged_reassignments(operation, spec, generation, wish, self._brokers))
        if targets := targets_of(found):
            return Moving(generation.topic_id, targets)
        return Verdict(
            partitions=tuple(verdict for verdict in found if isinstance(verdict, PartitionVerdict))
        )

    def _throttle_broker(self, operation: ConfigureBroker) -> Decision:
        """The decision on a change of a broker's configuration. Raises `Refused`."""
        broker_id = BrokerId(operation.broker_id)
        broker = self._world.brokers.get(broker_id)
        if broker is None or broker.spec.retired:
            raise Refused(Code.INVALID_REQUEST, f"there is no broker {broker_id}")
        self._refuse_while_paused(self._world.metadata, "BrokerCluster")
        wanted = check_broker_change(operation, broker.spec.config)
        if operation.validate_only or wanted == clients_part(broker.spec.config):
            return Verdict()
        return ThrottlingBroker(broker_id, wanted)

    def _configure(self, operation: ConfigureTopic, key: str) -> Decision:
        """The decision on a change of a topic's configuration: first the part in its map, then the
        part in its Topic. Raises `Refused`."""
        named = self._names.named(operation.name)
        present = {} if named.map is None else named.map.spec.client_config
        parts = split(operation, present)
        is_for_map = bool(operation.changes) and not parts.rest.changes and not operation.replace
        if not is_for_map:
            decision = self._decide_on_topic(parts.rest, key)
        elif named.generation is None:
            raise _unknown(operation.name)
        else:
            decision = Verdict(topic_uid=None if named.topic is None else named.topic.metadata.uid)
        if operation.validate_only or parts.of_clients == present:
            return decision
        self._refuse_while_paused(self._world.metadata, "BrokerCluster")
        if named.topic is not None:
            self._refuse_while_paused(named.topic.metadata, "Topic")
        return ThrottlingTopic(operation.name, parts.of_clients)

    def _after_write(self, operation: Operation, result: WriteResult) -> Decision:
        """The decision after the API server has answered the write for this request."""
        if not result.accepted:
            return Verdict(code=Code.POLICY_VIOLATION, message=result.message)
        if isinstance(operation, CreateTopic) and operation.validate_only:
            new = check_creation(operation, self._facts)
            return Verdict(would_have=TopicCounts(partitions=new.partitions, replicas=new.replicas))
        if isinstance(operation, DeleteTopic) or operation.validate_only:
            return Verdict()
        topic = self._names.named(operation.name).topic
        if isinstance(operation, CreateTopic) or topic is None:
            # Somebody deleted the Topic after it was created: it must not be created once more.
            return Waiting(
                f"the Topic object of '{operation.name}' was created, but somebody has deleted it"
            )
        return Verdict(topic_uid=topic.metadata.uid)

    def _create(self, operation: CreateTopic, key: str) -> Decision:
        """The decision on CreateTopics. Raises `Refused`."""
        name = operation.name
        named = self._names.named(name)
        if named.is_being_deleted and not operation.validate_only:
            why = f"Topic '{name}' already exists. It is being deleted: try again later"
            return Waiting(why, Code.TOPIC_ALREADY_EXISTS)
        if named.topic is None and named.map is not None and not is_internal(name):
            raise Refused(
                Code.TOPIC_ALREADY_EXISTS,
                f"Topic '{name}' already exists. Its records were kept when its Topic object was "
                "deleted: apply a Topic with that name to take them over",
            )
        new = check_creation(operation, self._facts)
        self._check_running(operation.assignments)
        self._refuse_while_paused(self._world.metadata, "BrokerCluster")
        spec = TopicSpec(
            cluster_ref=ClusterRef(name=self._cluster.metadata.name),
            topic_name=None if object_name(name) == name else name,
            partitions=new.partitions,
            replicas=new.replicas,
            config=new.config,
            initial_assignments=_assignments(operation.assignments),
        )
        metadata = Metadata(
            name=object_name(name),
            namespace=self._cluster.metadata.namespace,
            labels={labels.CLUSTER: self._cluster.metadata.name},
            annotations={labels.ADMIN_REQUEST: key},
        )
        self._refuse_taken_object(metadata, name)
        manifest = self._checked(Topic(metadata=metadata, spec=spec), named).to_manifest()
        if not operation.validate_only:
            self._use_capacity(topics=1, partitions=new.partitions)
        return WriteTopic(
            request_id=key,
            metadata=Metadata(name=metadata.name, namespace=metadata.namespace),
            create=manifest,
            dry_run=operation.validate_only,
        )

    def _check_running(self, placed: Mapping[int, tuple[int, ...]]) -> None:
        """Check that one broker of each of these new partitions can lead it. Raises `Refused`."""
        if not placed:
            return
        active = {ref.broker_id for ref in self._brokers.leaders}
        for partition, broker_ids in placed.items():
            if active.isdisjoint(map(BrokerId, broker_ids)):
                raise Refused(
                    Code.INVALID_REPLICA_ASSIGNMENT,
                    f"All brokers specified in the manual partition assignment for partition "
                    f"{partition} are fenced or in controlled shutdown.",
                )

    def _use_capacity(self, *, topics: int, partitions: int) -> None:
        """Reduce the free capacity for later requests of this plan, by what this one will
        create."""
        capacity = self._facts.capacity.with_more(topics=topics, partitions=partitions)
        self._facts = replace(self._facts, capacity=capacity)

    def _refuse_taken_object(self, metadata: Metadata, name: str) -> None:
        """Refuse the new topic `name` if its Topic object cannot be named as `metadata` says,
        because another topic's object has that name. Raises `Refused`."""
        readable = [topic.metadata for topic in self._world.topics]
        others = [
            unreadable.metadata
            for unreadable in self._world.unreadable
            if unreadable.kind is api.TOPIC
        ]
        for other in (*readable, *others):
            if (other.namespace, other.name) == (
                metadata.namespace,
                metadata.name,
            ):
                raise Refused(
                    Code.POLICY_VIOLATION,
                    f"topic '{name}' needs a Topic object named {_path(other)}, but that object "
                    "is another topic: apply a Topic with another metadata.name and this "
                    "spec.topicName",
                )

    def _delete(self, operation: DeleteTopic, key: str) -> Decision:
        """The decision on DeleteTopics. Raises `Refused`."""
        named = self._names.named(operation.name)
        if operation.topic_id is not None and not named.has_topic_id(operation.topic_id):
            return Verdict()  # the client knew the id, so the topic existed and is gone
        if named.is_being_deleted:
            return Verdict()
        topic = self._owned(operation.name, named)
        policy = topic.spec.deletion_policy
        if policy is not DeletionPolicy.DELETE:
            raise Refused(
                Code.POLICY_VIOLATION,
                f"{_topic_text(topic)} has spec.deletionPolicy {policy}: set it to Delete first, "
                f"or keep the records and run kubectl delete {_kubectl_arguments(topic)}",
            )
        self._refuse_foreign(topic, SPEC, "spec", f"run kubectl delete {_kubectl_arguments(topic)}")
        return WriteTopic(request_id=key, metadata=_identity(topic), delete=True)

    def _change(self, operation: GrowTopic | ConfigureTopic, key: str) -> Decision:
        """The decision on a change of partitions or of configuration: a patch of the Topic's spec.
        Raises `Refused`.

        If nothing changes, the request is answered at once. The answer names the Topic, so that the
        broker replies when it has seen that Topic's map.
        """
        named = self._names.named(operation.name)
        if named.is_being_deleted:
            raise _unknown(operation.name)
        topic = self._owned(operation.name, named)
        if isinstance(operation, GrowTopic):
            changes = self._growth(operation, topic, named)
        else:
            changes = self._configuration(operation, topic, named)
        if not changes:
            return Verdict(topic_uid=None if operation.validate_only else topic.metadata.uid)
        version = topic.metadata.resource_version
        annotations = {labels.ADMIN_REQUEST: key}
        metadata = {"resourceVersion": version, "annotations": annotations}
        return WriteTopic(
            request_id=key,
            metadata=_identity(topic),
            patch={"metadata": metadata, "spec": changes},
            dry_run=operation.validate_only,
        )

    def _growth(self, operation: GrowTopic, topic: Topic, named: Named) -> dict[str, object]:
        """The fields of the Topic's spec for more partitions. Raises `Refused`."""
        added = check_growth(operation, existing(topic, named, self._facts), self._facts)
        self._refuse_foreign(topic, (*SPEC, "partitions"), "spec.partitions", _edit_remedy(topic))
        spec = replace(topic.spec, partitions=operation.partitions)
        if operation.assignments:
            field = "initialAssignments"
            self._refuse_foreign(topic, (*SPEC, field), f"spec.{field}", _edit_remedy(topic))
            added_ones = range(operation.partitions - added, operation.partitions)
            new = dict(zip(added_ones, operation.assignments, strict=True))
            self._check_running(new)
            others = [one for one in spec.initial_assignments if one.partition not in new]
            spec = replace(spec, initial_assignments=(*others, *_assignments(new)))
        manifest = self._checked(replace(topic, spec=spec), named).to_manifest()["spec"]
        if not operation.validate_only:
            self._use_capacity(topics=0, partitions=added)
        fields = ("partitions", "initialAssignments") if operation.assignments else ("partitions",)
        return {field: manifest[field] for field in fields}

    def _configuration(
        self, operation: ConfigureTopic, topic: Topic, named: Named
    ) -> dict[str, object]:
        """The fields of the Topic's spec for a changed configuration; empty if nothing changes.
        Raises `Refused`."""
        before = existing(topic, named, self._facts)
        after = check_configuration(operation, before, self._facts)
        changes = {
            name: after.get(name)  # None removes the key: a merge patch
            for name in sorted(before.config.keys() | after.keys())
            if before.config.get(name) != after.get(name)
        }
        for name in changes:
            field = f"spec.config[{name}]"
            self._refuse_foreign(topic, (*SPEC, "config", name), field, _edit_remedy(topic))
        self._checked(replace(topic, spec=replace(topic.spec, config=after)), named)
        return {"config": changes} if changes else {}

    def _owned(self, name: str, named: Named) -> Topic:
        """The Topic that owns the name, if a client may change it. Raises `Refused`."""
        topic = named.topic
        if topic is None and named.map is None:
            raise _unknown(name)
        check_not_internal(name)
        if topic is None:
            raise Refused(
                Code.POLICY_VIOLATION,
                f"topic '{name}' has no Topic object that can be parsed: correct the existing "
                "one, or apply one with that name, which takes over the records; then try again",
            )
        self._refuse_while_paused(topic.metadata, "Topic")
        self._refuse_while_paused(self._world.metadata, "BrokerCluster")
        if unmanaged(topic.metadata):
            raise Refused(
                Code.POLICY_VIOLATION,
                f"{_topic_text(topic)} has the annotation {labels.MANAGED}: remove it first",
            )
        return topic

    def _refuse_while_paused(self, metadata: Metadata, kind: str) -> None:
        """Refuse a change of an object whose annotation pauses it. Raises `Refused`."""
        if paused(metadata):
            raise Refused(
                Code.POLICY_VIOLATION,
                f"{kind} {_path(metadata)} has the annotation {labels.PAUSE}: remove it first",
            )

    def _refuse_foreign(self, topic: Topic, path: Path, field: str, remedy: str) -> None:
        """Refuse a change of a field that another field manager owns. Raises `Refused`.

        `path` is the field's path as in managedFields, `field` its name in the message.
        """
        managed_fields = self._world.managed_fields.get(topic.metadata.uid)
        if managers := foreign_managers(managed_fields, path, topic.metadata.annotations):
            raise Refused(
                Code.POLICY_VIOLATION,
                f"{field} of {_topic_text(topic)} is managed by {', '.join(managers)}: {remedy}",
            )

    def _checked(self, topic: Topic, named: Named) -> Topic:
        """The Topic itself, after the same checks as for a manifest that is applied with kubectl.
        Raises `Refused`."""
        try:
            read = Topic.from_manifest(topic.to_manifest())
        except InvalidManifest as invalid:
            raise _refusal(invalid.problems) from invalid
        problems = (*check_topic(read), *check_topic_in_cluster(read, self._cluster))
        problems += self._policies.judge(read, named.map).refused
        if problems:
            raise _refusal(problems)
        return topic


def _refusal(problems: Iterable[Problem]) -> Refused:
    """The error for a client, from the problems of a Topic. The first one determines the code."""
    first, *_others = found = list(problems)
    code = next((code for field, code in CODES if first.field.startswith(field)), None)
    if code is None or first.reason is Reason.POLICY_VIOLATION:
        code = Code.POLICY_VIOLATION
    return Refused(code, "; ".join(map(str, found)))


def _unknown(name: str) -> Refused:
    """Kafka's error for a topic that does not exist."""
    return Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _assignments(placements: Mapping[int, tuple[int, ...]]) -> tuple[Assignment, ...]:
    """The entries of spec.assignments, from partition -> broker ids."""
    return tuple(
        Assignment(partition=PartitionIndex(index), replicas=tuple(map(BrokerId, brokers)))
        for index, brokers in sorted(placements.items())
    )


def _wish(topic: Topic) -> Wish:
    """What the Topic says about replicas. That of an unmanaged one is not followed."""
    follows = not unmanaged(topic.metadata)
    return Wish(
        topic=_topic_text(topic),
        replicas=topic.spec.asked_replicas,
        assigned=placements(topic.spec.assignments) if follows else NOWHERE,
    )


def _identity(topic: Topic) -> Metadata:
    """The metadata by which a write names exactly this version of the object."""
    meta = topic.metadata
    return Metadata(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _path(metadata: Metadata) -> str:
    """`namespace/name`."""
    return f"{metadata.namespace}/{metadata.name}"


def _topic_text(topic: Topic) -> str:
    """The Topic as messages name it."""
    return f"Topic {_path(topic.metadata)}"


def _kubectl_arguments(topic: Topic) -> str:
    """The arguments that name the Topic in a kubectl command."""
    return f"topics.chiplog.dev {topic.metadata.name} -n {topic.metadata.namespace}"


def _edit_remedy(topic: Topic) -> str:
    """The remedy for a field that another field manager owns."""
    return f"change it there, or run kubectl edit {_kubectl_arguments(topic)}"
