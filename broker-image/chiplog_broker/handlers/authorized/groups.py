"""Requests about groups and their offsets."""

from dataclasses import replace
from functools import partial
from typing import Any

from chiplog_broker.handlers.authorized.asking import (
    FAILED,
    MESSAGES,
    NAMES_PER_STEP,
    Asking,
    Merge,
    Reduced,
    Refused,
    Verdict,
)
from chiplog_broker.handlers.authorized.items import PerItem, adding, group
from chiplog_broker.handlers.coordinators import GROUP, NOWHERE, TRANSACTION
from chiplog_broker.handlers.group_admin import not_described
from chiplog_broker.handlers.group_offsets import (
    GROUP_ERRORS_FROM_VERSION,
    NO_OFFSET,
    errors_by_partition,
)
from chiplog_core.authorizer.acls import CLUSTER_NAME, Operation, ResourceType
from chiplog_core.model.group_status import GroupState
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.offset_messages import (
    NO_LEADER_EPOCH,
    CommittedTopic,
    CommitTopic,
    FoundGroup,
    FoundPartition,
    FoundTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TopicRef,
    WantedGroup,
    WantedTopic,
)
from chiplog_wire.steps import Steps

TOPIC = ResourceType.TOPIC
GROUP_FAILED, TOPIC_FAILED = FAILED[ResourceType.GROUP], FAILED[TOPIC]


# -- offsets


def topic_name(asking: Asking, topic: TopicRef) -> str | None:
    """The name of a topic that is given by name or by id; None if the id is unknown."""
    if topic.name is not None or topic.topic_id is None:
        return topic.name
    view = asking.guards.cluster.topic_with_id(topic.topic_id)
    return None if view is None else view.name


def may_use(asking: Asking, operation: Operation, topic: TopicRef) -> bool:
    """Whether the client may do this with a topic. A topic with an unknown id is left to the
    handler."""
    name = topic_name(asking, topic)
    return name is None or asking.may(operation, TOPIC, name)


def offset_commit(asking: Asking) -> Steps[Verdict]:
    """READ for the group and for each topic."""
    return (yield from check_commit(asking, asking.message))


def check_commit(asking: Asking, request: OffsetCommitRequest) -> Steps[Verdict]:
    """READ for the group and for each topic of a commit, which may be a part of the request."""
    if not asking.may(Operation.READ, ResourceType.GROUP, request.group_id):
        refused = tuple(not_committed(topic, GROUP_FAILED) for topic in request.topics)
        return Refused(OffsetCommitResponse(refused))
    allowed: list[CommitTopic] = []
    denied: list[CommitTopic] = []
    for count, topic in enumerate(request.topics, 1):
        (allowed if may_use(asking, Operation.READ, topic.topic) else denied).append(topic)
        if not count % NAMES_PER_STEP:
            yield None
    if not denied:
        return None
    refusals = tuple(not_committed(topic, TOPIC_FAILED) for topic in denied)
    if not allowed:
        # As in Kafka: the group is not even looked for.
        return Refused(OffsetCommitResponse(refusals))
    return Reduced(request._replace(topics=tuple(allowed)), adding("topics", refusals))


def not_committed(topic: CommitTopic, code: ErrorCode) -> CommittedTopic:
    return CommittedTopic(topic.topic, tuple((one.number, code) for one in topic.partitions))


def offset_fetch(asking: Asking) -> Steps[Verdict]:
    """DESCRIBE for each group and for each topic; of all offsets of a group, those of denied topics
    are left out."""
    request: OffsetFetchRequest = asking.message
    allowed: dict[WantedGroup, list[WantedTopic]] = {}
    refused: list[FoundGroup] = []
    count = 0
    for wanted in request.groups:
        count += 1
        if not count % NAMES_PER_STEP:
            yield None
        if not asking.may(Operation.DESCRIBE, ResourceType.GROUP, wanted.group_id):
            refused.append(not_fetched(asking, wanted))
            continue
        topics: list[WantedTopic] = []
        denied: list[WantedTopic] = []
        for topic in wanted.topics or ():
            count += 1
            if not count % NAMES_PER_STEP:
                yield None
            is_allowed = may_use(asking, Operation.DESCRIBE, topic.topic)
            (topics if is_allowed else denied).append(topic)
        reduced = wanted if wanted.topics is None else wanted._replace(topics=tuple(topics))
        allowed.setdefault(reduced, []).extend(denied)
    is_reduced = refused or any(allowed.values())
    if not is_reduced and all(one.topics is not None for one in allowed):
        return None
    return Reduced(
        request._replace(groups=tuple(allowed)), partial(merge_offsets, asking, allowed, refused)
    )


def not_fetched(asking: Asking, wanted: WantedGroup) -> FoundGroup:
    """The answer for a denied group, in the form of the request's version."""
    found = FoundGroup(wanted.group_id, (), GROUP_FAILED)
    is_old = asking.version < GROUP_ERRORS_FROM_VERSION
    return errors_by_partition(wanted, found) if is_old else found


def merge_offsets(
    asking: Asking,
    allowed: dict[WantedGroup, list[WantedTopic]],
    refused: list[FoundGroup],
    answer: OffsetFetchResponse,
) -> Steps[object]:
    """The answer with errors for the denied topics that the request names (`allowed`: by the part
    of the request that was handled, in the order of the answer), without other topics that the
    client may not see, and with the denied groups."""
    groups = []
    for found, (wanted, denied) in zip(answer.groups, allowed.items(), strict=True):
        topics: list[FoundTopic] = list(found.topics)
        if found.error_code is ErrorCode.none:
            if wanted.topics is None:
                topics = [topic for topic in topics if sees_topic(asking, topic.topic)]
            topics += map(no_offsets, denied)
        groups.append(found._replace(topics=tuple(topics)))
        yield None
    return OffsetFetchResponse((*groups, *refused))


