"""Rules that allow or refuse a whole request."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from chiplog_broker.handlers.authorized.asking import FAILED, MESSAGES, Asking, Refused, Verdict
from chiplog_broker.handlers.client_quotas import entity_data
from chiplog_broker.handlers.groups import (
    PROTOCOL_FROM_VERSION,
    heartbeat_response,
    join_response,
    leave_response,
    sync_response,
)
from chiplog_broker.handlers.producers import init_response
from chiplog_broker.server.dispatch import is_large
from chiplog_core.authorizer.acls import Operation, ResourceType
from chiplog_core.groups.answers import Joined, Left, Synced
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.steps import Steps

CLUSTER_FAILED = FAILED[ResourceType.CLUSTER]
CLUSTER_MESSAGE = MESSAGES[CLUSTER_FAILED]
GROUP_FAILED = FAILED[ResourceType.GROUP]


@dataclass(frozen=True, slots=True)
class InCluster:
    """A request that needs a permission for the cluster."""

    operation: Operation
    refusal: Callable[[Any], object]
    """Makes the answer to a refused request from the request."""

    def __call__(self, asking: Asking) -> Steps[Verdict]:
        if asking.may_in_cluster(self.operation):
            return None
        if is_large(asking.message):
            return Refused((yield partial(self.refusal, asking.message)))
        return Refused(self.refusal(asking.message))


@dataclass(frozen=True, slots=True)
class OfMember:
    """A request of a member of a group, which needs READ for the group."""

    refusal: Callable[[], object]
    """Makes the answer to a refused request."""

    def __call__(self, asking: Asking) -> Steps[Verdict]:
        yield from ()
        if asking.may(Operation.READ, ResourceType.GROUP, asking.message.group_id):
            return None
        return Refused(self.refusal())


def join() -> object:
    return replace(join_response(Joined()), error_code=GROUP_FAILED)  # type: ignore[type-var]


def sync() -> object:
    return replace(sync_response(Synced()), error_code=GROUP_FAILED)  # type: ignore[type-var]


def heartbeat() -> object:
    return heartbeat_response(GROUP_FAILED)


def leave() -> object:
    return replace(leave_response(Left()), error_code=GROUP_FAILED)  # type: ignore[type-var]


def sync_group(asking: Asking) -> Steps[Verdict]:
    """As for other requests of members. The handler refuses a request without protocol first."""
    request = asking.message
    if asking.version >= PROTOCOL_FROM_VERSION and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return None
    return (yield from OfMember(sync)(asking))


def init_producer_id(asking: Asking) -> Steps[Verdict]:
    """WRITE for the transactional id; without one IDEMPOTENT_WRITE for the cluster, or WRITE for
    any topic (KIP-679)."""
    yield from ()
    transactional_id = asking.message.transactional_id
    code = CLUSTER_FAILED
    if transactional_id is not None:
        if asking.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return None
        code = FAILED[ResourceType.TRANSACTIONAL_ID]
    elif may_write_somewhere(asking) or asking.may_in_cluster(Operation.IDEMPOTENT_WRITE):
        return None
    return Refused(init_response(code))


def may_write_somewhere(asking: Asking) -> bool:
    """Whether the client may write to any topic."""
    authorization = asking.guards.authorization
    return authorization.allows_anywhere(asking.client, Operation.WRITE, ResourceType.TOPIC)


# -- the answers to requests without a permission for the cluster


def describe_acls(_: Any) -> object:
    return answers(ApiKey.DESCRIBE_ACLS).DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=CLUSTER_FAILED,
        error_message=CLUSTER_MESSAGE,
        resources=(),
    )


def create_acls(request: Any) -> object:
    types = answers(ApiKey.CREATE_ACLS)
    refused = types.AclCreationResult(error_code=CLUSTER_FAILED, error_message=CLUSTER_MESSAGE)
    return types.CreateAclsResponse(
        throttle_time=NO_THROTTLE, results=(refused,) * len(request.creations)
    )


def delete_acls(request: Any) -> object:
    types = answers(ApiKey.DELETE_ACLS)
    refused = types.DeleteAclsFilterResult(
        error_code=CLUSTER_FAILED, error_message=CLUSTER_MESSAGE, matching_acls=()
    )
    return types.DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=(refused,) * len(request.filters)
    )


def describe_log_dirs(_: Any) -> object:
    return answers(ApiKey.DESCRIBE_LOG_DIRS).DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=CLUSTER_FAILED, results=()
    )


def elect_leaders(request: Any) -> object:
    types = answers(ApiKey.ELECT_LEADERS)
    return types.ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=CLUSTER_FAILED,
        replica_election_results=tuple(
            types.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    types.PartitionResult(
                        partition_id=index,
                        error_code=CLUSTER_FAILED,
                        error_message=CLUSTER_MESSAGE,
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def alter_partition_reassignments(request: Any) -> object:
    types = answers(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    return types.AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=getattr(request, "allow_replication_factor_change", True),
        error_code=CLUSTER_FAILED,
        error_message=CLUSTER_MESSAGE,
        responses=tuple(
            types.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    types.ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=CLUSTER_FAILED,
                        error_message=CLUSTER_MESSAGE,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def list_partition_reassignments(_: Any) -> object:
    return answers(ApiKey.LIST_PARTITION_REASSIGNMENTS).ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=CLUSTER_FAILED,
        error_message=CLUSTER_MESSAGE,
        topics=(),
    )


def describe_client_quotas(_: Any) -> object:
    return answers(ApiKey.DESCRIBE_CLIENT_QUOTAS).DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        error_code=CLUSTER_FAILED,
        error_message=CLUSTER_MESSAGE,
        entries=None,
    )


def alter_client_quotas(request: Any) -> object:
    types = answers(ApiKey.ALTER_CLIENT_QUOTAS)
    return types.AlterClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        entries=tuple(
            types.EntryData(
                error_code=CLUSTER_FAILED,
                error_message=CLUSTER_MESSAGE,
                entity=entity_data(types, entry),
            )
            for entry in request.entries
        ),
    )


def describe_user_scram_credentials(_: Any) -> object:
    types = answers(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
    return types.DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=CLUSTER_FAILED,
        error_message=CLUSTER_MESSAGE,
        results=(),
    )


def alter_user_scram_credentials(request: Any) -> object:
    types = answers(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    names = sorted({one.name for one in (*request.deletions, *request.upsertions)})
    return types.AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            types.AlterUserScramCredentialsResult(
                user=name, error_code=CLUSTER_FAILED, error_message=CLUSTER_MESSAGE
            )
            for name in names
        ),
    )


def list_config_resources(_: Any) -> object:
    return answers(ApiKey.LIST_CONFIG_RESOURCES).ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE, error_code=CLUSTER_FAILED, config_resources=()
    )
