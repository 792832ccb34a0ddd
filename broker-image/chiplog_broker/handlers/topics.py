"""CreateTopics, DeleteTopics and CreatePartitions, forwarded to the metadata store.

If a request names a topic twice, neither is carried out, because it is unclear which was meant.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.handlers.config_entries import config_source
from chiplog_broker.handlers.pacing import Pace, Pacing
from chiplog_broker.metadata.operations import Outcome, PlannedTopic
from chiplog_broker.metadata.port import MetadataStore
from chiplog_broker.metadata.view import ClusterView, TopicView
from chiplog_broker.peers.spreading import Spreading
from chiplog_broker.server.call import Call
from chiplog_broker.settings import setting
from chiplog_core.admin.operations import CreateTopic, DeleteTopic, GrowTopic
from chiplog_core.config.broker_keys import NUM_PARTITIONS
from chiplog_core.ids import TopicId
from chiplog_wire.protocol.answers import answers, milliseconds
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

CLUSTER_DEFAULT = -1
NAME_OR_ID = Outcome(ErrorCode.invalid_request, "give either the name or the id of a topic")
TWICE = Outcome(
    ErrorCode.invalid_request,
    "the request contains this topic more than once, so nothing was done: name it once",
)


class TopicHandlers:
    """Creates and deletes topics, and adds partitions to them."""

    def __init__(
        self,
        cluster: ClusterView,
        store: MetadataStore,
        spreading: Spreading | None,
        config: Mapping[str, str],
        pacing: Pacing,
    ) -> None:
        """`spreading` waits until all brokers know a topic; None if there are no other brokers."""
        self._cluster = cluster
        self._store = store
        self._spreading = spreading
        self._default_partitions = setting(config, NUM_PARTITIONS)
        self._pacing = pacing

    async def _submit(self, operation: CreateTopic | GrowTopic, call: Call[Any]) -> Outcome:
        """Submit an operation; after it created partitions, wait until all brokers know them."""
        outcome = await self._store.submit(operation, call.peer.principal)
        if outcome.topic is not None and self._spreading is not None:
            await self._spreading.until_known(outcome.topic)
        return outcome

    async def create_topics(self, call: Call[Any]) -> object:
        """Create topics within the quota of the client's address; one result for each name."""
        types = answers(ApiKey.CREATE_TOPICS)
        request = call.message
        times = Counter(topic.name for topic in request.topics)
        named = {topic.name: topic for topic in request.topics}

        async def result(name: str, topic: Any) -> object:
            outcome = await self._create(topic, call, pace) if times[name] == 1 else TWICE
            return creation_result(types, name, outcome)

        pace = self._pacing.of(call)
        results = await bounded_gather(result(*item) for item in named.items())
        return types.CreateTopicsResponse(throttle_time=pace.throttle_time, topics=tuple(results))

    async def _create(self, topic: Any, call: Call[Any], pace: Pace) -> Outcome:
        """Create one topic, unless the client address has used up its quota."""
        counts = topic.num_partitions, topic.replication_factor
        partitions, replicas = (None if count == CLUSTER_DEFAULT else count for count in counts)
        if any(config.value is None for config in topic.configs):
            return Outcome(
                ErrorCode.invalid_config,
                f"a configuration value of topic {topic.name} is null: set or leave out the key",
            )
        if twice := _assigned_twice(topic.assignments):
            return twice
        partition_count = len(topic.assignments) or partitions or self._default_partitions
        # As in Kafka, an existing topic does not count against the quota: many programs create
        # their topics whenever they start.
        is_new = self._cluster.topic(topic.name) is None
        if is_new and (too_fast := await pace.spend(partition_count)) is not None:
            return too_fast
        return await self._submit(
            CreateTopic(
                name=topic.name,
                partitions=partitions,
                replicas=replicas,
                assignments={
                    assignment.partition_index: tuple(assignment.broker_ids)
                    for assignment in topic.assignments
                },
                config={config.name: config.value for config in topic.configs},
                validate_only=call.message.validate_only,
                timeout_ms=milliseconds(call.message.timeout),
            ),
            call,
        )

    async def delete_topics(self, call: Call[Any]) -> object:
        """Delete topics, named by name or by id, within the quota of the client's address."""
        types = answers(ApiKey.DELETE_TOPICS)
        times = Counter(call.message.topics)
        pace = self._pacing.of(call)
        # The same topic may be requested by name and by id: two entries that `times` does not join.
        times_of_id = Counter(
            view.topic_id for wanted in times if (view := self._find_topic(wanted))
        )

        async def result(wanted: Any, count: int) -> object:
            view = self._find_topic(wanted)
            outcome = TWICE
            if (wanted.name is None) == (wanted.topic_id is None):
                outcome = NAME_OR_ID
            elif count == 1 and (view is None or times_of_id[view.topic_id] == 1):
                outcome = await self._delete(wanted, view, call, pace)
            return types.DeletableTopicResult(
                name=view.name if view else wanted.name,
                topic_id=view.topic_id if view else wanted.topic_id,
                error_code=outcome.code,
                error_message=outcome.message,
            )

        results = await bounded_gather(result(*item) for item in times.items())
        throttle_time = pace.throttle_time
        return types.DeleteTopicsResponse(throttle_time=throttle_time, responses=tuple(results))

    async def _delete(
        self, wanted: Any, view: TopicView | None, call: Call[Any], pace: Pace
    ) -> Outcome:
        """Delete one topic; `view` is None if it does not exist."""
        if view is not None:
            if (too_fast := await pace.spend(len(view.partitions))) is not None:
                return too_fast
            topic_id = TopicId(view.topic_id.bytes)
            timeout_ms = milliseconds(call.message.timeout)
            return await self._store.submit(
                DeleteTopic(name=view.name, topic_id=topic_id, timeout_ms=timeout_ms),
                call.peer.principal,
            )
        code = ErrorCode.unknown_topic_id
        if wanted.name is not None:
            code = ErrorCode.unknown_topic_or_partition
        return Outcome(code, "This server does not host this topic.")

    def _find_topic(self, wanted: Any) -> TopicView | None:
        """The topic that an entry of DeleteTopics names by name or by id; None if there is none."""
        if wanted.name is not None:
            return self._cluster.topic(wanted.name)
        return self._cluster.topic_with_id(wanted.topic_id) if wanted.topic_id else None

    async def create_partitions(self, call: Call[Any]) -> object:
        """Add partitions to topics within the quota of the client's address."""
        types = answers(ApiKey.CREATE_PARTITIONS)
        request = call.message
        times = Counter(topic.name for topic in request.topics)
        named = {topic.name: topic for topic in request.topics}
        pace = self._pacing.of(call)
        results = []
        for name, topic in named.items():
            outcome = await self._grow(topic, call, pace) if times[name] == 1 else TWICE
            results.append(
                types.CreatePartitionsTopicResult(
                    name=name, error_code=outcome.code, error_message=outcome.message
                )
            )
        throttle_time = pace.throttle_time
        return types.CreatePartitionsResponse(throttle_time=throttle_time, results=tuple(results))

    async def _grow(self, topic: Any, call: Call[Any], pace: Pace) -> Outcome:
        """Add partitions to one topic, unless the client address has used up its quota."""
        view = self._cluster.topic(topic.name)
        added = topic.count - (len(view.partitions) if view is not None else 0)
        if (
            view is not None
            and added > 0
            and topic.assignments is not None
            and not topic.assignments
        ):
            return Outcome(
                ErrorCode.invalid_replica_assignment,
                f"Attempted to add {added} additional partition(s), but only 0 assignment(s) were "
                "specified.",
            )
        if (too_fast := await pace.spend(added)) is not None:
            return too_fast
        return await self._submit(
            GrowTopic(
                name=topic.name,
                partitions=topic.count,
                assignments=tuple(
                    tuple(assignment.broker_ids) for assignment in topic.assignments or ()
                ),
                validate_only=call.message.validate_only,
                timeout_ms=milliseconds(call.message.timeout),
            ),
            call,
        )


