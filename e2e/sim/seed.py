"""One seed: draw a mix of faults, inject them, end them, and check that the cluster recovers."""

import asyncio
import gc
import json
import logging
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any, Final

from chiplog_core.config.broker_keys import (
    LOG_CLEANER_BACKOFF_MS,
    OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    OFFSETS_RETENTION_MINUTES,
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_SEGMENT_BYTES,
    SCRUB_INTERVAL_MS,
)
from chiplog_core.config.transaction_keys import TRANSACTION_LOG_NUM_PARTITIONS
from chiplog_core.topic_name import CONSUMER_OFFSETS
from e2e.sim.checkers import Anomaly, check
from e2e.sim.clients import DAY_MS, SPARING, Habits
from e2e.sim.faults import (
    FAULT_NAMES,
    LATER,
    OF_GROUPS,
    OF_MEDIA,
    OF_MOVES,
    OF_STEPS,
    OF_UPKEEP,
    OF_USERS,
    ROTTING,
    Faults,
    Mix,
    directed_upkeep,
    rebuilds,
    users,
)
from e2e.sim.groups.crowd import Crowd
from e2e.sim.groups.habits import GroupHabits
from e2e.sim.history import Kind, Span
from e2e.sim.loop import START_S, SimLoop
from e2e.sim.transactions.crowd import Transactors
from e2e.sim.transactions.epochs import few_epochs
from e2e.sim.transactions.habits import TransactionHabits
from e2e.sim.transactions.mixing import with_transactions
from e2e.sim.users.crowd import SPEC, Users, config_of
from e2e.sim.users.habits import UserHabits
from e2e.sim.users.mixing import with_users
from e2e.sim.world import READS_IN_RACKS, World

START_WITHIN_S: Final = 60.0
HEAL_WITHIN_S: Final = 90.0
ROLL_WITHIN_S: Final = 240.0
"""As `HEAL_WITHIN_S`, for seeds in which users changed the brokers: they restart one by one."""
AUDIT_WITHIN_S: Final = 60.0
"""The final read of all partitions must end within this time."""
LEFT_WITHIN_S: Final = 30.0
"""The limit for healing and for the final read if only a user could repair the cluster."""
QUIET_S: Final = 10.0
GROUPS_WITHIN_S: Final = 90
"""All groups must have recovered within this time after the rest of the cluster did."""
TRANSACTIONS_WITHIN_S: Final = 240.0
"""After all transactional producers were stopped, everything must be read within this time."""
GROUPS_SHARE: Final = 1 / 3
"""Share of the seeds with consumer groups."""
EVILS: Final = tuple(name for name in FAULT_NAMES if name not in {*OF_USERS, *OF_MEDIA})
"""Faults that no user causes, without the faults of disks, which `media_of` draws."""
MEDIA_SHARE: Final = 0.5
"""Share of the seeds with faults of disks and volumes."""
USERS_SHARE: Final = 0.5
"""Share of the seeds in which users change the cluster during the faults."""
FIRST_LATER: Final = 1_000_001
"""Seeds from this one on also draw the faults in `LATER`; seeds below behave as they always did."""
FIRST_MOVING: Final = 3_000_001
"""Seeds from this one on also draw moves of replicas."""
FIRST_STEPPING: Final = 4_000_001
"""Seeds from this one on are mainly about moves: each is hit at one of its steps."""
FIRST_UPKEEP: Final = 5_000_001
"""Seeds from this one on are also about upkeep: throttles, placements, Rebalances, drained brokers
and volumes that are rebuilt, while replicas move."""
FIRST_SECURED: Final = 6_000_001
"""Seeds from this one on are about users who log in, and have none of the later loads and moves."""
FIRST_TRANSACTIONAL: Final = 7_000_001
"""Seeds from this one on are about transactions, and have none of the later loads and moves."""
OTHERS_SHARE: Final = 0.4
"""Share of a seed's other faults that remain when moves are hit at their steps."""
RESTORED_SHARE: Final = 0.25
"""Share of these seeds in which etcd is restored during moves, and users change few specs."""
SMALL_INTERNAL: Final[dict[str, Any]] = {
    OFFSETS_TOPIC_NUM_PARTITIONS.name: 1,
    TRANSACTION_LOG_NUM_PARTITIONS.name: 1,
}
"""One partition: 50, Kafka's default, would slow every seed down without testing anything else."""
RETENTION_CHECK_MS: Final = 10_000
"""How often coordinators look for expired offsets, in seeds in which offsets expire soon."""
UPKEEP: Final = frozenset({*OF_UPKEEP, *directed_upkeep.ACTS})
"""Names of faults for which `World.prepare_upkeep` is needed."""
OF_LIVENESS: Final = frozenset(
    {
        "not-healed",
        "no-progress",
        "not-readable",
        "unseen",
        "stuck-reader",
        "group-unwell",
        "group-not-readable",
        "user-unserved",
        "hanging-transaction",
        "transactor-unwell",
        "transactions-not-readable",
    }
)
"""Names of anomalies that say that something did not recover, not that data is wrong."""


