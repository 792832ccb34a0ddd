"""Detects that a volume was replaced by an older copy of itself.

Before each renewal of its Lease, every 1.5 s, an admitted process increments a number on its disk
durably, and the renewal publishes it. The next process compares the two first of all. If the number
on the disk is lower, the disk is an older copy: it was restored from a snapshot or rolled back by
the storage, and records that were acknowledged since then are missing. A higher number on the disk
is normal, since a number is durable before it is published. Records that were acknowledged after
the last published number are not found missing in this way; see docs/guarantees.md.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.metadata.kubernetes.process import Process
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.whole_files import read_file
from chiplog_core.naming import labels
from chiplog_kube.api import ApiError, KubeApi, Manifest, NotFound
from chiplog_kube.kinds import LEASES

logger = logging.getLogger(__name__)

RENEWAL_FILE = "renewal"
PATIENCE_S = 0.2
"""How long a renewal of the Lease waits for the disk: a hanging disk must not end the Lease."""
RETRY_S = 1.0
REQUEST_TIMEOUT_S = 10.0


class Renewals:
    """Counts renewals of the Lease durably on this disk. Call `compare` first."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._highest = 0
        """The highest number that the disk or the Lease knows."""
        self.durable: int | None = None
        """The number of the last renewal that is stored on the disk, which the Lease may get; None
        before this process has stored one."""
        self._is_failing = False
        self._is_counting = False
        self._next_is_wanted = asyncio.Event()
        self._attempted = asyncio.Event()

    async def compare(self, api: KubeApi, process: Process, outages: Outages) -> bool:
        """Whether the volume is an older copy. The number of the last renewal is stored on the disk
        before it is published in the Lease, so a lower number on the disk proves that. Waits until
        the Lease can be read."""
        # The lock on the data must be held: before that, another process may still increment the
        # number.
        stored = _stored(self._disk)
        published = await self._published(api, process, outages)
        self._highest = max(stored, published)
        if stored < published:
            logger.error("volume_went_back", extra={"renewal": stored, "published": published})
        return stored < published

    async def run(self) -> None:
        """Store a number now and for each `store_next_number`, until cancelled. Only an admitted
        process may do that, because the operator knows its disk."""
        number = self._highest
        self._is_counting = True
        while True:
            number += 1
            try:
                await self._disk.replace(RENEWAL_FILE, b"%d\n" % number)
            except OSError as error:
                if not self._is_failing:
                    logger.warning("renewal_not_kept", extra={"reason": str(error)})
                self._is_failing = True
            else:
                self.durable, self._is_failing = number, False
            self._attempted.set()
            await self._next_is_wanted.wait()
            self._next_is_wanted.clear()

    async def store_next_number(self) -> None:
        """Make the next number durable just before a renewal publishes it, or give up after
        `PATIENCE_S`. So a copy of the volume is detected if it is older than two renewals."""
        if not self._is_counting:
            return
        self._attempted.clear()
        self._next_is_wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._attempted.wait()

    async def _published(self, api: KubeApi, process: Process, outages: Outages) -> int:
        """The number in the Lease; 0 if there is none."""
        while True:
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    lease = await api.get(LEASES, process.namespace, process.lease_name)
                outages.worked()
                return _number_in(lease)
            except NotFound:
                outages.answered()
                return 0  # nothing was published
            except (ApiError, TimeoutError) as error:
                outages.failed(error)
                await self._clock.sleep(RETRY_S)


def published_as(number: int | None) -> Mapping[str, object]:
    """The part of a patch of the Lease that publishes this number as an annotation; empty for
    None."""
    if number is None:
        return {}
    return {"metadata": {"annotations": {labels.RENEWAL: str(number)}}}


def _number_in(lease: Manifest) -> int:
    """The number that the Lease's annotation has; 0 if there is none."""
    annotations = (lease.get("metadata") or {}).get("annotations") or {}
    return _parsed(str(annotations.get(labels.RENEWAL, "")))


def _stored(disk: Disk) -> int:
    """The number on this disk; 0 if there is none."""
    if not disk.exists(RENEWAL_FILE):
        return 0
    return _parsed(read_file(disk, RENEWAL_FILE).decode("ascii", "replace").strip())


def _parsed(text: str) -> int:
    """The number; 0 if it is unreadable or missing, so that a disk without one counts as older than
    any Lease with one. A number that may not fit into an int64 is unreadable, too."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
