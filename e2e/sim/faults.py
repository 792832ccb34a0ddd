"""What goes wrong: each fault by its name, with how long it lasts."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.kubelet import NAMESPACE, Node
from e2e.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How much of what: drawn from the seed."""

    brokers: int = 3
    operators: int = 2
    replicas: int = 1
    faults_s: float = 100.0
    every_s: float = 6.0
    weights: dict[str, float] = field(default_factory=dict)


class Faults:
    """Does what goes wrong, and takes it back after a while."""

    def __init__(self, world: World, mix: Mix, chance: random.Random) -> None:
        self._world = world
        self._mix = mix
        self._chance = chance
        self._running: set[asyncio.Task[None]] = set()
        self._acts: dict[str, Callable[[], Awaitable[None]]] = {
            "broker killed": self.kill_broker,
            "pod deleted": self.delete_pod,
            "operator killed": self.kill_operator,
            "operator paused": self.pause_operator,
            "broker paused": self.pause_broker,
            "power cut": self.cut_power,
            "power cut of all": self.cut_all_power,
            "API server away": self.api_away,
            "API server struggling": self.api_struggles,
            "watches broken": self.break_watches,
            "history compacted": self.compact,
            "connections broken": self.break_connections,
            "partition": self.partition,
            "slow network": self.slow_network,
            "slow disk": self.slow_disk,
            "sync fails": self.fail_sync,
            "disk full": self.fill_disk,
            "clock jump": self.jump_clock,
        }

    async def run(self, seconds: float) -> None:
        """So long. What was begun is taken back by `World.heal`."""
        loop = self._world.loop
        end_s = loop.time() + seconds
        kinds = [name for name in self._acts if self._mix.weights.get(name)]
        weights = [self._mix.weights[name] for name in kinds]
        while kinds:
            await asyncio.sleep(self._chance.expovariate(1 / self._mix.every_s))
            if loop.time() >= end_s:
                break
            (name,) = self._chance.choices(kinds, weights)
            self._world.faults[name] += 1
            self._world.trace("fault", name)
            task = loop.create_task(self._act(name))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        await asyncio.sleep(max(end_s - loop.time(), 0.0))
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def _act(self, name: str) -> None:
        await self._acts[name]()

    def _node(self) -> int:
        return self._chance.choice(sorted(self._world.nodes))

    async def kill_broker(self) -> None:
        self._world.nodes[self._node()].kill()

    async def delete_pod(self) -> None:
        host = self._world.nodes[self._node()].host
        if self._world.store.find(kinds.PODS, NAMESPACE, host) is not None:
            self._world.store.delete(kinds.PODS, ObjectKey(NAMESPACE, host))

    async def kill_operator(self) -> None:
        self._chance.choice(self._world.operators).kill()

    async def pause_operator(self) -> None:
        one = self._chance.choice(self._world.operators)
        one.pause()
        await asyncio.sleep(self._chance.uniform(1.0, 20.0))
        one.resume()

    async def pause_broker(self) -> None:
        one = self._world.nodes[self._node()]
        one.pause()
        await asyncio.sleep(self._chance.uniform(0.5, 15.0))
        one.resume()

    async def cut_power(self) -> None:
        await self._dark(self._world.nodes[self._node()])

    async def cut_all_power(self) -> None:
        await asyncio.gather(*(self._dark(one) for one in self._world.nodes.values()))

    async def _dark(self, node: Node) -> None:
        if node.has_power:
            node.cut_power()
            await asyncio.sleep(self._chance.uniform(0.5, 15.0))
            node.power_on()

    async def api_away(self) -> None:
        self._world.server.go_away()
        await asyncio.sleep(self._chance.uniform(0.5, 30.0))
        self._world.server.is_away = False

    async def api_struggles(self) -> None:
        server = self._world.server
        server.refuses = self._chance.uniform(0.0, 0.4)
        server.swallows = self._chance.uniform(0.0, 0.3)
        server.stale_s = self._chance.choice((0.0, 0.2, 2.0))
        await asyncio.sleep(self._chance.uniform(2.0, 20.0))
        server.refuses = server.swallows = server.stale_s = 0.0

    async def break_watches(self) -> None:
        self._world.server.break_watches(self._chance.uniform(0.2, 1.0))

    async def compact(self) -> None:
        self._world.store.compact()
        self._world.server.break_watches(0.5)

    async def break_connections(self) -> None:
        self._world.network.break_some(self._chance.uniform(0.1, 1.0))

    async def partition(self) -> None:
        world = self._world
        hosts = [one.host for one in world.nodes.values()]
        clients = [one.host for one in world.clients]
        mine = self._chance.choice(hosts)
        others = self._chance.choice(
            (["api"], clients, [one for one in hosts if one != mine], ["api", *clients, *hosts])
        )
        both = self._chance.random() < 0.6
        towards = self._chance.random() < 0.5
        for other in others:
            if other != mine and (both or towards):
                world.network.cut(other, mine)
            if other != mine and (both or not towards):
                world.network.cut(mine, other)
        await asyncio.sleep(self._chance.uniform(0.5, 25.0))
        world.network.heal()

    async def slow_network(self) -> None:
        self._world.network.slowest_s = self._chance.choice((0.02, 0.1, 0.5))
        await asyncio.sleep(self._chance.uniform(1.0, 15.0))
        self._world.network.slowest_s = 0.002

    async def slow_disk(self) -> None:
        disks = self._world.nodes[self._node()].disks
        disks.slow_s = self._chance.choice((0.05, 0.5, 5.0))
        await asyncio.sleep(self._chance.uniform(1.0, 15.0))
        disks.slow_s = 0.0

    async def fail_sync(self) -> None:
        self._world.nodes[self._node()].disks.fails = True

    async def fill_disk(self) -> None:
        disks = self._world.nodes[self._node()].disks
        disks.fill_up(self._chance.randrange(20_000))
        await asyncio.sleep(self._chance.uniform(1.0, 10.0))
        disks.make_room()

    async def jump_clock(self) -> None:
        clocks = [one.clock for one in self._world.nodes.values()]
        clocks += [one.clock for one in self._world.operators]
        self._chance.choice(clocks).skew_s = self._chance.uniform(-600.0, 600.0)


FAULT_NAMES: Final = (
    "broker killed",
    "pod deleted",
    "operator killed",
    "operator paused",
    "broker paused",
    "power cut",
    "power cut of all",
    "API server away",
    "API server struggling",
    "watches broken",
    "history compacted",
    "connections broken",
    "partition",
    "slow network",
    "slow disk",
    "sync fails",
    "disk full",
    "clock jump",
)