@dataclass(slots=True, kw_only=True)
class Result:
    """Counts and anomalies of one simulated seed, and the digest of all that happened."""

    seed: int
    mix: Mix
    replicas: int = 1
    simulated_s: float = 0.0
    real_s: float = 0.0
    processor_s: float = 0.0
    acked: int = 0
    read: int = 0
    read_from_followers: int = 0
    rebalances: int = 0
    """How many different generations of groups brokers named in their responses."""
    commits: int = 0
    """Acknowledged commits, each of one partition's offset."""
    transactions: int = 0
    """Transactions whose commit was acknowledged."""
    aborted: int = 0
    """Transactions whose abort was acknowledged."""
    fenced: int = 0
    """How often a transactional producer was refused as one that was fenced."""
    coordinator_moves: int = 0
    """How often a partition of `__consumer_offsets` got another leader."""
    faults: dict[str, int] = field(default_factory=dict)
    hits: dict[tuple[str, str], int] = field(default_factory=dict)
    """(fault, role of the process that it hit) -> how often."""
    errors: dict[str, int] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)
    trace: str = ""
    """Digest of all events: equal for two runs that did exactly the same."""

    def to_json(self) -> str:
        """The file of a failed seed. It holds the mix, because later versions of the simulator
        may draw another mix for the same seed."""
        shown = {
            "seed": self.seed,
            "trace": self.trace,
            "mix": asdict(self.mix),
            "faults": self.faults,
            "anomalies": [list(one) for one in self.anomalies[:20]],
        }
        return json.dumps(shown, indent=1) + "\n"


def replicas_of(seed: int) -> int:
    """Replicas of each partition: one in half of the seeds (with transactions: in a quarter), and
    three in the others."""
    choices = (1, 3) if seed < FIRST_TRANSACTIONAL else (1, 3, 3, 3)
    return random.Random(f"replicas {seed}").choice(choices)  # noqa: S311 - not for secrets


def mix_of(seed: int, replicas: int = 1) -> Mix:
    """Draw the mix of a seed: the cluster's size, its load, and which faults happen how often."""
    chance = random.Random(f"mix {seed}")  # noqa: S311 - not for secrets
    chosen = chance.sample(EVILS, chance.randint(0, 8))
    if chance.random() < USERS_SHARE:
        chosen += chance.sample(OF_USERS, chance.randint(1, 4))
    groups, of_groups = groups_of(seed)
    mix = Mix(
        brokers=max(chance.choice((1, 2, 3, 3)), replicas),
        replicas=replicas,
        operators=chance.choice((1, 2)),
        every_s=chance.choice((2.0, 5.0, 12.0)),
        weights={name: chance.uniform(0.2, 1.0) for name in chosen} | of_groups | media_of(seed),
        pause_s=chance.choice((1.5, 3.0, 6.0)),
        faults_s=150.0,
        habits=SPARING,
        reads_in_racks=replicas > 1 and reads_in_racks(seed),
        groups=groups,
    )
    if seed >= FIRST_TRANSACTIONAL:
        return with_transactions(seed, mix)
    if seed >= FIRST_SECURED:
        return with_users(seed, mix)
    if seed >= FIRST_LATER:
        mix = with_later_load(seed, mix)
    if seed >= FIRST_MOVING:
        mix = with_moves(seed, mix)
    if seed >= FIRST_STEPPING:
        mix = with_steps(seed, mix)
    return mix if seed < FIRST_UPKEEP else with_upkeep(seed, mix)


