"""Reads the Leases of other operators, for `leadership`. The decisions are in `other_leases`."""

import logging
from dataclasses import asdict, dataclass
from typing import Protocol

from chiplog_core.naming import labels, names
from chiplog_core.naming.api import GROUP
from chiplog_core.operator_lease.acquiring import Place
from chiplog_core.operator_lease.lease import Claim
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, KubeApi, Manifest
from chiplog_operator.clock import Clock
from chiplog_operator.other_leases import ConflictingLease, OtherLeases

logger = logging.getLogger(__name__)

OF_OPERATORS = f"metadata.name={names.OPERATOR_LEASE}"
"""Rights on one name cover a list of that name, also in all namespaces."""
LIST_AGAIN_S = 10.0
"""A process that waits lists the Leases this often. The API server reads the Leases of all nodes
for such a list, so it is expensive."""


class Listener(Protocol):
    """Reports conflicts with other operators."""

    async def report_conflict(self, message: str, now_s: float) -> None:
        """Another operator prevents this one from being active. Called in every pass. `now_s` is
        from a monotonic clock."""

    def clear_conflict(self) -> None:
        """No operator is in conflict any more."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Something that an operator's account may do."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    """Empty for all namespaces, and for kinds without a namespace."""


LISTS_NODES = Permission("", kinds.NODES.plural, "list")
"""The permission to list nodes. Every operator has it, and no account whose permissions are for one
namespace."""


def writes_maps(namespace: str) -> Permission:
    """The permission that only an operator has: writing PartitionMaps."""
    return Permission(GROUP, kinds.PARTITION_MAPS.plural, "update", namespace)


def review(other: ConflictingLease, permission: Permission) -> Manifest:
    """The request whether a Lease's account has a permission."""
    return {
        "apiVersion": kinds.ACCESS_REVIEWS.api_version,
        "kind": kinds.ACCESS_REVIEWS.kind,
        "metadata": {},
        "spec": {
            "user": f"system:serviceaccount:{other.namespace}:{other.account}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{other.namespace}",
            ],
            "resourceAttributes": asdict(permission),
        },
    }


class OtherOperators:
    """Finds out for one process whether other operators let it be active."""

    def __init__(self, api: KubeApi, clock: Clock, others: OtherLeases, listener: Listener) -> None:
        self._api = api
        self._clock = clock
        self._others = others
        self._listener = listener
        self._is_refused = False
        self._known: tuple[float, Place] | None = None
        """When Leases were listed last (monotonic seconds), and the place that followed."""

    @property
    def claim(self) -> Claim:
        """What this process watches, for its own Lease."""
        return self._others.claim

    async def find_place(self, *, holds_lease: bool) -> Place:
        """Whether other operators let this process be active. The answer is current if the process
        holds its own Lease; otherwise it may be `LIST_AGAIN_S` old."""
        now_s = self._clock.monotonic_s()
        if not holds_lease and self._known and now_s - self._known[0] < LIST_AGAIN_S:
            return self._known[1]
        place = await self._find_place(holds_lease=holds_lease)
        self._known = None if place is Place.UNKNOWN else (now_s, place)
        return place

    async def _find_place(self, *, holds_lease: bool) -> Place:
        """List all operators' Leases, decide by them, and report a conflict. `UNKNOWN` if a request
        failed."""
        try:
            found = await self._api.list_(kinds.LEASES, fields=OF_OPERATORS)
        except Forbidden as error:
            # The RBAC rules were written by hand and lack this permission. Continue as an older
            # version would.
            if not self._is_refused:
                logger.warning("other_operators_unknown", extra={"error": str(error)})
            self._is_refused = True
            self._listener.clear_conflict()
            return Place.FREE
        except ApiError as error:
            logger.debug("other_operators_unknown", extra={"error": str(error)})
            return Place.UNKNOWN
        now_s = self._clock.monotonic_s()
        self._others.observe(found.items, now_s)
        try:
            operators = await self._operators(now_s)
        except ApiError as error:
            logger.debug("other_operators_unknown", extra={"error": str(error)})
            return Place.UNKNOWN
        place, conflicting = self._others.place(now_s, operators, holds_lease=holds_lease)
        if conflicting is None:
            self._listener.clear_conflict()
        elif place is Place.ASIDE:
            await self._listener.report_conflict(conflicting.message(), now_s)
        return place

    async def _operators(self, now_s: float) -> set[str]:
        """The namespaces of the conflicting Leases whose accounts have an operator's
        permissions."""
        found = [other for other in self._others.conflicts(now_s) if await self._is_operator(other)]
        return {other.namespace for other in found}

    async def _is_operator(self, other: ConflictingLease) -> bool:
        """Whether a Lease's account has an operator's permissions in a shared namespace.

        One request about nodes comes first and excludes most accounts, because a false Lease may
        name many namespaces, each of which costs a request.
        """
        if not await self._may(other, LISTS_NODES):
            return False
        for namespace in other.shared_namespaces:
            if await self._may(other, writes_maps(namespace)):
                return True
        return False

    async def _may(self, other: ConflictingLease, permission: Permission) -> bool:
        """Whether the account of a Lease has the permission. True, too, if the API server does not
        let this operator ask."""
        asked = review(other, permission)
        try:
            answer = await self._api.create(
                kinds.ACCESS_REVIEWS, asked, field_manager=labels.OPERATOR
            )
        except Forbidden:
            # This operator's RBAC rules were written by hand and do not allow the question. The
            # Lease counts as an operator's, because two active operators are worse than none.
            return True
        return bool((answer.get("status") or {}).get("allowed"))
