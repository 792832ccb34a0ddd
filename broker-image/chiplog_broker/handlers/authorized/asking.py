"""One request that is being checked, and the result of the check."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.security.audit import AuditLog, Denial
from chiplog_broker.security.authorization import Authorization
from chiplog_broker.server.call import Call
from chiplog_core.authorizer.acls import CLUSTER_NAME, OPERATIONS, Operation, ResourceType
from chiplog_core.authorizer.decision import Client
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import Steps

FAILED: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}
"""The error for a denied resource."""
MESSAGES: Final = {code: code.name.replace("_", " ").capitalize() + "." for code in FAILED.values()}
"""Kafka's texts for these errors: "Topic authorization failed." and so on."""
NAMES_PER_STEP: Final = 100


@dataclass(frozen=True, slots=True)
class Guards:
    """What checks need besides the request."""

    authorization: Authorization
    audit: AuditLog
    cluster: ClusterView
    creates_topics: bool
    """Whether Metadata may create topics (`auto.create.topics.enable`)."""


class Asking:
    """A request, and the client that sent it."""

    __slots__ = ("api", "client", "guards", "message", "version")

    def __init__(self, guards: Guards, call: Call[Any]) -> None:
        self.guards = guards
        self.client = Client(call.peer.principal, call.peer.host)
        self.api = call.header.api
        self.version = call.header.version
        self.message = call.message

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do this; a denial is logged."""
        if self.sees(operation, resource_type, name):
            return True
        self.denied(operation, resource_type, name)
        return False

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do this; nothing is logged. For what is left out of an answer, and
        for a permission that another one can replace."""
        return self.guards.authorization.allows(self.client, operation, resource_type, name)

    def may_in_cluster(self, operation: Operation) -> bool:
        """As `may`, for the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def denied(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Log a denial."""
        authorization = self.guards.authorization
        self.guards.audit.denied(
            Denial(self.client, self.api.name, operation, resource_type, name),
            lambda: authorization.denied_by(self.client, operation, resource_type, name),
        )

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may do with a resource: a bit for each (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.sees(operation, resource_type, name)
        )

    def cluster_operations(self) -> int:
        """The operations that the client may do in the cluster; none if it may not describe it."""
        if not self.may_in_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True)
class Refused:
    """The whole request is denied; `answer` is sent."""

    answer: object


Merge: TypeAlias = Callable[[Any], Steps[object]]
"""Completes a handler's answer: adds the errors of what was denied, or leaves out what the client
may not see."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The part of the request that is allowed, and what completes the answer to it."""

    message: Any
    merge: Merge


Verdict: TypeAlias = Refused | Reduced | None
"""None: the request passes as it is."""
Rule: TypeAlias = Callable[[Asking], Steps[Verdict]]
"""The check of one API, in steps of some hundred names."""


def changed(message: Any, **fields: Any) -> Any:
    """A copy of a message, be it a tuple or one of kio's dataclasses, with other fields."""
    if hasattr(message, "_replace"):
        return message._replace(**fields)
    return replace(message, **fields)