def with_moves(seed: int, mix: Mix) -> Mix:
    """The mix with moves of replicas, and with more brokers than a partition has replicas."""
    chance = random.Random(f"moves {seed}")  # noqa: S311 - not for secrets
    chosen = chance.sample(sorted(OF_MOVES), chance.randint(1, len(OF_MOVES)))
    return replace(
        mix,
        brokers=mix.replicas + chance.choice((1, 2)),
        weights=mix.weights | {name: chance.uniform(0.5, 2.0) for name in chosen},
    )


def with_steps(seed: int, mix: Mix) -> Mix:
    """The mix with faults that hit moves at their steps, and with fewer of the others."""
    chance = random.Random(f"steps {seed}")  # noqa: S311 - not for secrets
    kept = {
        name: weight
        for name, weight in mix.weights.items()
        if name in OF_MOVES or chance.random() < OTHERS_SHARE
    }
    hits, restoring = OF_STEPS
    steps = {hits: 4.0}
    if chance.random() < RESTORED_SHARE:
        steps[restoring] = 2.0
    return replace(
        mix,
        weights=kept | steps,
        every_s=chance.choice((2.0, 4.0, 8.0)),
        faults_s=chance.choice((40.0, 80.0)),
        reads_in_racks=mix.reads_in_racks and chance.random() < 0.5,
    )


def with_upkeep(seed: int, mix: Mix) -> Mix:
    """The mix with some kinds of upkeep.

    Volumes are not rebuilt in seeds in which disks lose data, too: two lost volumes at the same
    time are more than a cluster survives.
    """
    chance = random.Random(f"upkeep {seed}")  # noqa: S311 - not for secrets
    losing = {*OF_MEDIA, *ROTTING} & mix.weights.keys()
    names = sorted(name for name in OF_UPKEEP if not (losing and name in rebuilds.OF_SPECS))
    chosen = chance.sample(names, chance.randint(1, 4))
    weights = {name: chance.uniform(0.5, 3.0) for name in chosen}
    return replace(mix, weights=mix.weights | weights)


def with_later_load(seed: int, mix: Mix) -> Mix:
    """The mix with a more varied load, for seeds from `FIRST_LATER` on.

    It varies how clients write, how short segments are, which settings change, and adds the faults
    in `LATER`. The values come from a separate random stream, so the rest of the mix stays equal.
    """
    chance = random.Random(f"load {seed}")  # noqa: S311 - not for secrets
    habits = replace(
        mix.habits,
        in_flight=chance.choice((1, 2, 5, 5)),
        event_days=chance.choice((0.0, 0.0, 2.0, 20.0)),
        keys=chance.choice((0, 5, 12)),
    )
    config = {}
    if chance.random() < 0.6:
        # Each batch gets an index entry of 12 bytes, and a full index ends the segment.
        batches = chance.choice((4, 15, 60))
        config = {"index.interval.bytes": "0", "segment.index.bytes": str(12 * batches)}
    if chance.random() < 0.4:
        config["segment.ms"] = str(chance.choice((2_000, 5_000, 20_000)))
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": str(chance.choice((2_000, 5_000))),
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(chance.choice((2_000, 20_000, DAY_MS))),
    }
    later = {name: chance.uniform(0.2, 1.0) for name in LATER if chance.random() < 0.4}
    intervals = {}
    if habits.keys:
        intervals[LOG_CLEANER_BACKOFF_MS.name] = "2000"
    if ROTTING & mix.weights.keys():
        # A starting broker reads only what lies above the recovery point. Other damage is found
        # when a client or the scrub reads it.
        intervals[SCRUB_INTERVAL_MS.name] = "5000"
    return replace(
        mix,
        habits=habits,
        topic_config=config,
        compacted_config=compacted if habits.keys else {},
        cluster_config=mix.cluster_config | intervals,
        weights=mix.weights | later,
    )


