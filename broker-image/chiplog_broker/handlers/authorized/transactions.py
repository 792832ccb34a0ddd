"""Requests about transactions. A producer needs WRITE for its transactional id, and what it adds to
its transaction needs what the same change would need without one."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from chiplog_broker.handlers.authorized.asking import (
    FAILED,
    NAMES_PER_STEP,
    Asking,
    Reduced,
    Refused,
    Verdict,
)
from chiplog_broker.handlers.authorized.groups import check_commit, not_committed
from chiplog_broker.handlers.authorized.items import PerItem
from chiplog_broker.handlers.markers import check_markers
from chiplog_broker.handlers.transaction_admin import no_transaction
from chiplog_broker.handlers.transactions import (
    added_response,
    check_named,
    codes_if_refused,
    ended_response,
    offsets_added_response,
)
from chiplog_broker.transaction_coordinator.verifying import BATCHES_FROM_VERSION
from chiplog_core.authorizer.acls import CLUSTER_NAME, Operation, ResourceType
from chiplog_core.groups.at import At
from chiplog_core.topic_name import is_internal
from chiplog_core.transactions.producer import NO_PRODUCER
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.offset_messages import (
    OffsetCommitResponse,
    TxnOffsetCommitRequest,
)
from chiplog_wire.steps import Steps

TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID
CLUSTER_FAILED: Final = FAILED[ResourceType.CLUSTER]


def add_partitions_to_txn(asking: Asking) -> Steps[Verdict]:
    """WRITE for the transactional id and for each topic; the requests of brokers need
    CLUSTER_ACTION. As in Kafka, either all partitions are added or none."""
    transactions = asking.message.transactions
    if asking.version >= BATCHES_FROM_VERSION:
        if asking.may_in_cluster(Operation.CLUSTER_ACTION):
            return None
        types = answers(ApiKey.ADD_PARTITIONS_TO_TXN)
        return Refused(
            types.AddPartitionsToTxnResponse(
                throttle_time=NO_THROTTLE, error_code=CLUSTER_FAILED, results_by_transaction=()
            )
        )
    check_named(asking.message)
    (transaction,) = transactions
    if not asking.may(Operation.WRITE, TRANSACTIONAL_ID, transaction.transactional_id):
        return Refused((yield partial(denied_response, transaction)))  # in another thread
    denied = set()
    for count, topic in enumerate(transaction.topics, 1):
        if not asking.may(Operation.WRITE, ResourceType.TOPIC, topic.name):
            denied.add(topic.name)
        if not count % NAMES_PER_STEP:
            yield None
    if not denied:
        return None
    denied.update(topic.name for topic in transaction.topics if is_internal(topic.name))
    codes = yield from codes_if_refused(asking.guards.cluster, transaction, denied)
    return Refused((yield partial(added_response, {transaction.transactional_id: codes})))


def denied_response(transaction: Any) -> object:
    """The answer to an AddPartitionsToTxn of somebody who may not use its transactional id."""
    codes = {
        At(topic.name, index): FAILED[TRANSACTIONAL_ID]
        for topic in transaction.topics
        for index in topic.partitions
    }
    return added_response({transaction.transactional_id: codes})


def add_offsets_to_txn(asking: Asking) -> Steps[Verdict]:
    """WRITE for the transactional id, READ for the group."""
    yield from ()
    request = asking.message
    if not asking.may(Operation.WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return Refused(offsets_added_response(FAILED[TRANSACTIONAL_ID]))
    if not asking.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return Refused(offsets_added_response(FAILED[ResourceType.GROUP]))
    return None


def txn_offset_commit(asking: Asking) -> Steps[Verdict]:
    """WRITE for the transactional id, READ for the group and for each topic."""
    request: TxnOffsetCommitRequest = asking.message
    if not asking.may(Operation.WRITE, TRANSACTIONAL_ID, request.transactional_id):
        code = FAILED[TRANSACTIONAL_ID]
        topics = tuple(not_committed(topic, code) for topic in request.commit.topics)
        return Refused(OffsetCommitResponse(topics))
    verdict = yield from check_commit(asking, request.commit)
    if isinstance(verdict, Reduced):
        return Reduced(request._replace(commit=verdict.message), verdict.merge)
    return verdict


def end_txn(asking: Asking) -> Steps[Verdict]:
    """WRITE for the transactional id."""
    yield from ()
    if asking.may(Operation.WRITE, TRANSACTIONAL_ID, asking.message.transactional_id):
        return None
    return Refused(ended_response(FAILED[TRANSACTIONAL_ID], NO_PRODUCER))


def write_txn_markers(asking: Asking) -> Steps[Verdict]:
    """CLUSTER_ACTION for brokers, ALTER for administrators."""
    if asking.sees(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    if asking.may_in_cluster(Operation.CLUSTER_ACTION):
        return None
    check_markers(asking.message)
    return Refused((yield partial(markers_denied, asking.message)))  # in another thread


def markers_denied(message: Any) -> object:
    """The answer to a WriteTxnMarkers of a client that may write no markers."""
    types = answers(ApiKey.WRITE_TXN_MARKERS)
    return types.WriteTxnMarkersResponse(
        markers=tuple(
            types.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    types.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            types.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=CLUSTER_FAILED
                            )
                            for index in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker in message.markers
        )
    )


def describe_transactions(asking: Asking) -> Steps[Verdict]:
    """DESCRIBE for each transactional id; topics without DESCRIBE are left out."""
    verdict = yield from PerItem(
        items="transactional_ids",
        operation=Operation.DESCRIBE,
        needs=lambda _, name: (TRANSACTIONAL_ID, name),
        results="transaction_states",
        refusal=no_transaction,
    )(asking)

    def merge(answer: Any) -> Steps[object]:
        states = []
        for state in answer.transaction_states:
            topics = tuple(
                topic
                for topic in state.topics
                if asking.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
            )
            states.append(replace(state, topics=topics))
            yield None
        answer = replace(answer, transaction_states=tuple(states))
        if isinstance(verdict, Reduced):
            answer = yield from verdict.merge(answer)
        return answer

    message = verdict.message if isinstance(verdict, Reduced) else asking.message
    return Reduced(message, merge)


def list_transactions(asking: Asking) -> Steps[Verdict]:
    """Lists only transactions with DESCRIBE for their transactional id."""
    yield from ()

    def merge(answer: Any) -> Steps[object]:
        states = []
        for count, state in enumerate(answer.transaction_states, 1):
            if asking.sees(Operation.DESCRIBE, TRANSACTIONAL_ID, state.transactional_id):
                states.append(state)
            if not count % NAMES_PER_STEP:
                yield None
        return replace(answer, transaction_states=tuple(states))

    return Reduced(asking.message, merge)
