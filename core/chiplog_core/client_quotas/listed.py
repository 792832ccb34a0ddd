"""The quotas of Users and of an AccessList, and Kafka's names for them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from chiplog_core.client_quotas.entities import WHOLE, Entity, Quota, why_not_a_value
from chiplog_core.client_quotas.table import QuotaTable
from chiplog_core.model.access_list import AccessListSpec, Quotas

USER_PREFIX = "User:"
WHOLE_IN_USERS: Final = WHOLE | {Quota.REQUEST_PERCENTAGE}
"""Quotas that are whole numbers in User objects."""


def listed_quotas(spec: AccessListSpec) -> QuotaTable:
    """The quotas of all listed users."""
    return QuotaTable(
        {
            Entity(user=user.principal.removeprefix(USER_PREFIX)): values(user.quotas)
            for user in spec.users
            if user.quotas is not None
        }
    )


def values(quotas: Quotas) -> dict[Quota, float]:
    """The quotas of one user that are set."""
    every: dict[Quota, float | None] = {
        Quota.PRODUCER_BYTE_RATE: quotas.producer_byte_rate,
        Quota.CONSUMER_BYTE_RATE: quotas.consumer_byte_rate,
        Quota.REQUEST_PERCENTAGE: quotas.request_percentage,
        Quota.CONTROLLER_MUTATION_RATE: quotas.controller_mutation_rate,
    }
    return {quota: float(rate) for quota, rate in every.items() if rate is not None}


def value_in_user(quota: Quota, value: float) -> float:
    """The value as a User has it."""
    return round(value) if quota in WHOLE_IN_USERS else value


def why_not_in_user(quota: Quota, value: float) -> str:
    """Why a request cannot set the quota of a User to this value; empty if it can, as far as the
    User's schema allows it."""
    if why := why_not_a_value(quota, value):
        return why
    if quota in WHOLE_IN_USERS - WHOLE and not value.is_integer():
        return f"Quota {quota} of a User must be a whole number"
    return ""


def changed(quotas: Quotas, changes: Mapping[Quota, float | None]) -> Quotas:
    """The quotas of a User with the changes; None removes one."""
    # Kafka names the quotas as the attributes are named.
    fields = {
        quota.value: None if value is None else value_in_user(quota, value)
        for quota, value in changes.items()
    }
    return replace(quotas, **fields)  # type: ignore[arg-type] # whole numbers where they must be
