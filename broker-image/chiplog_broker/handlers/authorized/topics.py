"""CreateTopics, DeleteTopics and CreatePartitions."""

from collections import Counter
from dataclasses import replace
from typing import Any

from chiplog_broker.handlers.authorized.asking import (
    FAILED,
    MESSAGES,
    NAMES_PER_STEP,
    Asking,
    Reduced,
    Verdict,
)
from chiplog_broker.handlers.topics import TWICE
from chiplog_core.authorizer.acls import CLUSTER_NAME, Operation, ResourceType
from chiplog_wire.protocol.answers import answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import Steps

TOPIC = ResourceType.TOPIC
TOPIC_FAILED = FAILED[TOPIC]


def create_topics(asking: Asking) -> Steps[Verdict]:
    """CREATE for the cluster or for the topic. Who may not describe the configuration of a topic
    does not get it (KIP-525)."""
    request = asking.message
    times = Counter(topic.name for topic in request.topics)
    in_cluster = asking.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    denied, hidden = set(), set()
    for count, name in enumerate(times, 1):
        # The handler refuses a name that occurs twice.
        if not in_cluster and times[name] == 1 and not asking.may(Operation.CREATE, TOPIC, name):
            denied.add(name)
        elif not asking.sees(Operation.DESCRIBE_CONFIGS, TOPIC, name):
            hidden.add(name)
        if not count % NAMES_PER_STEP:
            yield None
    if not denied and not hidden:
        return None

    def merge(answer: Any) -> Steps[object]:
        topics = []
        for topic in answer.topics:
            topics.append(without_config(topic) if topic.name in hidden else topic)
            yield None
        for name in sorted(denied):
            topics.append(not_created(name))
            yield None
        return replace(answer, topics=tuple(topics))

    allowed = tuple(topic for topic in request.topics if topic.name not in denied)
    return Reduced(replace(request, topics=allowed), merge)


def without_config(topic: Any) -> object:
    """The result of a creation for a client that may not describe the configuration."""
    if topic.error_code is not ErrorCode.none:
        return topic
    return replace(
        topic,
        topic_config_error_code=int(TOPIC_FAILED),
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


def not_created(name: str) -> object:
    return answers(ApiKey.CREATE_TOPICS).CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=TOPIC_FAILED,
        error_message="Authorization failed.",
        num_partitions=-1,
        replication_factor=-1,
        configs=None,
    )


def delete_topics(asking: Asking) -> Steps[Verdict]:
    """DELETE for the topic, or for the cluster. The name of a topic that was named by its id is
    answered only to who may describe it."""
    request = asking.message
    if asking.sees(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    times = Counter(request.topics)
    refusals, allowed = [], []
    for count, topic in enumerate(request.topics, 1):
        if not count % NAMES_PER_STEP:
            yield None
        name = topic.name
        if topic.topic_id is not None:
            view = asking.guards.cluster.topic_with_id(topic.topic_id)
            name = name or (view and view.name)
        if name is None or may_delete(asking, name):
            allowed.append(topic)
        elif times[topic] == 1:
            is_hidden = topic.name is None and not asking.sees(Operation.DESCRIBE, TOPIC, name)
            refusals.append(not_deleted(None if is_hidden else name, topic.topic_id))
        elif times[topic] > 1:
            # As for a topic that may be deleted, but without its id. It is answered once.
            times[topic] = 0
            twice = not_deleted(topic.name, topic.topic_id)
            refusals.append(replace(twice, error_code=TWICE.code, error_message=TWICE.message))
    if not refusals:
        return None

    def merge(answer: Any) -> Steps[object]:
        yield from ()
        return replace(answer, responses=(*answer.responses, *refusals))

    return Reduced(replace(request, topics=tuple(allowed)), merge)


def may_delete(asking: Asking, name: str) -> bool:
    """Whether the client may delete the topic, or may know that there is none of this name."""
    is_absent = asking.guards.cluster.topic(name) is None
    if is_absent and asking.sees(Operation.DESCRIBE, TOPIC, name):
        return True
    return asking.may(Operation.DELETE, TOPIC, name)


def not_deleted(name: str | None, topic_id: object) -> Any:
    return answers(ApiKey.DELETE_TOPICS).DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=TOPIC_FAILED,
        error_message=MESSAGES[TOPIC_FAILED],
    )


def create_partitions(topic: Any, code: ErrorCode) -> object:
    """The result for a denied topic."""
    return answers(ApiKey.CREATE_PARTITIONS).CreatePartitionsTopicResult(
        name=topic.name, error_code=code, error_message=MESSAGES[code]
    )