def media_of(seed: int) -> dict[str, float]:
    """Faults of disks and volumes in this seed, each with its weight; empty for some seeds.

    They come from a separate random stream, so the rest of the mix does not depend on them.
    """
    chance = random.Random(f"media {seed}")  # noqa: S311 - not for secrets
    if chance.random() >= MEDIA_SHARE:
        return {}
    return {
        name: chance.uniform(0.2, 1.0) for name in chance.sample(OF_MEDIA, chance.randint(1, 4))
    }


def groups_of(seed: int) -> tuple[GroupHabits | None, dict[str, float]]:
    """The consumer groups of a seed, None if it has none, and their faults with weights.

    They come from a separate random stream, so the rest of the mix does not depend on them.
    """
    chance = random.Random(f"groups {seed}")  # noqa: S311 - not for secrets
    if chance.random() >= GROUPS_SHARE:
        return None, {}
    habits = GroupHabits(
        groups=chance.choice((1, 2)),
        members=chance.choice((1, 2, 3)),
        static_share=chance.choice((0.0, 0.5)),
        session_s=chance.choice((6.0, 10.0)),
        slow_share=chance.choice((0.0, 0.02)),
    )
    chosen = chance.sample(sorted(OF_GROUPS), chance.randint(0, 5))
    return habits, {name: chance.uniform(0.2, 1.0) for name in chosen}


def mix_of_groups(seed: int, faults_s: float) -> Mix:
    """A mix that tests consumer groups for `faults_s` seconds of simulated time.

    There are few records, so that long runs are cheap, and most faults hit a coordinator or a
    member.
    """
    chance = random.Random(f"only groups {seed}")  # noqa: S311 - not for secrets
    chosen = chance.sample(sorted(OF_GROUPS), chance.randint(5, len(OF_GROUPS)))
    evils = chance.sample(EVILS, chance.randint(0, 3))
    session_s = chance.choice((6.0, 10.0, 20.0))
    brokers = chance.choice((1, 2, 3, 3, 3))
    return Mix(
        brokers=brokers,
        replicas=1,
        producers=1,
        consumers=0,
        pause_s=60.0,
        every_s=chance.choice((10.0, 20.0, 40.0)),
        weights={
            **{name: chance.uniform(0.2, 1.0) for name in chosen},
            **{name: chance.uniform(0.05, 0.2) for name in evils},
        },
        faults_s=faults_s,
        habits=SPARING,
        cluster_config={
            OFFSETS_TOPIC_NUM_PARTITIONS.name: str(chance.choice((1, 2))),
            OFFSETS_TOPIC_SEGMENT_BYTES.name: str(1 << 20),
            LOG_CLEANER_BACKOFF_MS.name: "15000",
        },
        groups=GroupHabits(
            groups=chance.choice((1, 2, 3)),
            members=chance.choice((2, 3, 4)),
            static_share=chance.choice((0.0, 0.3, 0.7)),
            session_s=session_s,
            rebalance_s=chance.choice((6.0, 15.0)),
            heartbeat_s=session_s / 3,
            commit_s=chance.choice((3.0, 8.0)),
            watch_s=8.0,
            slow_share=0.005,
            compare_s=120.0,
            is_reading=False,
            retention_minutes=chance.choice((0, 1)),
        ),
    )


def reads_in_racks(seed: int) -> bool:
    """Whether consumers read from replicas in their own rack: so in half of the seeds."""
    return random.Random(f"racks {seed}").random() < 0.5  # noqa: S311 - not for secrets


def mix_from(stored: dict[str, Any]) -> Mix:
    """The mix out of the JSON that `Result.to_json` wrote, where tuples became lists."""
    habits = dict(stored["habits"])
    habits["quietness"] = tuple(habits["quietness"])
    groups = stored.get("groups")
    if groups is not None:
        groups = GroupHabits(**{**groups, "topics": tuple(groups["topics"])})
    users = stored.get("users")
    users = None if users is None else UserHabits(**users)
    transactions = stored.get("transactions")
    transactions = None if transactions is None else TransactionHabits(**transactions)
    return Mix(
        **{
            **stored,
            "habits": Habits(**habits),
            "groups": groups,
            "users": users,
            "transactions": transactions,
        }
    )


