"""The quotas in force, and which of them applies to a client.

The most specific one applies, for each quota separately, in Kafka's order
(`ClientQuotaManager.DefaultQuotaCallback`). A default is a limit for each client that it applies
to, and not for all of them together.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from chiplog_core.client_quotas.entities import DEFAULT, Entity, EntityType, Quota

Values: TypeAlias = Mapping[Quota, float]


class Found(NamedTuple):
    """A quota that applies to a client, and who shares it: all clients with this user and client
    id, of which an empty one stands for any."""

    rate: float
    user: str
    client_id: str
    entity: Entity
    """Whose quota it is."""


class QuotaTable:
    """All quotas. Never changes."""

    def __init__(self, entities: Mapping[Entity, Values] | None = None) -> None:
        """Entities without values are left out."""
        self.entities: Mapping[Entity, Values] = {
            entity: dict(values) for entity, values in (entities or {}).items() if values
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuotaTable) and self.entities == other.entities

    __hash__ = None  # type: ignore[assignment] # it holds dictionaries

    def __bool__(self) -> bool:
        """Whether there is any quota."""
        return bool(self.entities)

    def find(self, quota: Quota, user: str, client_id: str) -> Found | None:
        """The quota of a client; None if it is not limited."""
        for entity in _most_specific_first(user, client_id):
            rate = self.entities.get(entity, {}).get(quota)
            if rate is not None:
                return Found(
                    rate,
                    "" if entity.user is None else user,
                    "" if entity.client_id is None else client_id,
                    entity,
                )
        return None

    def changed(self, changes: Iterable["QuotaChange"]) -> "QuotaTable":
        """This table with the changes."""
        entities = {entity: dict(values) for entity, values in self.entities.items()}
        for change in changes:
            values = entities.setdefault(change.entity, {})
            for quota, value in change.values.items():
                if value is None:
                    values.pop(quota, None)
                else:
                    values[quota] = value
        return QuotaTable(entities)


NO_QUOTAS: Final = QuotaTable()


class QuotaChange(NamedTuple):
    """The values to set for an entity; None for those to remove."""

    entity: Entity
    values: Mapping[Quota, float | None]


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """The entities that a DescribeClientQuotas asks for."""

    names: Mapping[str, str]
    """Type -> the name that entities must have, or `DEFAULT`."""
    any_name: frozenset[str] = frozenset()
    """Types that entities must name, be it with whatever name."""
    is_strict: bool = False
    """Whether entities may name no other types."""

    def matches(self, entity: Entity) -> bool:
        """Whether the filter matches an entity."""
        parts = {type_.value: name for type_, name in entity.parts().items()}
        if self.is_strict and len(parts) != len(self.names) + len(self.any_name):
            return False
        return self.any_name <= parts.keys() and all(
            parts.get(type_) == name for type_, name in self.names.items()
        )


def entity_of(parts: Mapping[EntityType, str]) -> Entity:
    """The entity that names these parts."""
    return Entity(parts.get(EntityType.USER), parts.get(EntityType.CLIENT_ID))


def _most_specific_first(user: str, client_id: str) -> Iterator[Entity]:
    """The entities whose quotas may apply to a client."""
    yield Entity(user, client_id)
    yield Entity(user, DEFAULT)
    yield Entity(user)
    yield Entity(DEFAULT, client_id)
    yield Entity(DEFAULT, DEFAULT)
    yield Entity(DEFAULT)
    yield Entity(None, client_id)
    yield Entity(None, DEFAULT)
