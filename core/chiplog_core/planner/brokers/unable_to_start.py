"""Brokers that cannot start: a roll need not wait for them, nor they for a window.

A change may be wrong: an image that cannot be pulled, a limit that is far too small, a node that
does not exist. When the user has corrected the spec, the broker's pod still has the wrong revision,
and only its deletion helps: a StatefulSet does not replace a pod that never became ready.

A broker that starts may be recovering its logs, which may take hours, and would only begin again.
It renews its Lease from before it reads the first log. So a container that runs without starting is
recovering as long as the broker's Lease is renewed, unless an earlier process ran out of memory
while it was starting: then this one will, too. The time without a Lease counts from the container's
start: before it, nobody could renew.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from chiplog_core.ids import BrokerId
from chiplog_core.observed.world import PodState, World

PATIENCE = timedelta(minutes=5)
"""How long a pod must not have been ready: a registry or a node may be away for a moment."""

SILENCE = timedelta(minutes=1)
"""For how long nobody must have renewed the Lease: ten times as long as a Lease is valid."""


def unable_to_start(world: World, now: datetime) -> frozenset[BrokerId]:
    """The brokers that have not been ready for `PATIENCE`, and neither run nor recover."""
    return frozenset(
        broker_id
        for broker_id, pod in world.pods.items()
        if (left := _left(world, broker_id, pod, now)) is not None and left <= timedelta()
    )


def next_unable_ms(world: World, brokers: Iterable[BrokerId], now: datetime) -> int | None:
    """In how many milliseconds the next of these brokers counts as unable to start; None if none
    will."""
    left = [
        time_left
        for broker_id in brokers
        if (pod := world.pods.get(broker_id)) is not None
        and (time_left := _left(world, broker_id, pod, now)) is not None
        and time_left > timedelta()
    ]
    # Rounded up, so that the next plan does not come too early.
    return min(left) // timedelta(milliseconds=1) + 1 if left else None


def _left(world: World, broker_id: BrokerId, pod: PodState, now: datetime) -> timedelta | None:
    """After which time the broker counts as unable to start if nothing changes, at most zero if it
    does now; None for one that runs or is stopping, and where the time is not known."""
    if pod.ready or pod.has_started or pod.deleting or pod.unready_since is None:
        return None
    left = pod.unready_since + PATIENCE - now
    if pod.ran_out_of_memory:
        return left
    if pod.starting:
        if pod.running_since is None:
            return None
        silence = timedelta(milliseconds=world.silent_ms.get(broker_id, 0))
        return max(left, SILENCE - min(silence, now - pod.running_since))
    return left if pod.message else None