def run_seed(seed: int, mix: Mix | None = None) -> Result:
    """Simulate one seed from start to end; without a `mix`, the seed draws its own."""
    began_s, busy_s = time.perf_counter(), time.process_time()
    mix = mix or mix_of(seed, replicas_of(seed))
    result = Result(seed=seed, mix=mix, replicas=mix.replicas)
    loop = SimLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    gc.disable()  # a seed leaves some megabytes of garbage: collecting it once is cheaper
    try:
        with few_epochs(0 if mix.transactions is None else mix.transactions.last_epoch):
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
    """Run all phases of a seed, check what happened, and fill in `result`."""
    world = World(loop, f"seed {result.seed}", mix.brokers, mix.operators)
    chance = world.own_chance()
    problems = await _phases(world, mix, chance)
    is_left_to_the_user = left_to_the_user(world)
    notebook = world.notebook
    result.simulated_s = loop.now_s - START_S
    result.acked = notebook.acked
    result.read = sum(one.kind is Kind.READ for one in notebook.history.events)
    result.read_from_followers = notebook.read_from_followers
    joined, commits = notebook.history.groups.joined, notebook.history.groups.commits
    result.rebalances = len({(one.group, one.generation) for one in joined})
    result.commits = sum(one.acked_s < inf for one in commits)
    result.coordinator_moves = sum(
        one.after.leader not in {"", one.before.leader}
        for one in world.trace_of_decisions.decisions
        if one.partition.startswith(CONSUMER_OFFSETS)
    )
    of_transactions = notebook.history.transactions
    result.transactions = sum(one.is_committed for one in of_transactions.transactions)
    result.aborted = sum(one.is_aborted for one in of_transactions.transactions)
    result.fenced = len(of_transactions.fences)
    result.faults = {name: count for name, count in sorted(world.faults.items()) if count}
    result.hits = dict(world.hits)
    result.errors = dict(sorted(notebook.errors.items()))
    problems += [Anomaly("client-problem", "", one) for one in notebook.problems]
    problems += [Anomaly("blocked", "", one) for one in loop.blocked]
    problems += [
        Anomaly(
            "map-write-refused",
            "",
            f"{one.host} planned {one.meter.refused_maps} PartitionMaps that break its own rules",
        )
        for one in world.operators
        if one.meter.refused_maps
    ]
    problems += check(notebook.history)
    if is_left_to_the_user:
        # The cluster waits for a user, so it need not recover.
        problems = [one for one in problems if one.name not in OF_LIVENESS]
    result.anomalies = problems
    for event in notebook.history.events:
        world.trace(event)
    world.trace(sorted(notebook.history.final.items()))
    for noted in notebook.history.users.digests():
        world.trace(noted)
    for of_one in (
        *of_transactions.initialized,
        *of_transactions.given,
        *of_transactions.fences,
        *of_transactions.transactions,
        *of_transactions.pieces,
        *of_transactions.offsets,
    ):
        world.trace(of_one)
    groups = notebook.history.groups
    for one in (*groups.joined, *groups.commits, *groups.found):
        world.trace(one)
    for synced in groups.synced:
        # The order of a set differs between processes, and the digest must not.
        world.trace(synced._replace(partitions=frozenset()), sorted(synced.partitions))
    result.trace = world.hash.hexdigest()
    world.server.on_write.clear()
    await world.end()


