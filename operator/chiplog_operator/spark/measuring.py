"""Measures the load for Rebalances from the brokers' counters.

The first reading of a run is kept in memory only: an operator that takes over begins with another
one, which costs seconds. The proposal is computed in a thread; if that takes long, a later pass
takes the result.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from chiplog_core.ids import BrokerId
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.spark_result import Result
from chiplog_core.observed.pinned import NONE_PINNED, pinned_partitions
from chiplog_core.rebalance.brokers_load import Readings, continues, leading, partitions_of
from chiplog_core.rebalance.usable_brokers import brokers_of
from chiplog_core.spark.brokers_measurement import (
    Measurement,
    asks_brokers,
    proposal_name,
    result_of,
    waits_for_brokers,
    waits_for_window,
)
from chiplog_core.spark.topic_choice import WaitReason
from chiplog_operator.caches import ClusterKey
from chiplog_operator.observe import Observer
from chiplog_operator.spark.loads import Loads, LoadsFound

NO_PROCESS = "it has no process with a known address"
COMPUTING: Final = WaitReason("Computing", "the proposal is being computed from the brokers' load")
PATIENCE_S: Final = 0.5
"""For so long a pass waits for a proposal: those of small clusters take milliseconds."""


@dataclass(slots=True)
class Measuring:
    """Measures for one operator process."""

    observer: Observer
    loads: Loads
    _first: dict[str, tuple[int, Readings]] = field(default_factory=dict)
    """By the uid of a Rebalance: the number of its run, and the first reading of that run."""
    _computing: dict[str, tuple[int, asyncio.Task[Result]]] = field(default_factory=dict)
    """By the uid of a Rebalance: the number of its run, and the computation of its proposal. It
    stays here until the result is in the status."""

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Forget the readings and computations for all Rebalances except those with these uids."""
        for uid in {*self._first, *self._computing}.difference(uids):
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._first.pop(uid, None)
        _, computation = self._computing.pop(uid, (0, None))
        if computation is not None:
            computation.cancel()

    async def measure(self, rebalance: Rebalance, key: ClusterKey) -> Measurement | None:
        """The proposal of the brokers' load, or why there is none yet. None if the Rebalance does
        not ask the brokers now."""
        uid, run = rebalance.metadata.uid, rebalance.status.runs
        if not asks_brokers(rebalance):
            self._forget(uid)
            return None
        computing_run, computation = self._computing.get(uid, (run, None))
        if computation is not None and computing_run == run:
            return await self._result_of(uid, computation)
        maps = self.observer.maps(key)
        if maps is None:
            return WaitReason(
                "MapsNotReadable", "a PartitionMap of the cluster cannot be parsed: correct it"
            )
        partitions = partitions_of(found.spec for found in maps.values())
        led = leading(partitions)
        found = await self._ask(key, led)
        reason = waits_for_brokers(led, found.unanswered)
        if reason is not None:
            return reason
        known_run, first = self._first.get(uid, (run, None))
        if known_run != run or first is None or not continues(first, found.readings):
            first = None
            self._first[uid] = (run, found.readings)
        reason = waits_for_window(first, found.readings)
        if reason is not None or first is None:
            return reason
        world = self.observer.from_caches(key)
        # Also of a paused cluster: its topics place their partitions all the same.
        cluster = self.observer.cluster(key)
        compute = partial(
            result_of,
            proposal_name(rebalance),
            rebalance.spec,
            brokers=brokers_of(world),
            partitions=partitions,
            window=(first, found.readings),
            pinned=NONE_PINNED if cluster is None else pinned_partitions(world, cluster),
        )
        self._forget(uid)
        computation = asyncio.create_task(asyncio.to_thread(compute))
        self._computing[uid] = run, computation
        return await self._result_of(uid, computation)

    async def _result_of(self, uid: str, computation: asyncio.Task[Result]) -> Measurement:
        """The result of the computation, or that there is none yet. Raises what it raised; it then
        begins again."""
        await asyncio.wait({computation}, timeout=PATIENCE_S)
        if not computation.done():
            return COMPUTING
        if computation.exception() is not None:
            self._forget(uid)
        return computation.result()

    async def _ask(self, key: ClusterKey, led: Mapping[BrokerId, int]) -> LoadsFound:
        """Ask each broker that leads a partition."""
        processes = [one for one in self.observer.processes(key) if one.broker_id in led]
        found = await self.loads.ask(key, processes)
        for broker_id in led:
            if broker_id not in found.readings:
                found.unanswered.setdefault(broker_id, NO_PROCESS)
        return found