def sees_topic(asking: Asking, topic: TopicRef) -> bool:
    name = topic_name(asking, topic)
    return name is None or asking.sees(Operation.DESCRIBE, TOPIC, name)


def no_offsets(topic: WantedTopic) -> FoundTopic:
    """The answer for a denied topic."""
    return FoundTopic(
        topic.topic,
        tuple(
            FoundPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", TOPIC_FAILED)
            for index in topic.partitions
        ),
    )


def offset_delete(asking: Asking) -> Steps[Verdict]:
    """DELETE for the group, READ for each topic."""
    types = answers(ApiKey.OFFSET_DELETE)
    if not asking.may(Operation.DELETE, ResourceType.GROUP, asking.message.group_id):
        return Refused(
            types.OffsetDeleteResponse(
                error_code=GROUP_FAILED, throttle_time=NO_THROTTLE, topics=()
            )
        )
    verdict = yield from PerItem(
        items="topics",
        operation=Operation.READ,
        needs=lambda _, topic: (TOPIC, topic.name),
        results="topics",
        refusal=not_forgotten,
    )(asking)
    if not isinstance(verdict, Reduced):
        return verdict
    return Reduced(verdict.message, partial(unless_refused, verdict.merge))


def not_forgotten(topic: Any, code: ErrorCode) -> object:
    types = answers(ApiKey.OFFSET_DELETE)
    return types.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            types.OffsetDeleteResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
            for partition in topic.partitions
        ),
    )


def unless_refused(merge: Merge, answer: Any) -> Steps[object]:
    """An answer with an error of the whole group has no results of topics."""
    if answer.error_code is not ErrorCode.none:
        return answer
    return (yield from merge(answer))


# -- groups


def find_coordinator(asking: Asking) -> Steps[Verdict]:
    """DESCRIBE for the group or for the transactional id; other key types are refused by the
    handler."""
    kinds = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
    kind = kinds.get(asking.message.key_type)
    if kind is None:
        return None
    return (
        yield from PerItem(
            items="coordinator_keys",
            operation=Operation.DESCRIBE,
            needs=lambda _, key: (kind, key),
            results="coordinators",
            refusal=not_found,
        )(asking)
    )


def not_found(key: str, code: ErrorCode) -> object:
    return answers(ApiKey.FIND_COORDINATOR).Coordinator(
        key=key,
        node_id=NOWHERE.node_id,
        host=NOWHERE.host,
        port=NOWHERE.port,
        error_code=code,
        error_message=MESSAGES[code],
    )


def describe_groups(asking: Asking) -> Steps[Verdict]:
    """DESCRIBE for each group; the operations are added if they are requested."""
    types = answers(ApiKey.DESCRIBE_GROUPS)
    verdict = yield from PerItem(
        items="groups",
        operation=Operation.DESCRIBE,
        needs=group,
        results="groups",
        refusal=lambda group_id, code: not_described(types, group_id, code, ""),
    )(asking)
    return with_group_operations(asking, verdict)


def consumer_group_describe(asking: Asking) -> Steps[Verdict]:
    """DESCRIBE for each group; the operations are added if they are requested."""
    verdict = yield from PerItem(
        items="group_ids",
        operation=Operation.DESCRIBE,
        needs=group,
        results="groups",
        refusal=no_consumer_group,
    )(asking)
    return with_group_operations(asking, verdict)


def no_consumer_group(group_id: str, code: ErrorCode) -> object:
    return answers(ApiKey.CONSUMER_GROUP_DESCRIBE).DescribedGroup(
        error_code=code,
        error_message=None,
        group_id=group_id,
        group_state=GroupState.DEAD,
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )


def with_group_operations(asking: Asking, verdict: Verdict) -> Verdict:
    """The verdict of a request about groups, with the operations that the client may do with each
    group if it asked for them."""
    if not asking.message.include_authorized_operations:
        return verdict

    def merge(answer: Any) -> Steps[object]:
        groups = []
        for found in answer.groups:
            is_known = found.error_code is ErrorCode.none
            operations = asking.operations(ResourceType.GROUP, found.group_id)
            groups.append(replace(found, authorized_operations=operations) if is_known else found)
            yield None
        answer = replace(answer, groups=tuple(groups))
        if isinstance(verdict, Reduced):
            answer = yield from verdict.merge(answer)
        return answer

    message = verdict.message if isinstance(verdict, Reduced) else asking.message
    return Reduced(message, merge)


def list_groups(asking: Asking) -> Steps[Verdict]:
    """All groups with DESCRIBE for the cluster; otherwise those with DESCRIBE for the group."""
    yield from ()
    if asking.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None

    def merge(answer: Any) -> Steps[object]:
        groups = []
        for count, found in enumerate(answer.groups, 1):
            if asking.sees(Operation.DESCRIBE, ResourceType.GROUP, found.group_id):
                groups.append(found)
            if not count % NAMES_PER_STEP:
                yield None
        return replace(answer, groups=tuple(groups))

    return Reduced(asking.message, merge)


def not_deleted(group_id: str, code: ErrorCode) -> object:
    """The result of a DeleteGroups for a denied group."""
    return answers(ApiKey.DELETE_GROUPS).DeletableGroupResult(group_id=group_id, error_code=code)
