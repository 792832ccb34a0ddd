"""Whom a quota is for, which quotas there are, and which values they may have."""

from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from typing import Final, NamedTuple

from chiplog_core.authorizer.acls import MAX_FIELD_LENGTH

DEFAULT: Final = ""
"""In place of a name: all users, or client ids, that have no quota of their own. No entity has an
empty name."""
MAX_QUOTA: Final = 2.0**63
WHOLE_TOLERANCE: Final = 1e-6
"""Kafka's tolerance for rates that must be whole numbers."""


class EntityType(StrEnum):
    """What quotas can be for; Kafka's names."""

    USER = "user"
    CLIENT_ID = "client-id"


class Quota(StrEnum):
    """The quotas by Kafka's names."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"


WHOLE: Final = frozenset({Quota.PRODUCER_BYTE_RATE, Quota.CONSUMER_BYTE_RATE})
"""Quotas whose values are whole numbers."""


class Entity(NamedTuple):
    """A user, a client id, or a client id of a user: None for what it does not name, `DEFAULT` for
    the default."""

    user: str | None = None
    client_id: str | None = None

    def parts(self) -> Mapping[EntityType, str]:
        """What it names."""
        both = {EntityType.USER: self.user, EntityType.CLIENT_ID: self.client_id}
        return {type_: name for type_, name in both.items() if name is not None}

    @property
    def is_default(self) -> bool:
        """Whether it stands for any number of users or client ids, which each have the quota."""
        return DEFAULT in self


def why_not_an_entity(entity: Entity) -> str:
    """Why there can be no quota for this entity; empty if there can."""
    if not entity.parts():
        return "Invalid empty client quota entity"
    for type_, name in entity.parts().items():
        if len(name) > MAX_FIELD_LENGTH:
            return f"The {type_} has more than {MAX_FIELD_LENGTH} characters"
    return ""


def why_not_a_value(quota: Quota, value: float) -> str:
    """Why a request cannot set the quota to this value; empty if it can. A User may have 0."""
    if not isfinite(value) or not 0 < value <= MAX_QUOTA:
        return f"Quota {quota} must be greater than 0"
    if quota in WHOLE and abs(value - round(value)) > WHOLE_TOLERANCE:
        return f"Configuration {quota} must be a Long value"
    return ""