def _assigned_twice(assignments: Iterable[Any]) -> Outcome | None:
    """Kafka's error for a replica assignment that names a partition more than once; None if there
    is none."""
    times = Counter(assignment.partition_index for assignment in assignments)
    partition, most = next(iter(times.most_common(1)), (0, 0))
    if most < 2:
        return None
    return Outcome(
        ErrorCode.invalid_replica_assignment,
        f"Found multiple manual partition assignments for partition {partition}",
    )


def creation_result(types: Any, name: str, outcome: Outcome) -> object:
    """One topic of a CreateTopics answer, with its configuration (KIP-525), or with an error.

    With `validate_only` nothing is created, and the configuration is the planned one.
    """
    created = outcome.topic
    planned = outcome.planned
    if created is not None:
        planned = PlannedTopic(len(created.partitions), created.replication_factor, created.config)
    if planned is None:
        return types.CreatableTopicResult(
            name=name,
            topic_id=None,
            error_code=outcome.code,
            error_message=outcome.message,
            num_partitions=-1,
            replication_factor=-1,
            configs=None,
        )
    configs = tuple(
        types.CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=False,
            config_source=config_source(entry.source),
            is_sensitive=False,
        )
        for entry in planned.config.entries(planned.replicas)
    )
    return types.CreatableTopicResult(
        name=name,
        topic_id=created and created.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=planned.partitions,
        replication_factor=planned.replicas,
        configs=configs,
    )
