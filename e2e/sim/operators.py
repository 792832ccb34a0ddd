"""Operator processes: each a standby until it holds the Lease, as the operator's own `main`."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from chiplog_core.ids import TopicId
from chiplog_core.model.actions import Action
from chiplog_core.model.verification import Verification
from chiplog_core.observed.world import World
from chiplog_kube.manifests import ObjectKey
from chiplog_operator.caches import JOB_KINDS, USER_KINDS, ClusterKey
from chiplog_operator.groups.password import Passwords
from chiplog_operator.groups.port import GroupsPort
from chiplog_operator.leadership import Leadership
from chiplog_operator.spark.loads import Loads
from chiplog_operator.spark.loop import SparkLoop
from chiplog_operator.system import Randomness, Settings, System
from e2e.sim.kubelet import SimContext
from e2e.sim.loop import Process, SimClock

HOME: Final = "chiplog-system"


class Meter:
    """The operator's metrics port; counts only maps that the operator's own check refused."""

    def __init__(self) -> None:
        self.refused_maps = 0

    def queued(self, cluster: ClusterKey) -> None: ...

    def begun(self, cluster: ClusterKey, waited_s: float) -> None: ...

    def planned(self, cluster: ClusterKey, seconds: float, *, is_ok: bool) -> None: ...

    def resynced(self, cluster: ClusterKey) -> None: ...

    def observed(self, cluster: ClusterKey, world: World) -> None: ...

    def decided(self, cluster: ClusterKey, actions: int) -> None: ...

    def acted(self, cluster: ClusterKey, action: Action) -> None: ...

    def map_refused(self, cluster: ClusterKey) -> None:
        self.refused_maps += 1

    def forgotten(self, cluster: ClusterKey) -> None: ...


class NoFigures:
    """Takes the figures of Verifications, of which there are none."""

    def show(self, found: Mapping[ObjectKey, Verification]) -> None: ...


class Operator:
    """One replica of the operator's Deployment; its process is started again when it ends."""

    def __init__(self, context: SimContext, number: int) -> None:
        self._context = context
        self.host = f"operator-{number}"
        self._chance = random.Random(context.chance.getrandbits(64))  # noqa: S311
        self.clock = SimClock(context.loop, context.epoch_s)
        self.process: Process | None = None
        self.starts = 0
        self.meter = Meter()
        """Shared by all processes of this operator, which run one after another."""
        self.is_active = False
        self.exits: list[str] = []
        self._ended: asyncio.Future[str]
        self.dead: list[Process] = []
        self.groups_port: GroupsPort | None = None
        """How Rebalances are measured; None in simulations without Rebalances."""
        self.keeps_users = False
        """Whether it reconciles Users."""

    async def run(self) -> None:
        """Start a process, and another one some seconds after each end, forever."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.5, 3.0))
            self.starts += 1
            self._ended = self._context.loop.create_future()
            process = Process(f"{self.host}#{self.starts}", self.host)
            self.process = process
            process.spawn(self._run_process(process), process.name)
            await self._ended

    def kill(self) -> bool:
        return self._end("killed")

    def pause(self) -> None:
        if self.process is not None:
            self.process.is_paused = True

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self._context.loop.resume(self.process)

    async def _run_process(self, process: Process) -> None:
        try:
            await self._lead(process)
        except Exception as why:  # noqa: BLE001 - a process that fails ends
            self.exits.append(causes(why))
            self._context.loop.call_soon(
                self._end, causes(why), context=self._context.network.context
            )

    async def _lead(self, process: Process) -> None:
        """Wait for the Lease, then reconcile for as long as this process holds it."""
        api = self._context.server.client(self.host)
        leadership = Leadership(api, self.clock, HOME, process.name)
        await leadership.acquire()
        self.is_active = True
        port = self.groups_port
        settings = Settings(
            instance=process.name,
            broker_image="chiplog/broker:sim",
            watched_users=USER_KINDS if port is None else (*USER_KINDS, *JOB_KINDS),
        )
        system = System(
            api,
            settings,
            clock=self.clock,
            authority=leadership,
            meter=self.meter,
            randomness=Randomness(
                new_topic_id=lambda: TopicId(b"\x01" + self._chance.randbytes(15)),
                spread=self._chance.random,
                new_name=lambda: f"{self._chance.getrandbits(64):016x}",
                new_key=lambda: f"{self._chance.getrandbits(256):064x}",
            ),
            spark=None if port is None else NoFigures(),
            keeps_users=self.keeps_users,
        )
        if port is not None and system.spark is not None:
            loads = Loads(port, Passwords(api))
            system.spark = SparkLoop(replace(system.spark.parts, loads=loads))
        async with asyncio.TaskGroup() as group:
            group.create_task(leadership.keep(), name="lease")
            group.create_task(system.run(), name="system")

    def _end(self, how: str) -> bool:
        """End the process, with `how` as the reason; False if none is running."""
        process = self.process
        if process is None:
            return False
        process.is_alive = False
        self.dead.append(process)
        self.process = None
        self.is_active = False
        self._context.server.ended(self.host)
        self._ended.set_result(how)
        return True


def causes(error: BaseException) -> str:
    """Type and message of an exception; of a group of exceptions, those of all in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(causes(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
