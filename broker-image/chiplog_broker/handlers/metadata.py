"""Metadata, DescribeCluster and DescribeTopicPartitions.

An unknown topic is an error and creates nothing, unless `auto.create.topics.enable` is set and the
client allows it.
"""

from collections.abc import Coroutine, Iterable, Mapping
from itertools import islice
from typing import Any

from chiplog_broker.handlers.pacing import Pacing
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.metadata.port import MetadataStore
from chiplog_broker.metadata.view import ClusterView, PartitionView, TopicView
from chiplog_broker.server.call import Call
from chiplog_broker.settings import setting
from chiplog_core.admin.operations import CreateTopic
from chiplog_core.admin.topic_names import code_of_unknown, why_not_a_topic_name
from chiplog_core.config import broker_keys as keys
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
)

BROKERS_ENDPOINT = 1
CONTROLLERS_ENDPOINT = 2
LARGEST_PAGE = 2000
MAX_UNSLICED_TOPICS = 500
"""Topics of one request that are looked up in one slice; larger requests take several."""
OPERATIONS_NOT_REQUESTED = -(2**31)
"""Kafka's value for authorized operations that the client did not request."""


class MetadataHandlers:
    """Answers from this broker's view of the cluster."""

    def __init__(
        self,
        cluster: ClusterView,
        store: MetadataStore,
        config: Mapping[str, str],
        long_work: LongWork,
        pacing: Pacing,
    ) -> None:
        self._long_work = long_work
        self._cluster = cluster
        self._store = store
        self._pacing = pacing
        self._default_partitions = setting(config, keys.NUM_PARTITIONS)
        self._creates_topics = setting(config, keys.AUTO_CREATE_TOPICS_ENABLE)

    def metadata(
        self, call: Call[MetadataRequest]
    ) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
        """The brokers with their addresses on this listener, and the requested topics."""
        request = call.message
        if self._creates_topics and request.allow_auto_topic_creation and request.topics:
            by_name = [topic.name for topic in request.topics if topic.topic_id is None]
            unknown = [name for name in by_name if self._can_be_created(name)]
            if unknown:
                return self._after_creating(unknown, call)
        if request.topics is not None and len(request.topics) > MAX_UNSLICED_TOPICS:
            return self._metadata_in_slices(call)
        return self._metadata(call, {})

    async def _metadata_in_slices(self, call: Call[MetadataRequest]) -> MetadataResponse:
        """The answer to a request with many topics. They are looked up in slices, between which
        other requests run."""
        slices, topics = self._long_work.slices(), []
        for topic in dict.fromkeys(call.message.topics or ()):
            topics.append(self._topic(topic, {}))
            await slices.pause()
        return self._response(call, topics)

    def _can_be_created(self, name: str | None) -> bool:
        """Whether the name is valid, and there is no topic with it."""
        if name is None or self._cluster.topic(name) is not None:
            return False
        return not why_not_a_topic_name(name)

    async def _after_creating(
        self, names: Iterable[str | None], call: Call[MetadataRequest]
    ) -> MetadataResponse:
        """Create the topics with these names, then answer the request."""
        refused: dict[str, ErrorCode] = {}
        pace = self._pacing.of_metadata(call)
        for name in dict.fromkeys(names):
            assert name is not None
            if await pace.spend(self._default_partitions) is not None:
                # The quota is used up. Clients do not know the quota error in Metadata, but retry
                # for an unknown topic.
                refused[name] = ErrorCode.unknown_topic_or_partition
                continue
            outcome = await self._store.submit(CreateTopic(name=name), call.peer.principal)
            if outcome.code not in (ErrorCode.none, ErrorCode.topic_already_exists):
                refused[name] = outcome.code
        return self._metadata(call, refused)

    def _metadata(
        self, call: Call[MetadataRequest], refused: Mapping[str, ErrorCode]
    ) -> MetadataResponse:
        """The answer; `refused` has the errors of topics that could not be created, by name."""
        wanted = call.message.topics
        if wanted is None:
            topics = [view.metadata for view in self._cluster]
        else:
            # A topic that is requested twice is answered once: its name takes a few bytes, its
            # answer up to a hundred thousand.
            topics = [self._topic(topic, refused) for topic in dict.fromkeys(wanted)]
        return self._response(call, topics)

    def _response(
        self, call: Call[MetadataRequest], topics: list[MetadataTopic]
    ) -> MetadataResponse:
        return MetadataResponse(
            self._cluster.nodes(call.peer.listener.name),
            self._cluster.cluster_id,
            self._cluster.controller_id,
            topics,
        )

    def _topic(
        self, wanted: MetadataRequestTopic, refused: Mapping[str, ErrorCode]
    ) -> MetadataTopic:
        """The metadata of one topic, or its error; `refused` as in `_metadata`."""
        # As in Kafka, an id has priority: Java's describeTopics by id sends an empty name with it.
        if wanted.topic_id is not None or wanted.name is None:
            view_with_id = wanted.topic_id and self._cluster.topic_with_id(wanted.topic_id)
            if view_with_id:
                return view_with_id.metadata
            return MetadataTopic(ErrorCode.unknown_topic_id, None, wanted.topic_id)
        view = self._cluster.topic(wanted.name)
        if view is not None:
            return view.metadata
        code = refused.get(wanted.name) or code_of_unknown(wanted.name)
        return MetadataTopic(code, wanted.name, None)

    def describe_cluster(self, call: Call[Any]) -> object:
        """The brokers, and the broker that clients take for the controller. There are no
        controllers with addresses of their own, so a request for these is an error."""
        types = answers(ApiKey.DESCRIBE_CLUSTER)
        code, message = ErrorCode.none, None
        if call.message.endpoint_type == CONTROLLERS_ENDPOINT:
            code = ErrorCode.mismatched_endpoint_type
            message = "there are no controller endpoints: request the brokers (endpoint type 1)"
        elif call.message.endpoint_type != BROKERS_ENDPOINT:
            code = ErrorCode.unsupported_endpoint_type
            message = f"unknown endpoint type {call.message.endpoint_type}: request the brokers (1)"
        of_brokers = code is ErrorCode.none
        nodes = self._cluster.nodes(call.peer.listener.name) if of_brokers else []
        return types.DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            error_message=message,
            endpoint_type=BROKERS_ENDPOINT,
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id if of_brokers else -1,
            brokers=tuple(
                types.DescribeClusterBroker(
                    broker_id=node.node_id,
                    host=node.host,
                    port=node.port,
                    rack=node.rack,
                    is_fenced=False,
                )
                for node in nodes
            ),
            cluster_authorized_operations=OPERATIONS_NOT_REQUESTED,
        )

    async def describe_topic_partitions(self, call: Call[Any]) -> object:
        """One page of partitions (KIP-966): the cursor names the first partition of the next
        page."""
        request = call.message
        types = answers(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
        names = sorted(
            {topic.name for topic in request.topics} or {view.name for view in self._cluster}
        )
        cursor = request.cursor
        start = 0
        if cursor is not None:
            names = [name for name in names if name >= cursor.topic_name]
            # If the cursor's topic was deleted, the page starts with the next topic.
            start = max(cursor.partition_index, 0) if cursor.topic_name in names[:1] else 0
        remaining = min(max(request.response_partition_limit, 1), LARGEST_PAGE)
        topics, next_cursor, slices = [], None, self._long_work.slices()
        for name in names:
            await slices.pause()
            view = self._cluster.topic(name)
            if remaining == 0:
                next_cursor = types.Cursor(topic_name=name, partition_index=0)
                break
            page = list(islice(view.partitions, start, start + remaining)) if view else []
            topics.append(described_topic(types, name, view, page))
            remaining -= len(page)
            if view and start + len(page) < len(view.partitions):
                next_cursor = types.Cursor(topic_name=name, partition_index=start + len(page))
                break
            start = 0
        return types.DescribeTopicPartitionsResponse(
            throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=next_cursor
        )


def described_topic(
    types: Any, name: str, view: TopicView | None, page: Iterable[PartitionView]
) -> object:
    """One topic of DescribeTopicPartitions with the partitions of this page; `view` is None if the
    topic does not exist."""
    if view is None:
        return types.DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode(code_of_unknown(name)),
            name=name,
            topic_id=None,
            is_internal=False,
            partitions=(),
        )
    return types.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=name,
        topic_id=view.topic_id,
        is_internal=view.is_internal,
        partitions=tuple(
            types.DescribeTopicPartitionsResponsePartition(
                error_code=(ErrorCode.none if leader_id >= 0 else ErrorCode.leader_not_available),
                partition_index=partition.index,
                leader_id=leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=partition.elr,
                last_known_elr=(),
                offline_replicas=(),
            )
            for partition in page
            for leader_id in (view.advertised_leader(partition),)
        ),
    )
