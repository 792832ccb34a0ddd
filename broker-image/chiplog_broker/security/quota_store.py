"""Changes of client quotas, and where they are stored."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from chiplog_broker.security.refusal import Refusal
from chiplog_core.client_quotas.entities import Entity
from chiplog_core.client_quotas.table import NO_QUOTAS, QuotaChange, QuotaTable
from chiplog_wire.protocol.errors import ErrorCode

USERS_ARE_NOT_READ: Final = Refusal(
    ErrorCode.policy_violation,
    "brokers of this cluster do not read its Users: set spec.authorization.type of the "
    "BrokerCluster to simple",
)


class KnownQuotas:
    """The quotas that a store knows now."""

    def __init__(self) -> None:
        self.table = NO_QUOTAS
        self._listeners: list[Callable[[QuotaTable], None]] = []

    def on_change(self, changed: Callable[[QuotaTable], None]) -> None:
        """Have `changed` called after each change, in the same turn of the event loop."""
        self._listeners.append(changed)

    def replace(self, table: QuotaTable) -> None:
        """From now on these are the quotas."""
        if table != self.table:
            self.table = table
            for changed in self._listeners:
                changed(table)


class QuotaStore(Protocol):
    """Where quotas come from: a file of a standalone broker, or objects of a cluster."""

    @property
    def quotas(self) -> KnownQuotas:
        """The present quotas."""

    async def alter_quotas(
        self, changes: Sequence[QuotaChange], principal: str, *, validate_only: bool = False
    ) -> Mapping[Entity, Refusal]:
        """Store valid changes of a client, of which each entity has one, or only say which would be
        refused. Returns those that were, by entity. Raises `OSError`, and then nothing was
        changed."""


class NoUsers:
    """The `QuotaStore` of a cluster on Kubernetes whose brokers do not read its Users."""

    def __init__(self, quotas: KnownQuotas) -> None:
        self.quotas = quotas

    async def alter_quotas(
        self, changes: Sequence[QuotaChange], _principal: str, *, validate_only: bool = False
    ) -> Mapping[Entity, Refusal]:
        return {change.entity: USERS_ARE_NOT_READ for change in changes}
