"""The quotas of an AccessList."""

from chiplog_core.client_quotas.entities import Entity, Quota
from chiplog_core.client_quotas.table import QuotaTable
from chiplog_core.model.access_list import AccessListSpec, Quotas

USER_PREFIX = "User:"


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
