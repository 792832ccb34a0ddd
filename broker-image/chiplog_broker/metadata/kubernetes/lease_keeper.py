"""Renews the Lease of this process from its start to its end, which shows that it is alive.

This has its own task and deadline, so neither recovery nor a slow API server delays the next
renewal.
"""

import asyncio
import logging
from datetime import UTC, datetime

from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.metadata.kubernetes.process import FIELD_MANAGER, Process
from chiplog_broker.metadata.kubernetes.renewals import Renewals, published_as
from chiplog_broker.ports.clock import Clock
from chiplog_kube.api import ApiError, KubeApi, NotFound
from chiplog_kube.kinds import LEASES

logger = logging.getLogger(__name__)

RENEW_INTERVAL_S = 1.5
RENEW_TIMEOUT_S = 2.0
LEASE_DURATION_S = 6


class LeaseKeeper:
    """Renews one Lease, which the operator has created."""

    def __init__(
        self,
        api: KubeApi,
        process: Process,
        clock: Clock,
        outages: Outages,
        renewals: Renewals,
    ) -> None:
        self._renewals = renewals
        self._api = api
        self._process = process
        self._clock = clock
        self._outages = outages
        self._lease_exists = True

    async def run(self) -> None:
        """Renew until cancelled."""
        next_s = self._clock.monotonic_s()  # when the next renewal is due
        while True:
            await self.renew()
            now_s = self._clock.monotonic_s()
            # In fixed intervals; after a slow renewal at once.
            next_s = max(next_s + RENEW_INTERVAL_S, now_s)
            await self._clock.sleep(next_s - now_s)

    async def renew(self) -> None:
        """Renew once. A failure is only reported: `run` renews again soon."""
        await self._renewals.store_next_number()
        patch = {
            "spec": {
                "holderIdentity": self._process.incarnation,
                "leaseDurationSeconds": LEASE_DURATION_S,
                "renewTime": micro_time(self._clock.now_ms()),
            },
            **published_as(self._renewals.durable),
        }
        try:
            async with asyncio.timeout(RENEW_TIMEOUT_S):
                await self._api.patch(
                    LEASES,
                    self._process.namespace,
                    self._process.lease_name,
                    patch,
                    field_manager=FIELD_MANAGER,
                )
        except NotFound as error:
            # There is no Lease yet: the operator may still have to create it.
            self._outages.answered()
            if self._lease_exists:
                self._lease_exists = False
                logger.warning("lease_missing", extra={"reason": str(error)})
        except (ApiError, TimeoutError) as error:
            self._outages.failed(error)
        else:
            self._lease_exists = True
            self._outages.worked()


def micro_time(now_ms: int) -> str:
    """The time as Kubernetes' MicroTime."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
