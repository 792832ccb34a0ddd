"""What is not built yet or switched off, refused in the words that clients act on.

A coordinator that is not there yet is asked for again, so consumers that only assign
partitions go on working. A transactional producer must fail for good: a code that says
"later" would make it try for ever.
"""

from typing import Any

from chiplog_broker.handlers.call import Call
from chiplog_broker.protocol.answers import NO_THROTTLE, answers
from chiplog_broker.protocol.apis import ApiKey
from chiplog_broker.protocol.errors import ErrorCode

GROUP = 0
NO_AUTHORIZER = "No Authorizer is configured."


def find_coordinator(call: Call[Any]) -> object:
    """Groups are not served yet; transactions are refused fatally."""
    types = answers(ApiKey.FIND_COORDINATOR)
    if call.message.key_type == GROUP:
        code, why = ErrorCode.coordinator_not_available, "consumer groups are not built yet"
    else:
        code = ErrorCode.transactional_id_authorization_failed
        why = "transactions are not built yet"
    return types.FindCoordinatorResponse(
        throttle_time=NO_THROTTLE,
        coordinators=tuple(
            types.Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=code, error_message=why
            )
            for key in call.message.coordinator_keys
        ),
    )


def describe_acls(_: Call[Any]) -> object:
    return answers(ApiKey.DESCRIBE_ACLS).DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.security_disabled,
        error_message=NO_AUTHORIZER,
        resources=(),
    )


def create_acls(call: Call[Any]) -> object:
    types = answers(ApiKey.CREATE_ACLS)
    refused = types.AclCreationResult(
        error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER
    )
    return types.CreateAclsResponse(
        throttle_time=NO_THROTTLE, results=(refused,) * len(call.message.creations)
    )


def delete_acls(call: Call[Any]) -> object:
    types = answers(ApiKey.DELETE_ACLS)
    refused = types.DeleteAclsFilterResult(
        error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER, matching_acls=()
    )
    return types.DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=(refused,) * len(call.message.filters)
    )
