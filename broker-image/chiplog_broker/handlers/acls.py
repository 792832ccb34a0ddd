"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140, KIP-290), for a broker with an authorizer."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.security.authorization import AclStore, Creation
from chiplog_broker.security.refusal import Refusal
from chiplog_broker.server.call import Call
from chiplog_core.authorizer.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    why_not_an_acl,
)
from chiplog_core.authorizer.filters import AclFilter
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

MAX_FILTERS: Final = 100
"""Filters in one DeleteAcls: each reads all ACLs, and may have all of them in its result."""
UNKNOWN: Final = "the resource type, pattern type, operation or permission is unknown"
TOO_MANY_FILTERS: Final = f"the request has more than {MAX_FILTERS} filters: send several requests"


class AclHandlers:
    """Describes and changes the ACLs of a store."""

    def __init__(self, store: AclStore, long_work: LongWork) -> None:
        self._store = store
        self._long_work = long_work

    async def describe_acls(self, call: Call[Any]) -> object:
        """The ACLs that the request's filter matches, by resource."""
        types = answers(ApiKey.DESCRIBE_ACLS)
        code, why, resources = ErrorCode.none, None, []
        try:
            wanted = filter_of(call.message)
        except ValueError:
            code, why = ErrorCode.invalid_request, UNKNOWN
        else:
            found = self._store.authorizer.acls.matching(wanted)
            # In another thread: thousands of ACLs take some hundred milliseconds.
            resources = await asyncio.to_thread(by_resource, types, found)
        return types.DescribeAclsResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            error_message=why,
            resources=tuple(resources),
        )

    async def create_acls(self, call: Call[Any]) -> object:
        """Create ACLs; one result for each. An ACL that exists is no error."""
        types, slices = answers(ApiKey.CREATE_ACLS), self._long_work.slices()
        results: list[object] = []
        valid: dict[int, Acl] = {}
        for place, creation in enumerate(call.message.creations):
            await slices.pause()
            try:
                acl = acl_of(creation)
                why = why_not_an_acl(acl)
            except ValueError:
                why = UNKNOWN
            else:
                valid[place] = acl
            if why:
                valid.pop(place, None)
            results.append(
                created(types, ErrorCode.invalid_request if why else ErrorCode.none, why)
            )
        try:
            outcomes = await self._store.create(tuple(valid.values()), call.peer.principal)
        except OSError as failed:
            refused = Refusal(ErrorCode.kafka_storage_error, str(failed))
            outcomes = [Creation(refused)] * len(valid)
        for place, outcome in zip(valid, outcomes, strict=True):
            if outcome.refused is not None:
                results[place] = created(types, *outcome.refused)
        return types.CreateAclsResponse(throttle_time=NO_THROTTLE, results=tuple(results))

    async def delete_acls(self, call: Call[Any]) -> object:
        """Delete the ACLs that the filters match; one result for each filter, with its matches."""
        types = answers(ApiKey.DELETE_ACLS)
        filters = call.message.filters
        results = [refused_filter(types, ErrorCode.invalid_request, UNKNOWN)] * len(filters)
        valid: dict[int, AclFilter] = {}
        for place, wanted in enumerate(filters[:MAX_FILTERS]):
            with suppress(ValueError):
                valid[place] = filter_of(wanted)
        try:
            if len(filters) > MAX_FILTERS:
                raise ValueError(TOO_MANY_FILTERS)
            deletions = await self._store.delete(tuple(valid.values()), call.peer.principal)
        except (OSError, ValueError) as failed:
            code = code_of(failed)
            results = [refused_filter(types, code, str(failed))] * len(filters)
        else:
            for place, acls in zip(valid, deletions.matches, strict=True):
                results[place] = await asyncio.to_thread(
                    applied_filter, types, acls, deletions.refused
                )
        return types.DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=tuple(results))


def code_of(failure: Exception) -> ErrorCode:
    """The error for ACLs that could not be deleted."""
    is_storage = isinstance(failure, OSError)
    return ErrorCode.kafka_storage_error if is_storage else ErrorCode.invalid_request


def refused_filter(types: Any, code: ErrorCode, why: str) -> object:
    """The result for a filter of a DeleteAcls that was not applied."""
    return types.DeleteAclsFilterResult(error_code=code, error_message=why, matching_acls=())


def applied_filter(types: Any, acls: Iterable[Acl], refused: Mapping[Acl, Refusal]) -> object:
    """The result for a filter of a DeleteAcls with the ACLs that it matched; `refused` are those
    that were not deleted."""
    return types.DeleteAclsFilterResult(
        error_code=ErrorCode.none,
        error_message=None,
        matching_acls=tuple(deleted(types, acl, refused.get(acl)) for acl in acls),
    )


def acl_of(creation: Any) -> Acl:
    """The ACL that an entry of CreateAcls names. Raises `ValueError` for an unknown number."""
    return Acl(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )


def acl_of_match(match: Any) -> Acl:
    """The ACL that a result of DeleteAcls names."""
    return Acl(
        ResourceType(match.resource_type),
        match.resource_name,
        PatternType(match.pattern_type),
        match.principal,
        match.host,
        Operation(match.operation),
        Permission(match.permission_type),
    )


def filter_of(wanted: Any) -> AclFilter:
    """The filter of a DescribeAcls or of an entry of DeleteAcls. Raises `ValueError` for an unknown
    number."""
    return AclFilter(
        ResourceType(wanted.resource_type_filter),
        wanted.resource_name_filter,
        PatternType(wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        Operation(wanted.operation),
        Permission(wanted.permission_type),
    )


def by_resource(types: Any, acls: Iterable[Acl]) -> list[object]:
    """The ACLs as DescribeAcls shows them: grouped by their resource patterns."""
    patterns: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
    for acl in acls:
        patterns.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(acl)
    return [
        types.DescribeAclsResource(
            resource_type=int(resource_type),
            resource_name=name,
            pattern_type=int(pattern_type),
            acls=tuple(
                types.AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=int(acl.operation),
                    permission_type=int(acl.permission),
                )
                for acl in of_pattern
            ),
        )
        for (resource_type, name, pattern_type), of_pattern in patterns.items()
    ]


def created(types: Any, code: ErrorCode, why: str) -> object:
    """The result for one ACL of a CreateAcls."""
    return types.AclCreationResult(error_code=code, error_message=why or None)


def deleted(types: Any, acl: Acl, refused: Refusal | None) -> object:
    """One ACL of a DeleteAcls, which is deleted unless that was refused."""
    return types.DeleteAclsMatchingAcl(
        error_code=ErrorCode.none if refused is None else refused.code,
        error_message=None if refused is None else refused.why,
        resource_type=int(acl.resource_type),
        resource_name=acl.name,
        pattern_type=int(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission),
    )