async def _phases(world: World, mix: Mix, chance: random.Random) -> list[Anomaly]:
    """Start the cluster, inject faults, end them, wait for recovery, and read everything.

    Returns an anomaly for each phase that did not succeed in time.
    """
    transactors = None if mix.transactions is None else Transactors(world, mix.transactions)
    logging_in = await _make_objects(world, mix, chance, transactors)
    if why := await well_within(world, START_WITHIN_S):
        return [Anomaly("not-started", "", why)]
    world.reads_in_racks = mix.reads_in_racks
    world.start_clients(mix.producers, mix.consumers, mix.pause_s, mix.habits)
    crowd = _begun(world, mix)
    for starting in (logging_in, transactors):
        if starting is not None:
            starting.start()
    await asyncio.sleep(5.0)
    faults = Faults(world, mix, chance, crowd, logging_in, transactors)
    await faults.run(mix.faults_s)
    _heal(world, faults, crowd, transactors)
    found = []
    heal_within_s = ROLL_WITHIN_S if world.has_changed_brokers else HEAL_WITHIN_S
    why = await well_within(world, heal_within_s, lambda: left_to_the_user(world))
    world.use_new_partitions()
    healed_s = world.loop.time()
    for one in world.producers:
        one.is_in_haste = bool(mix.habits.quietness)
    await asyncio.sleep(QUIET_S)
    if why:
        found.append(Anomaly("not-healed", "", why))
    else:
        world.note_places()
        written = frozenset(str(one) for one in world.used_partitions)
        world.notebook.history.well.append(Span(healed_s, world.loop.time(), written))
        world.notebook.history.gave_up_hanging = list(world.network.given_up)
        await _groups_recover(world, crowd, healed_s)
        await _transactors_recover(transactors, healed_s)
        if logging_in is not None:
            await logging_in.prove()
    if logging_in is not None:
        logging_in.stop()
    for one in world.producers:
        one.is_stopping = True
    await asyncio.sleep(QUIET_S)
    return found + await _audits(world, crowd, transactors)


def _heal(
    world: World, faults: Faults, crowd: Crowd | None, transactors: Transactors | None
) -> None:
    """End every fault, and restart the clients that ended."""
    world.heal()
    faults.settle()
    for healing in (crowd, transactors):
        if healing is not None:
            healing.heal()


async def _audits(
    world: World, crowd: Crowd | None, transactors: Transactors | None
) -> list[Anomaly]:
    """Read everything at the end; returns an anomaly for what could not be read in time."""
    found = []
    within_s = LEFT_WITHIN_S if left_to_the_user(world) else AUDIT_WITHIN_S
    try:
        async with asyncio.timeout(within_s):
            await world.audit()
    except TimeoutError:
        found.append(
            Anomaly("not-readable", "", "not all partitions could be read to their ends in time")
        )
    found += await _audit_groups(world, crowd, within_s)
    found += await _audit_transactions(world, transactors)
    world.read_disks()
    return found


async def _make_objects(
    world: World, mix: Mix, chance: random.Random, transactors: Transactors | None
) -> Users | None:
    """Begin the simulation, and create the cluster, its first topics and its users. Returns these;
    None if it has none."""
    if UPKEEP & mix.weights.keys():
        world.prepare_upkeep()
    logging_in = None if mix.users is None else Users(world, mix.users)
    world.begin()
    world.apply_cluster(**cluster_spec(mix))
    await asyncio.sleep(chance.uniform(0.0, 5.0))
    config: dict[str, object] = dict(mix.topic_config)
    if mix.replicas > 1:
        config |= {"min.insync.replicas": 2}
    world.topic_defaults = {"replicas": mix.replicas, "config": config}
    if mix.compacted_config:
        world.topic_configs["clicks"] = dict(mix.compacted_config)
    world.make_topic("orders", chance.randint(1, 4))
    world.make_topic("clicks", chance.randint(1, 3))
    if logging_in is not None:
        logging_in.create()
    if transactors is not None:
        transactors.create()
    return logging_in


def _begun(world: World, mix: Mix) -> Crowd | None:
    """The started consumer groups of this mix; None if it has none."""
    if mix.groups is None:
        return None
    crowd = Crowd(world, mix.groups)
    if mix.groups.retention_minutes and {"clock jump", "clock step"} & mix.weights.keys():
        # By a clock that jumped, any offset may be old enough for its coordinator to expire it.
        world.notebook.history.groups.retention_s = 0.0
    crowd.start()
    return crowd


