"""One seed: its own mix of faults, then healing, then the question whether all is well again."""

import asyncio
import gc
import json
import logging
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from chiplog_core.config.broker_keys import OFFSETS_TOPIC_NUM_PARTITIONS
from e2e.sim.checkers import Anomaly, check
from e2e.sim.clients import SPARING, Habits
from e2e.sim.faults import FAULT_NAMES, OF_USERS, Faults, Mix, users
from e2e.sim.history import Kind, Span
from e2e.sim.loop import START_S, SimLoop
from e2e.sim.world import READS_IN_RACKS, World

START_WITHIN_S: Final = 60.0
HEAL_WITHIN_S: Final = 90.0
ROLL_WITHIN_S: Final = 240.0
"""The same where brokers are yet to be started anew, one after another."""
AUDIT_WITHIN_S: Final = 60.0
LEFT_WITHIN_S: Final = 30.0
"""The same where something is left to the user."""
QUIET_S: Final = 10.0
OF_DISKS: Final = (
    "sync failed",
    "write failed",
    "read failed",
    "bit rotted",
    "sector overwritten",
)
"""After each of them a disk is not vouched for."""
EVILS: Final = tuple(name for name in FAULT_NAMES if name not in OF_USERS)
"""All that goes wrong by itself."""
USERS_SHARE: Final = 0.5
"""Of the seeds in which users go on with their work during the faults."""
SMALL_OFFSETS: Final[dict[str, Any]] = {OFFSETS_TOPIC_NUM_PARTITIONS.name: 1}
"""50 partitions more would make every seed slower and are moved all alike."""
OF_LIVENESS: Final = frozenset(
    {"not-healed", "no-progress", "not-readable", "unseen", "stuck-reader"}
)


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of a seed."""

    seed: int
    mix: Mix
    replicas: int = 1
    simulated_s: float = 0.0
    real_s: float = 0.0
    processor_s: float = 0.0
    acked: int = 0
    read: int = 0
    read_from_followers: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    hits: dict[tuple[str, str], int] = field(default_factory=dict)
    """(fault, role of whom it hit) -> how often."""
    errors: dict[str, int] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)
    trace: str = ""

    def to_json(self) -> str:
        """For the file of a seed that failed: with its mix, which may be drawn otherwise once."""
        shown = {
            "seed": self.seed,
            "trace": self.trace,
            "mix": asdict(self.mix),
            "faults": self.faults,
            "anomalies": [list(one) for one in self.anomalies[:20]],
        }
        return json.dumps(shown, indent=1) + "\n"


def replicas_of(seed: int) -> int:
    """Of each partition: some seeds have one replica, the others three."""
    return random.Random(f"replicas {seed}").choice((1, 3))  # noqa: S311 - not for secrets


def mix_of(seed: int, replicas: int = 1) -> Mix:
    """Which faults this seed has: some of them, each more or less often."""
    chance = random.Random(f"mix {seed}")  # noqa: S311 - not for secrets
    chosen = chance.sample(EVILS, chance.randint(0, 8))
    if chance.random() < USERS_SHARE:
        chosen += chance.sample(OF_USERS, chance.randint(1, 4))
    return Mix(
        brokers=max(chance.choice((1, 2, 3, 3)), replicas),
        replicas=replicas,
        operators=chance.choice((1, 2)),
        every_s=chance.choice((2.0, 5.0, 12.0)),
        weights={name: chance.uniform(0.2, 1.0) for name in chosen},
        pause_s=chance.choice((1.5, 3.0, 6.0)),
        faults_s=150.0,
        habits=SPARING,
        reads_in_racks=replicas > 1 and reads_in_racks(seed),
    )


def reads_in_racks(seed: int) -> bool:
    """Of half of the seeds."""
    return random.Random(f"racks {seed}").random() < 0.5  # noqa: S311 - not for secrets


def mix_from(stored: dict[str, Any]) -> Mix:
    """Of a file that `Result.to_json` wrote."""
    habits = dict(stored["habits"])
    habits["quietness"] = tuple(habits["quietness"])
    return Mix(**{**stored, "habits": Habits(**habits)})


def run_seed(seed: int, mix: Mix | None = None) -> Result:
    """Simulate it from the beginning to the end."""
    began_s, busy_s = time.perf_counter(), time.process_time()
    mix = mix or mix_of(seed, replicas_of(seed))
    result = Result(seed=seed, mix=mix, replicas=mix.replicas)
    loop = SimLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    gc.disable()  # a seed makes some megabytes of garbage, and looking for it again and again costs
    try:
        loop.run_until_complete(_simulate(loop, mix, result))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        gc.enable()
    gc.collect()
    result.real_s = time.perf_counter() - began_s
    result.processor_s = time.process_time() - busy_s
    return result


async def _simulate(loop: SimLoop, mix: Mix, result: Result) -> None:
    world = World(loop, f"seed {result.seed}", mix.brokers, mix.operators)
    chance = world.own_chance()
    problems = await _phases(world, mix, chance)
    is_left_to_the_user = left_to_the_user(world, mix)
    notebook = world.notebook
    result.simulated_s = loop.now_s - START_S
    result.acked = notebook.acked
    result.read = sum(one.kind is Kind.READ for one in notebook.history.events)
    result.read_from_followers = notebook.read_from_followers
    result.faults = {name: count for name, count in sorted(world.faults.items()) if count}
    result.hits = dict(world.hits)
    result.errors = dict(sorted(notebook.errors.items()))
    problems += [Anomaly("client-problem", "", one) for one in notebook.problems]
    problems += [Anomaly("blocked", "", one) for one in loop.blocked]
    problems += check(notebook.history)
    if is_left_to_the_user:
        problems = [one for one in problems if one.name not in OF_LIVENESS]
    result.anomalies = problems
    for event in notebook.history.events:
        world.trace(event)
    world.trace(sorted(notebook.history.final.items()))
    result.trace = world.hash.hexdigest()
    world.server.on_write.clear()
    await world.end()


async def _phases(world: World, mix: Mix, chance: random.Random) -> list[Anomaly]:
    """Start, go wrong, heal, be well. What is not well is an anomaly of liveness."""
    world.begin()
    world.apply_cluster(**cluster_spec(mix))
    await asyncio.sleep(chance.uniform(0.0, 5.0))
    config: dict[str, object] = dict(mix.topic_config)
    if mix.replicas > 1:
        config |= {"min.insync.replicas": 2}
    world.copies = {"replicas": mix.replicas, "config": config}
    world.apply_topic("orders", chance.randint(1, 4), **world.copies)
    world.apply_topic("clicks", chance.randint(1, 3), **world.copies)
    if why := await well_within(world, START_WITHIN_S):
        return [Anomaly("not-started", "", why)]
    world.reads_in_racks = mix.reads_in_racks
    world.start_clients(producers=3, consumers=2, pause_s=mix.pause_s, habits=mix.habits)
    await asyncio.sleep(5.0)
    await Faults(world, mix, chance).run(mix.faults_s)
    world.heal()
    found = []
    heal_within_s = ROLL_WITHIN_S if world.has_new_wishes else HEAL_WITHIN_S
    why = await well_within(world, heal_within_s, lambda: left_to_the_user(world, mix))
    world.begin_on_new()
    healed_s = world.loop.time()
    for one in world.producers:
        one.is_in_haste = bool(mix.habits.quietness)
    await asyncio.sleep(QUIET_S)
    if why:
        found.append(Anomaly("not-healed", "", why))
    else:
        written = frozenset(str(one) for one in world.written)
        world.notebook.history.well.append(Span(healed_s, world.loop.time(), written))
    for one in world.producers:
        one.is_stopping = True
    await asyncio.sleep(QUIET_S)
    within_s = LEFT_WITHIN_S if left_to_the_user(world, mix) else AUDIT_WITHIN_S
    try:
        async with asyncio.timeout(within_s):
            await world.audit()
    except TimeoutError:
        found.append(Anomaly("not-readable", "", "the last reader did not come to the end"))
    world.look_at_disks()
    return found


async def well_within(
    world: World, seconds: float, is_hopeless: Callable[[], bool] = lambda: False
) -> str:
    """Empty as soon as all is well, else what is not after so long.

    Where that is known to be hopeless, for the sake of all else we wait not quite as long.
    """
    began_s = world.loop.time()
    while why := world.is_well():
        waited_s = world.loop.time() - began_s
        if waited_s >= seconds or (waited_s >= LEFT_WITHIN_S and is_hopeless()):
            break
        await asyncio.sleep(0.5)
    return why


def cluster_spec(mix: Mix) -> dict[str, Any]:
    """What is not as it is where nobody says anything."""
    spec = READS_IN_RACKS if mix.reads_in_racks else {}
    config = SMALL_OFFSETS | spec.get("config", {})
    if is_expiring(mix):
        config |= users.CLUSTER_CONFIG
    return spec | {"config": config | mix.cluster_config}


def is_expiring(mix: Mix) -> bool:
    """Whether records may go by their age."""
    return "retention shortened" in mix.weights


def left_to_the_user(world: World, mix: Mix) -> bool:
    """Disks failed under all in-sync replicas: only a user may go on with what is left (R3)."""
    failed = sum(world.faults[name] for name in OF_DISKS)
    return failed >= min(mix.replicas, 2) and world.has_records_at_risk()


def quiet() -> None:
    """No log lines of a simulated cluster."""
    logging.disable(logging.CRITICAL)
