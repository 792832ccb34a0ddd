"""Holds the operator's Lease for this process, or waits for it.

The decisions are in `chiplog_core.operator_lease`.
"""

import logging
from dataclasses import dataclass, field

from chiplog_core.naming import labels, names
from chiplog_core.operator_lease.acquiring import Move, Place, next_move
from chiplog_core.operator_lease.lease import (
    Claim,
    LeaseRecord,
    LeaseTimes,
    ObservedLease,
    Step,
    decide,
    lease_held_by,
    released,
)
from chiplog_kube import kinds
from chiplog_kube.api import AlreadyExists, ApiError, Conflict, KubeApi, get_or_none
from chiplog_operator import lease
from chiplog_operator.clock import Clock
from chiplog_operator.other_operators import OtherOperators

logger = logging.getLogger(__name__)

RELEASE_ATTEMPTS = 3


class LeaseLost(Exception):  # noqa: N818 - named for what it says
    """This process is not, or may not be, the active operator any more."""


@dataclass(slots=True)
class Leadership:
    """One process's part in the election; `me` is unique to it."""

    api: KubeApi
    clock: Clock
    namespace: str
    me: str
    times: LeaseTimes = field(default_factory=LeaseTimes)
    other_operators: OtherOperators | None = None
    """Operators with other Leases; without it, they are not checked."""
    _seen: ObservedLease = field(default_factory=ObservedLease)
    _held_until_s: float | None = None
    _is_failing: bool = False

    def is_held(self) -> bool:
        """Whether this process may act now, by its own clock."""
        return self._held_until_s is not None and self.clock.monotonic_s() < self._held_until_s

    async def acquire(self) -> None:
        """Wait until this process holds the Lease and no other operator watches its namespaces."""
        is_logged = False
        while True:
            place = await self._find_place()
            move = next_move(place, is_held=self.is_held())
            if move is Move.BEGIN:
                break
            if await self._carry_out(move):
                continue
            holder = self._seen.record.holder if self._seen.record else ""
            if holder not in ("", self.me) and not is_logged:
                logger.info("standing_by", extra={"holder": holder})
                is_logged = True
            await self.clock.sleep(self.times.renew_s / 2)
        logger.info("in_charge", extra={"identity": self.me})

    async def _carry_out(self, move: Move) -> bool:
        """Carry out a step towards being active. Returns whether the Lease was just taken, so that
        the next step is due without a pause."""
        match move:
            case Move.TAKE:
                return await self._take_or_renew()
            case Move.KEEP:
                await self._take_or_renew()
            case Move.GIVE_BACK:
                await self.release()
            case Move.BEGIN | Move.WAIT:
                pass
        return False

    async def _find_place(self) -> Place:
        """Whether operators with other Leases let this process be active: always `FREE` if they are
        not checked."""
        if self.other_operators is None:
            return Place.FREE
        return await self.other_operators.find_place(holds_lease=self.is_held())

    async def keep(self) -> None:
        """Renew the Lease until that fails for too long. Never returns; raises `LeaseLost`.

        The next renewal is due after a pause from the start of the last one. After a slow renewal,
        the Lease would otherwise expire before the pause is over.
        """
        due_s = self.clock.monotonic_s() + self.times.renew_s
        while True:
            await self.clock.sleep(max(due_s - self.clock.monotonic_s(), 0.0))
            # Check the clock first: a process that was suspended past the end of its Lease must not
            # renew it.
            self._assert_held()
            due_s = self.clock.monotonic_s() + self.times.renew_s
            await self._take_or_renew()
            self._assert_held()
            if self._seen.record is None or self._seen.record.holder != self.me:
                self._held_until_s = None
                raise LeaseLost(
                    f"another process has taken Lease {self.namespace}/{names.OPERATOR_LEASE}"
                )

    async def release(self) -> None:
        """Release the Lease, so that a standby need not wait. A failure does no harm."""
        record, self._held_until_s = self._seen.record, None
        if record is None or record.holder != self.me:
            return
        try:
            await self._release_current()
        except ApiError as error:
            logger.warning("lease_not_released", extra={"error": str(error)})

    async def _release_current(self) -> None:
        """Release the Lease as it is now: a renewal that was cancelled may still have been written,
        or be written between our read and our write. Raises `ApiError`."""
        for attempt in range(RELEASE_ATTEMPTS):
            current = await self._read()
            self._seen = ObservedLease()  # the Lease has another version after this
            if current is None or current.holder != self.me:
                return
            try:
                await self._write(released(current, self.clock.now()))
            except Conflict:
                if attempt + 1 == RELEASE_ATTEMPTS:
                    raise
            else:
                logger.info("lease_released")
                return

    def _assert_held(self) -> None:
        """Raises `LeaseLost` if the last successful renewal is too long ago."""
        if not self.is_held():
            raise LeaseLost(
                f"Lease {self.namespace}/{names.OPERATOR_LEASE} could not be renewed in time"
            )

    async def _take_or_renew(self) -> bool:
        """Read the Lease, and take or renew it if no other process holds it. Returns whether this
        process holds it now; a failed request is logged and returns False."""
        began_s = self.clock.monotonic_s()
        try:
            self._seen = self._seen.after_read(await self._read(), self.clock.monotonic_s())
            step = decide(self.me, self._seen, self.clock.monotonic_s())
            if step is Step.WAIT:
                self._is_failing = False
                return False
            wanted = lease_held_by(
                self.me,
                self._seen.record,
                self.clock.now(),
                self.times,
                self.other_operators.claim if self.other_operators else Claim(),
            )
            taken = await self._write(wanted)
        except (Conflict, AlreadyExists):
            return False  # another process was first; the next pass shows which
        except ApiError as error:
            level = logging.DEBUG if self._is_failing else logging.WARNING
            self._is_failing = True
            facts = {"error": f"{type(error).__name__}: {error}"}
            logger.log(level, "lease_not_reached", extra=facts)
            return False
        self._is_failing = False
        self._seen = ObservedLease(taken, self.clock.monotonic_s())
        # Counted from before the write. Other processes count from when they see it, which is
        # later.
        self._held_until_s = began_s + self.times.duration_s - self.times.margin_s
        return True

    async def _read(self) -> LeaseRecord | None:
        """The Lease at the API server; None if there is none."""
        found = await get_or_none(self.api, kinds.LEASES, self.namespace, names.OPERATOR_LEASE)
        return None if found is None else lease.read(found)

    async def _write(self, record: LeaseRecord) -> LeaseRecord:
        """Replace the version of the Lease that was read, or create it if there was none. Returns
        the new version. Raises `Conflict` or `AlreadyExists` if another process was first."""
        manifest = lease.write(record, self.namespace, names.OPERATOR_LEASE)
        if record.resource_version:
            written = await self.api.replace(kinds.LEASES, manifest, field_manager=labels.OPERATOR)
        else:
            written = await self.api.create(kinds.LEASES, manifest, field_manager=labels.OPERATOR)
        return lease.read(written)
