"""Changes of client quotas, and where they are stored."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from chiplog_core.client_quotas.entities import Entity
from chiplog_core.client_quotas.table import NO_QUOTAS, QuotaChange, QuotaTable


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

    async def alter_quotas(self, changes: Sequence[QuotaChange]) -> Mapping[Entity, str]:
        """Store valid changes, of which each entity has one. Returns entity -> why it was refused,
        for those that were. Raises `OSError`, and then nothing was changed."""
