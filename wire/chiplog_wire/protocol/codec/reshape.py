"""Converts older versions of a message that differ from the newest in more than their fields.

`generic` adds and removes fields by name; other differences are here, with one function for each
message. A test fails if a field of an older version has no counterpart.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode

Values = dict[str, Any]


def request_values(key: ApiKey, version: int) -> Callable[[Values], None] | None:
    """A function that changes the fields of an older request to those of the newest version; None
    if they differ only by missing fields."""
    if key is ApiKey.DELETE_TOPICS and version < 6:
        return _delete_topics_by_name
    if key is ApiKey.FIND_COORDINATOR and version < 4:
        return _find_one_coordinator
    if key is ApiKey.LEAVE_GROUP and version < 3:
        return _one_member_leaves
    if key is ApiKey.ADD_PARTITIONS_TO_TXN and version < 4:
        return _one_transaction
    return None


def older_response(key: ApiKey, version: int, message: Any) -> Any:
    """Convert an answer of the newest version for an older one, if more is needed than to leave out
    fields, which the encoder in `generic` does. Other answers are returned unchanged."""
    if key is ApiKey.FIND_COORDINATOR and version < 4:
        return _one_coordinator(version, message)
    if key is ApiKey.LEAVE_GROUP and version < 3:
        return _one_member_left(version, message)
    if key is ApiKey.JOIN_GROUP and version < 7 and message.protocol_name is None:
        return replace(message, protocol_name="")  # null only from version 7 on
    if key is ApiKey.ADD_PARTITIONS_TO_TXN and version < 4:
        return _one_transactions_results(version, message)
    return message


def _delete_topics_by_name(values: Values) -> None:
    """DeleteTopics before version 6 has only names, no ids (KIP-516)."""
    state = schema.shapes(schema.request_class(ApiKey.DELETE_TOPICS, 6))["topics"].element
    assert not isinstance(state, str)
    values["topics"] = tuple(state(name=name, topic_id=None) for name in values.pop("topic_names"))


def _find_one_coordinator(values: Values) -> None:
    """FindCoordinator before version 4 has one key instead of many (KIP-699)."""
    values["coordinator_keys"] = (values.pop("key"),)


def _one_coordinator(version: int, message: Any) -> Any:
    """The answer of FindCoordinator before version 4: one coordinator without its key."""
    (coordinator,) = message.coordinators
    fields: Values = {
        "error_code": ErrorCode(coordinator.error_code),
        "node_id": coordinator.node_id,
        "host": coordinator.host,
        "port": coordinator.port,
    }
    if version >= 1:
        fields["throttle_time"] = message.throttle_time
        fields["error_message"] = coordinator.error_message
    return schema.response_class(ApiKey.FIND_COORDINATOR, version)(**fields)


def _one_member_leaves(values: Values) -> None:
    """LeaveGroup before version 3 has one member instead of many (KIP-345)."""
    member = schema.element(schema.request_class(ApiKey.LEAVE_GROUP, 5), "members")
    values["members"] = (
        member(member_id=values.pop("member_id"), group_instance_id=None, reason=None),
    )


def _one_member_left(version: int, message: Any) -> Any:
    """The answer of LeaveGroup before version 3: the first error of the group and its only
    member."""
    codes = [message.error_code, *(member.error_code for member in message.members)]
    fields: Values = {
        "error_code": next((ErrorCode(code) for code in codes if code), ErrorCode.none)
    }
    if version >= 1:
        fields["throttle_time"] = message.throttle_time
    return schema.response_class(ApiKey.LEAVE_GROUP, version)(**fields)


def _one_transaction(values: Values) -> None:
    """AddPartitionsToTxn before version 4 has one transaction instead of many (KIP-890)."""
    newest = schema.request_class(ApiKey.ADD_PARTITIONS_TO_TXN, 5)
    transaction = schema.element(newest, "transactions")
    values["transactions"] = (
        transaction(
            transactional_id=values.pop("v3_and_below_transactional_id"),
            producer_id=values.pop("v3_and_below_producer_id"),
            producer_epoch=values.pop("v3_and_below_producer_epoch"),
            verify_only=False,
            topics=values.pop("v3_and_below_topics"),
        ),
    )


def _one_transactions_results(version: int, message: Any) -> Any:
    """The answer of AddPartitionsToTxn before version 4: the results of the only transaction."""
    (transaction,) = message.results_by_transaction
    return schema.response_class(ApiKey.ADD_PARTITIONS_TO_TXN, version)(
        throttle_time=message.throttle_time,
        results_by_topic_v3_and_below=transaction.topic_results,
    )
