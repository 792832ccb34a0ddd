"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.security.quota_store import QuotaStore
from chiplog_broker.server.call import Call
from chiplog_core.client_quotas.entities import (
    DEFAULT,
    Entity,
    EntityType,
    Quota,
    why_not_a_value,
    why_not_an_entity,
)
from chiplog_core.client_quotas.table import EntityFilter, QuotaChange, Values, entity_of
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

EXACT, DEFAULT_NAME, ANY_NAME = 0, 1, 2
"""How a filter compares names (KIP-546)."""
IP: Final = "ip"
"""An entity of Kafka, for the rate of new connections. There are no such quotas here."""
KNOWN_TYPES: Final = frozenset({*EntityType, IP})


class Invalid(Exception):  # noqa: N818 - a name for what happened
    """A filter or a change that is not acceptable."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.invalid_request) -> None:
        super().__init__(message)
        self.code = code


class ClientQuotaHandlers:
    """Describes and changes the quotas of a store."""

    def __init__(self, store: QuotaStore, long_work: LongWork) -> None:
        self._store = store
        self._long_work = long_work

    async def describe_client_quotas(self, call: Call[Any]) -> object:
        """The entities that the request's filter matches, with their quotas."""
        types, slices = answers(ApiKey.DESCRIBE_CLIENT_QUOTAS), self._long_work.slices()
        code, message, entries = ErrorCode.none, None, None
        try:
            wanted = filter_of(call.message)
        except Invalid as invalid:
            code, message = invalid.code, str(invalid)
        else:
            found = []
            for entity, values in self._store.quotas.table.entities.items():
                await slices.pause()
                if wanted.matches(entity):
                    found.append(described(types, entity, values))
            entries = tuple(found)
        return types.DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=code, error_message=message, entries=entries
        )

    async def alter_client_quotas(self, call: Call[Any]) -> object:
        """Set and remove quotas; one result for each entry of the request."""
        types, slices = answers(ApiKey.ALTER_CLIENT_QUOTAS), self._long_work.slices()
        changes: dict[int, QuotaChange] = {}
        errors: dict[int, Invalid] = {}
        seen: set[Entity] = set()
        for place, entry in enumerate(call.message.entries):
            await slices.pause()
            try:
                change = change_of(entry)
                if change.entity in seen:
                    raise Invalid("Ignoring duplicate entity")
            except Invalid as invalid:
                errors[place] = invalid
            else:
                seen.add(change.entity)
                changes[place] = change
        errors |= await self._store_changes(changes, call)
        return types.AlterClientQuotasResponse(
            throttle_time=NO_THROTTLE,
            entries=tuple(
                altered(types, entry, errors.get(place))
                for place, entry in enumerate(call.message.entries)
            ),
        )

    async def _store_changes(
        self, changes: Mapping[int, QuotaChange], call: Call[Any]
    ) -> dict[int, Invalid]:
        """Store changes, by their places in the request, or only have them checked. Returns the
        errors by place."""
        try:
            refused = await self._store.alter_quotas(
                tuple(changes.values()),
                call.peer.principal,
                validate_only=call.message.validate_only,
            )
        except OSError as failed:
            error = Invalid(str(failed), ErrorCode.kafka_storage_error)
            return dict.fromkeys(changes, error)
        return {
            place: Invalid(refusal.why, refusal.code)
            for place, change in changes.items()
            if (refusal := refused.get(change.entity)) is not None
        }


def filter_of(request: Any) -> EntityFilter:
    """The filter of a DescribeClientQuotas. Raises `Invalid`."""
    names: dict[str, str] = {}
    any_name: set[str] = set()
    for component in request.components:
        type_, match = component.entity_type, component.match
        if not type_:
            raise Invalid("Invalid empty entity type.")
        if type_ in names or type_ in any_name:
            raise Invalid(f"Entity type {type_} cannot appear more than once in the filter.")
        if type_ not in KNOWN_TYPES:
            raise Invalid(f"Unsupported entity type {type_}", ErrorCode.unsupported_version)
        if component.match_type not in (EXACT, DEFAULT_NAME, ANY_NAME):
            raise Invalid(f"Unknown match type {component.match_type}")
        if (component.match_type == EXACT) is (match is None):
            raise Invalid("A match string belongs to the match type of exact names, and only to it")
        if component.match_type == ANY_NAME:
            any_name.add(type_)
        elif match == DEFAULT:
            raise Invalid(f"Empty {type_} not supported")
        else:
            names[type_] = DEFAULT if match is None else match
    types = {*names, *any_name}
    if IP in types and len(types) > 1:
        raise Invalid("Invalid entity filter component combination: ip with another type")
    return EntityFilter(names, frozenset(any_name), request.strict)


def change_of(entry: Any) -> QuotaChange:
    """The change that an entry of an AlterClientQuotas asks for. Raises `Invalid`."""
    parts: dict[EntityType, str] = {}
    for part in entry.entity:
        if part.entity_type not in {*EntityType}:
            raise Invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == DEFAULT:
            raise Invalid(f"Empty {part.entity_type} not supported")
        type_ = EntityType(part.entity_type)
        if type_ in parts:
            raise Invalid(f"Invalid client quota entity, duplicate entity entry {type_}")
        parts[type_] = DEFAULT if part.entity_name is None else part.entity_name
    entity = entity_of(parts)
    if why := why_not_an_entity(entity):
        raise Invalid(why)
    return QuotaChange(entity, values_of(entry.ops))


def values_of(operations: Iterable[Any]) -> dict[Quota, float | None]:
    """The values that the operations of an entry set; None for those to remove. Raises
    `Invalid`."""
    values: dict[Quota, float | None] = {}
    for operation in operations:
        if operation.key not in {*Quota}:
            raise Invalid(f"Invalid configuration key {operation.key}")
        quota = Quota(operation.key)
        if quota in values:
            raise Invalid(f"Duplicate quota key {quota}")
        if not operation.remove and (why := why_not_a_value(quota, operation.value)):
            raise Invalid(why)
        values[quota] = None if operation.remove else operation.value
    return values


def described(types: Any, entity: Entity, values: Values) -> object:
    """An entity with its quotas, as DescribeClientQuotas shows them."""
    return types.EntryData(
        entity=tuple(
            types.EntityData(entity_type=type_.value, entity_name=name or None)
            for type_, name in entity.parts().items()
        ),
        values=tuple(
            types.ValueData(key=quota.value, value=float(value)) for quota, value in values.items()
        ),
    )


def altered(types: Any, entry: Any, error: Invalid | None) -> object:
    """The result for one entry of an AlterClientQuotas."""
    return types.EntryData(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else str(error),
        entity=entity_data(types, entry),
    )


def entity_data(types: Any, entry: Any) -> tuple[object, ...]:
    """The entity of a request's entry, for the answer."""
    return tuple(
        types.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
        for part in entry.entity
    )
