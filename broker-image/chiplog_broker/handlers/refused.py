"""Requests for features that do not exist or are disabled, with the errors that clients expect."""

from typing import Any

from chiplog_broker.server.call import Call
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

NO_AUTHORIZER = "No Authorizer is configured."


def describe_acls(_: Call[Any]) -> object:
    """An error: there are no ACLs."""
    return answers(ApiKey.DESCRIBE_ACLS).DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.security_disabled,
        error_message=NO_AUTHORIZER,
        resources=(),
    )


def create_acls(call: Call[Any]) -> object:
    """An error for each ACL to create: there are no ACLs."""
    types = answers(ApiKey.CREATE_ACLS)
    refused = types.AclCreationResult(
        error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER
    )
    return types.CreateAclsResponse(
        throttle_time=NO_THROTTLE, results=(refused,) * len(call.message.creations)
    )


def delete_acls(call: Call[Any]) -> object:
    """An error for each filter: there are no ACLs."""
    types = answers(ApiKey.DELETE_ACLS)
    refused = types.DeleteAclsFilterResult(
        error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER, matching_acls=()
    )
    return types.DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=(refused,) * len(call.message.filters)
    )
