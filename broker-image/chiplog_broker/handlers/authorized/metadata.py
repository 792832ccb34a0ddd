"""Metadata, DescribeTopicPartitions and DescribeCluster: nobody learns of topics that they may not
describe."""

from dataclasses import replace
from typing import Any

from chiplog_broker.handlers.authorized.asking import (
    FAILED,
    NAMES_PER_STEP,
    Asking,
    Reduced,
    Refused,
    Verdict,
)
from chiplog_core.authorizer.acls import CLUSTER_NAME, Operation, ResourceType
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
)
from chiplog_wire.steps import Steps

TOPIC = ResourceType.TOPIC
TOPIC_FAILED = FAILED[TOPIC]


def metadata(asking: Asking) -> Steps[Verdict]:
    """DESCRIBE for each topic. Of all topics, those that are denied are left out; a topic that the
    request names gets an error. A topic to create needs CREATE for it or for the cluster."""
    of_all = asking.message.topics is None
    verdict = yield from (all_topics(asking) if of_all else named_topics(asking))
    return with_operations(asking, verdict)


def all_topics(asking: Asking) -> Steps[Verdict]:
    """The check of a request for all topics."""
    visible: set[str | None] = set()
    topics = list(asking.guards.cluster)
    for count, view in enumerate(topics, 1):
        if asking.sees(Operation.DESCRIBE, TOPIC, view.name):
            visible.add(view.name)
        if not count % NAMES_PER_STEP:
            yield None
    if len(visible) == len(topics):
        return None

    def merge(answer: MetadataResponse) -> Steps[object]:
        yield from ()
        return answer._replace(topics=[one for one in answer.topics if one.name in visible])

    return Reduced(asking.message, merge)


def named_topics(asking: Asking) -> Steps[Verdict]:
    """The check of a request for certain topics."""
    request: MetadataRequest = asking.message
    denied: list[MetadataTopic] = []
    allowed: list[MetadataRequestTopic] = []
    for count, topic in enumerate(request.topics or (), 1):
        name = name_of(asking, topic)
        if name is None or (
            asking.may(Operation.DESCRIBE, TOPIC, name) and may_exist(asking, name)
        ):
            allowed.append(topic)
        else:
            denied.append(hidden(topic))
        if not count % NAMES_PER_STEP:
            yield None
    if not denied:
        return None

    def merge(answer: MetadataResponse) -> Steps[object]:
        yield from ()
        return answer._replace(topics=[*answer.topics, *denied])

    return Reduced(request._replace(topics=allowed), merge)


def name_of(asking: Asking, topic: MetadataRequestTopic) -> str | None:
    """The name of a requested topic; None if its id is unknown. As in the handler, an id has
    priority."""
    if topic.topic_id is not None:
        view = asking.guards.cluster.topic_with_id(topic.topic_id)
        return None if view is None else view.name
    return topic.name


def may_exist(asking: Asking, name: str) -> bool:
    """Whether the topic exists, or is not created by the request, or may be created."""
    guards = asking.guards
    if not (guards.creates_topics and asking.message.allow_auto_topic_creation):
        return True
    return (
        guards.cluster.topic(name) is not None
        or asking.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        or asking.may(Operation.CREATE, TOPIC, name)
    )


def hidden(topic: MetadataRequestTopic) -> MetadataTopic:
    """The answer for a denied topic: with the name or the id of the request, not with both."""
    name = topic.name if topic.topic_id is None else None
    return MetadataTopic(TOPIC_FAILED, name, topic.topic_id)


def with_operations(asking: Asking, verdict: Verdict) -> Verdict:
    """The verdict of a Metadata, with the operations that the client may do if it asked for
    them."""
    request: MetadataRequest = asking.message
    of_topics = request.include_topic_authorized_operations
    of_cluster = request.include_cluster_authorized_operations
    if not of_topics and not of_cluster:
        return verdict
    reduced = verdict if isinstance(verdict, Reduced) else None

    def merge(answer: MetadataResponse) -> Steps[object]:
        topics: list[MetadataTopic] = []
        for topic in answer.topics:
            topics.append(with_topic_operations(asking, topic) if of_topics else topic)
            yield None
        completed: Any = answer._replace(topics=topics)
        if of_cluster:
            operations = asking.cluster_operations()
            completed = completed._replace(cluster_authorized_operations=operations)
        if reduced is not None:
            completed = yield from reduced.merge(completed)
        return completed

    return Reduced(request if reduced is None else reduced.message, merge)


def with_topic_operations(asking: Asking, topic: MetadataTopic) -> MetadataTopic:
    """A copy of a topic with the operations that the client may do. The original object belongs to
    all clients."""
    if topic.name is None:
        return topic
    return MetadataTopic(
        topic.error_code,
        topic.name,
        topic.topic_id,
        topic.partitions,
        is_internal=topic.is_internal,
        authorized_operations=asking.operations(TOPIC, topic.name),
    )


def describe_cluster(asking: Asking) -> Steps[Verdict]:
    """Everybody may know the brokers; the operations are added if they are requested."""
    yield from ()
    if not asking.message.include_cluster_authorized_operations:
        return None

    def merge(answer: Any) -> Steps[object]:
        yield from ()
        if answer.error_code is not ErrorCode.none:
            return answer
        return replace(answer, cluster_authorized_operations=asking.cluster_operations())

    return Reduced(asking.message, merge)


def describe_topic_partitions(asking: Asking) -> Steps[Verdict]:
    """DESCRIBE for each topic, as in Metadata: without names in the request, denied topics are left
    out. The operations are always in the answer."""
    request = asking.message
    types = answers(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    first = "" if request.cursor is None else request.cursor.topic_name
    of_all = not request.topics
    names = (
        {view.name for view in asking.guards.cluster}
        if of_all
        else {topic.name for topic in request.topics}
    )
    visible: list[str] = []
    refusals: list[object] = []
    for count, name in enumerate(sorted(names), 1):
        if not count % NAMES_PER_STEP:
            yield None
        if name < first:
            continue
        if of_all:
            if asking.sees(Operation.DESCRIBE, TOPIC, name):
                visible.append(name)
        elif asking.may(Operation.DESCRIBE, TOPIC, name):
            visible.append(name)
        else:
            refusals.append(not_described(types, name))

    def merge(answer: Any) -> Steps[object]:
        topics = []
        for topic in answer.topics:
            operations = asking.operations(TOPIC, topic.name)
            topics.append(replace(topic, topic_authorized_operations=operations))
            yield None
        return replace(answer, topics=(*topics, *refusals))

    if not visible:
        # Without names the handler would describe all topics.
        return Refused(
            types.DescribeTopicPartitionsResponse(
                throttle_time=NO_THROTTLE, topics=tuple(refusals), next_cursor=None
            )
        )
    named_topic = schema.element(type(request), "topics")
    wanted = tuple(named_topic(name=name) for name in visible)
    return Reduced(replace(request, topics=wanted), merge)


def not_described(types: Any, name: str) -> object:
    return types.DescribeTopicPartitionsResponseTopic(
        error_code=TOPIC_FAILED, name=name, topic_id=None, is_internal=False, partitions=()
    )
