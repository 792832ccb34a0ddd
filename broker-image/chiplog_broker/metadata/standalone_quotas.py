"""The client quotas of a standalone broker: one file in the metadata directory, replaced
atomically."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from chiplog_broker.metadata.stored_list import encode_list, read_list
from chiplog_broker.ports.disk import Disk
from chiplog_broker.security.quota_store import KnownQuotas
from chiplog_broker.security.refusal import Refusal
from chiplog_core.client_quotas.entities import (
    Entity,
    EntityType,
    Quota,
    why_not_a_value,
    why_not_an_entity,
)
from chiplog_core.client_quotas.table import QuotaChange, QuotaTable, Values, entity_of
from chiplog_wire.protocol.errors import ErrorCode

QUOTAS_FILE: Final = "quotas.json"
MAX_ENTITIES: Final = 10_000
"""The whole file is written at each change, so it must stay small."""
TOO_MANY: Final = Refusal(
    ErrorCode.policy_violation,
    f"a standalone broker keeps quotas of at most {MAX_ENTITIES} entities",
)


class StandaloneQuotas:
    """The `QuotaStore` of a standalone broker."""

    def __init__(self, disk: Disk, quotas: KnownQuotas) -> None:
        """Read the stored quotas. Raises `ValueError` if the file cannot be read."""
        self._disk = disk
        self._lock = asyncio.Lock()
        self.quotas = quotas
        quotas.replace(read_quotas(disk))

    async def alter_quotas(
        self, changes: Sequence[QuotaChange], _principal: str, *, validate_only: bool = False
    ) -> Mapping[Entity, Refusal]:
        """Store these changes, or only check them; returns those that are refused. Raises
        `OSError`, and then nothing was changed."""
        async with self._lock:
            before = self.quotas.table
            room = MAX_ENTITIES - len(before.entities)
            accepted, refused = [], {}
            for change in changes:
                is_new = change.entity not in before.entities
                if is_new and room <= 0:
                    refused[change.entity] = TOO_MANY
                    continue
                room -= is_new
                accepted.append(change)
            after = before.changed(accepted)
            if after != before and not validate_only:
                # In another thread: thousands of entities take some ten milliseconds to encode.
                await self._disk.replace(QUOTAS_FILE, await asyncio.to_thread(encode, after))
                self.quotas.replace(after)
            return refused


def encode(table: QuotaTable) -> bytes:
    """The content of the file, with a checksum line."""
    stored = (
        {
            "entity": {type_.value: name for type_, name in entity.parts().items()},
            "quotas": {quota.value: value for quota, value in values.items()},
        }
        for entity, values in table.entities.items()
    )
    return encode_list("quotas", stored)


def read_quotas(disk: Disk) -> QuotaTable:
    """The stored quotas; none if there is no file. Raises `ValueError` if it cannot be read."""
    return QuotaTable(dict(read_list(disk, QUOTAS_FILE, "quotas", decode)))


def decode(stored: Mapping[str, Any]) -> tuple[Entity, Values]:
    """A stored entity with its quotas. Raises `LookupError`, `TypeError`, `AttributeError` or
    `ValueError`."""
    entity = entity_of({EntityType(type_): str(name) for type_, name in stored["entity"].items()})
    values = {Quota(quota): float(value) for quota, value in stored["quotas"].items()}
    wrong = (why_not_a_value(quota, value) for quota, value in values.items())
    if why := why_not_an_entity(entity) or next(filter(None, wrong), ""):
        raise ValueError(why)
    return entity, values