async def _groups_recover(world: World, crowd: Crowd | None, healed_s: float) -> None:
    """Wait until every group is Stable and commits again, for `GROUPS_WITHIN_S` at most.

    The groups that are not are noted in the history, for the checkers.
    """
    if crowd is None:
        return
    for _ in range(GROUPS_WITHIN_S):
        world.notebook.history.groups.unwell = unwell = crowd.unwell_groups(healed_s)
        if not unwell:
            break
        await asyncio.sleep(1.0)
    crowd.compare()


async def _audit_groups(world: World, crowd: Crowd | None, within_s: float) -> list[Anomaly]:
    """Stop all members, then read each group's committed offsets and compare them.

    Returns an anomaly if they could not be read within `within_s`.
    """
    if crowd is None:
        return []
    crowd.stop()
    await asyncio.sleep(QUIET_S)
    try:
        async with asyncio.timeout(within_s):
            await world.as_client("group-auditor", crowd.audit())
    except TimeoutError:
        return [
            Anomaly(
                "group-not-readable", "", "the groups' committed offsets could not be read in time"
            )
        ]
    crowd.compare()
    return []


async def _transactors_recover(transactors: Transactors | None, healed_s: float) -> None:
    """Wait until every transactional producer commits again, for `GROUPS_WITHIN_S` at most."""
    if transactors is None:
        return
    for _ in range(GROUPS_WITHIN_S):
        if not transactors.note_unwell(healed_s):
            break
        await asyncio.sleep(1.0)


async def _audit_transactions(world: World, transactors: Transactors | None) -> list[Anomaly]:
    """Stop all transactional producers, then read what is committed.

    Returns an anomaly if it could not be read in time.
    """
    if transactors is None:
        return []
    transactors.stop()
    try:
        async with asyncio.timeout(TRANSACTIONS_WITHIN_S):
            await world.as_client("transactions-auditor", transactors.audit())
    except TimeoutError:
        what = "not all committed records and offsets could be read in time"
        return [Anomaly("transactions-not-readable", "", what)]
    return []


async def well_within(
    world: World, seconds: float, is_hopeless: Callable[[], bool] = lambda: False
) -> str:
    """Wait up to `seconds` for the cluster to recover; return what is not well then, or "".

    While `is_hopeless` returns True the wait ends after `LEFT_WITHIN_S`: the cluster will not
    recover, and longer waiting only costs time.
    """
    began_s = world.loop.time()
    while why := world.why_unwell():
        waited_s = world.loop.time() - began_s
        if waited_s >= seconds or (waited_s >= LEFT_WITHIN_S and is_hopeless()):
            break
        await asyncio.sleep(0.5)
    return why


def cluster_spec(mix: Mix) -> dict[str, Any]:
    """The fields of the BrokerCluster's spec that differ from their defaults."""
    spec = READS_IN_RACKS if mix.reads_in_racks else {}
    config = SMALL_INTERNAL | spec.get("config", {})
    if is_expiring(mix):
        config |= users.CLUSTER_CONFIG
    if mix.groups is not None and mix.groups.retention_minutes:
        config |= {
            OFFSETS_RETENTION_MINUTES.name: mix.groups.retention_minutes,
            OFFSETS_RETENTION_CHECK_INTERVAL_MS.name: RETENTION_CHECK_MS,
        }
    if mix.users is not None:
        spec = spec | SPEC
        config |= config_of(mix.users)
    return spec | {"config": config | mix.cluster_config}


def is_expiring(mix: Mix) -> bool:
    """Whether a fault of this mix makes retention delete records by their age."""
    return bool({"retention shortened", "settings changed"} & mix.weights.keys())


def left_to_the_user(world: World) -> bool:
    """Whether the disks of all in-sync replicas failed and the operator waits for a user.

    Records may be lost then, and only a user may decide to continue with what is left.
    """
    return world.is_without_sound_disks() and world.has_records_at_risk()


def quiet() -> None:
    """Turn log lines off: a simulated cluster would write very many."""
    logging.disable(logging.CRITICAL)
