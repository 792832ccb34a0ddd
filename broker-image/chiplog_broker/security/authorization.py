"""What a client may do, by the ACLs that are in force; decisions are kept until the ACLs change.

Kept decisions are shared by all connections, so their memory is bounded for the process. A decision
takes some microseconds (`chiplog_core.authorizer`); a kept one takes a fraction of one.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from chiplog_broker.security.refusal import Refusal
from chiplog_core.authorizer.acls import MAX_FIELD_LENGTH, Acl, Operation, ResourceType
from chiplog_core.authorizer.decision import Authorizer, Client
from chiplog_core.authorizer.filters import AclFilter

MAX_KEPT: Final = 20_000
"""Decisions that are kept. When there are more, all are dropped: a client may ask for any number of
names."""
LONGEST_KEPT_NAME: Final = 249
"""Longer names are not kept; no topic has one."""
LONGEST_KEPT_PRINCIPAL: Final = MAX_FIELD_LENGTH
"""Decisions for longer principals are not kept; no ACL has one. Each connection has a text of its
own, of up to 100 KB from its certificate."""
MAX_MATCHES: Final = 20_000
"""Matches of all filters of one request, which are in its answer."""
TOO_MANY_MATCHES: Final = "the filters overlap too much: send them in several requests"
ANYWHERE: Final = ""
"""In place of a name: the decision for any resource of the type. No resource has an empty name."""


class AclSource(Protocol):
    """Where ACLs come from: files of a standalone broker, or objects of a cluster."""

    @property
    def version(self) -> int:
        """A number that is different after every change of ACLs or super users."""

    @property
    def authorizer(self) -> Authorizer:
        """Decides by the present ACLs and super users."""


class Creation(NamedTuple):
    """The result for one ACL to create."""

    refused: Refusal | None = None
    is_new: bool = False
    """Whether the ACL did not exist before."""


class Deletions(NamedTuple):
    """The result of a deletion."""

    matches: Sequence[Sequence[Acl]]
    """The ACLs that each filter matches."""
    refused: Mapping[Acl, Refusal] = MappingProxyType({})
    """Those that were not deleted."""


class AclStore(AclSource, Protocol):
    """A source whose ACLs clients can change."""

    async def create(self, acls: Sequence[Acl], principal: str, /) -> list[Creation]:
        """Add ACLs, which are valid, for this principal; one result for each. Raises `OSError`, and
        then nothing was changed."""

    async def delete(self, filters: Sequence[AclFilter], principal: str, /) -> Deletions:
        """Delete the ACLs that the filters match, for this principal. Raises `OSError`, or
        `ValueError` for too many matches; then nothing was changed."""


class Authorization:
    """Decides what clients may do, and keeps the decisions."""

    def __init__(self, source: AclSource) -> None:
        self._source = source
        self._version = source.version
        self._kept: dict[tuple[Client, Operation, ResourceType, str], bool] = {}

    @property
    def version(self) -> int:
        """The version of the ACLs in force."""
        return self._source.version

    def allows(
        self, client: Client, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the client may do this with the resource of this name."""
        question = client, operation, resource_type, name
        known = self._known().get(question)
        if known is None:
            known = self._source.authorizer.decide(*question).is_allowed
            self._keep(question, is_allowed=known)
        return known

    def allows_anywhere(
        self, client: Client, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the client may do this with at least one resource of the type."""
        question = client, operation, resource_type, ANYWHERE
        known = self._known().get(question)
        if known is None:
            known = self._source.authorizer.allows_anywhere(client, operation, resource_type)
            self._keep(question, is_allowed=known)
        return known

    def denied_by(
        self, client: Client, operation: Operation, resource_type: ResourceType, name: str
    ) -> Acl | None:
        """The ACL that denies this; None if no ACL allows it."""
        return self._source.authorizer.decide(client, operation, resource_type, name).acl

    def _known(self) -> dict[tuple[Client, Operation, ResourceType, str], bool]:
        """The kept decisions; none if the ACLs have changed since they were made."""
        if self._version != self._source.version:
            self._version = self._source.version
            self._kept.clear()
        return self._kept

    def _keep(
        self, question: tuple[Client, Operation, ResourceType, str], *, is_allowed: bool
    ) -> None:
        if len(question[-1]) > LONGEST_KEPT_NAME:
            return
        if len(question[0].principal) > LONGEST_KEPT_PRINCIPAL:
            return
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[question] = is_allowed
