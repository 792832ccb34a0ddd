"""Plans clusters of every size, with moves pending, and prints how long planning takes.

python core/plans.py    exit 1 if a plan takes too long; it fails where a plan does not converge

* Small: up to 6 brokers and 30 partitions, every size. At every step, every prefix of the plan is
  carried out, and another operator goes on from there.
* Large: 50 brokers and 5,000 partitions with three replicas, on random brokers. The operator is
  killed in the middle of every other plan.
* Proposals of a Rebalance: 200 brokers and 20,000 partitions.

The rules that must hold after every write are those of the unit tests (`tests.planner.pending`).
"""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from random import Random
from typing import Final, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from chiplog_core.model.actions import RestartPod
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import Settings
from tests.planner.objects import internal_topics, of_users, partitions_of, topic
from tests.planner.pending import Pending, small
from tests.rebalance.large import KINDS, large_world

PLAN_LIMIT_S: Final = 2.0
PROPOSAL_LIMIT_S: Final = 5.0
MOST_BROKERS: Final = 6
MOST_PARTITIONS: Final = 30
MOST_PLANS: Final = 60

WORLDS: Final = 20
BROKERS: Final = 50
TOPICS: Final = 50
PARTITIONS_PER_TOPIC: Final = 100
REPLICAS: Final = 3
OFFSETS: Final = internal_topics(partitions=50, replicas=3)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Took:
    """How long something took, by the clock and on the processor."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


def timed(act: Callable[[], T]) -> tuple[T, Took]:
    """The result, and how long it took."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    result = act()
    return result, Took(time.perf_counter() - wall_s, time.process_time() - cpu_s)


@dataclass(frozen=True, slots=True)
class Row:
    """What one world showed."""

    what: str
    pending: str
    plans: int
    slowest: Took
    limit_s: float

    @property
    def is_in_time(self) -> bool:
        """By the processor: other programs may keep this one waiting."""
        return self.slowest.cpu_s <= self.limit_s


def every_prefix(brokers: int, partitions: int) -> Row:
    """One small world, and another operator after every prefix of every plan."""
    rng = Random(brokers * 1000 + partitions)  # noqa: S311 - the same world every time
    now = small(rng, brokers, partitions)
    plans, slowest = 0, Took()
    prefixes = 0
    while True:
        plan, took = timed(now.plan)
        plans, slowest = plans + 1, max(slowest, took, key=lambda one: one.cpu_s)
        actions = [one for one in plan.actions if not isinstance(one, RestartPod)]
        for length in range(len(actions)):
            killed = deepcopy(now)
            killed.execute(actions[:length])
            killed.settle(MOST_PLANS)
            killed.check_wanted()
            prefixes += 1
        before = now.statuses()
        now.execute(actions)
        now.obey()
        if not actions and now.statuses() == before:
            now.check_wanted()
            what = f"{brokers} brokers, {partitions} partitions"
            return Row(what, f"{prefixes} prefixes", plans, slowest, PLAN_LIMIT_S)
        assert plans < MOST_PLANS, f"{brokers} brokers, {partitions} partitions: still busy"


@cache
def large_base() -> Pending:
    """A cluster at rest, of which the large worlds of a process are copies."""
    found = Pending(BROKERS, OFFSETS)
    for number in range(TOPICS):
        name = f"t{number:02}"
        found.apply(topic(name, partitions=PARTITIONS_PER_TOPIC, replicas=REPLICAS))
    found.run()
    return found


def scattered(base: Pending, rng: Random) -> Pending:
    """The same cluster, with the replicas of all partitions on random brokers."""
    found = deepcopy(base)
    for name, one in of_users(found.maps).items():
        found.maps[name] = found.stored(_scattered_map(found, one, rng))
    return found


def _scattered_map(found: Pending, one: PartitionMap, rng: Random) -> PartitionMap:
    """The map with other replicas, all of them in sync."""
    (generation,) = one.spec.generations
    states = tuple(_scattered_state(found, state, rng) for state in generation.partitions)
    generation = replace(generation, partitions=states)
    return replace(one, spec=replace(one.spec, generations=(generation,)))


def _scattered_state(found: Pending, state: PartitionState, rng: Random) -> PartitionState:
    replicas = tuple(rng.sample(sorted(found.brokers), REPLICAS))
    isr = tuple(map(found.ref_of, replicas))
    return replace(state, replicas=replicas, isr=isr, leader=isr[0])


def large(seed: int) -> Row:
    """One large world until everything is as it should be."""
    rng = Random(seed)  # noqa: S311 - the same world every time
    now = scattered(large_base(), rng)
    now.settle(MOST_PLANS)
    now.ask(rng, PARTITIONS_PER_TOPIC)
    now.approve(rng, 6)
    now.change_replicas(rng)
    now.add_partitions(rng)
    now.configure(BROKERS + rng.choice((-1, 0, 2)), config=OFFSETS)
    now.restart(rng)
    slowest, most = Took(), 0
    for plans in range(1, MOST_PLANS + 1):
        plan, took = timed(now.plan)
        slowest = max(slowest, took, key=lambda one: one.cpu_s)
        actions = [one for one in plan.actions if not isinstance(one, RestartPod)]
        before = now.statuses()
        now.execute(actions[: rng.randint(0, len(actions))] if plans % 2 else actions)
        now.obey()
        states = [state for _, _, state in partitions_of(now.maps.values())]
        most = max(most, sum(state.is_moving for state in states))
        if not actions and now.statuses() == before:
            now.check_wanted()
            return Row(f"seed {seed}", f"{most} moving at once", plans, slowest, PLAN_LIMIT_S)
    raise AssertionError(f"seed {seed}: still busy after {MOST_PLANS} plans")


def proposals() -> Iterator[Row]:
    """A proposal for each kind of large cluster."""
    for kind in KINDS:
        world = large_world(Random(1), kind, 200, 20_000)  # noqa: S311 - the same every time
        found, took = timed(
            partial(propose, world.brokers, world.partitions, world.measurements, Settings())
        )
        moves = f"{len(found.leader_moves)} leaders, {len(found.replica_moves)} replicas"
        yield Row(str(kind), moves, 1, took, PROPOSAL_LIMIT_S)


def table(title: str, rows: list[Row], pending: str) -> Table:
    """One row for each world; times over the limit are bold red."""
    limit_s = rows[0].limit_s
    found = Table(box=SIMPLE_HEAD, title=title)
    found.add_column("")
    found.add_column(pending, justify="right")
    found.add_column("plans", justify="right")
    found.add_column("slowest, wall", justify="right")
    found.add_column(f"CPU\n(at most {limit_s:g} s)", justify="right")
    for row in rows:
        style = "green" if row.is_in_time else "bold red"
        found.add_row(
            row.what,
            row.pending,
            str(row.plans),
            f"{row.slowest.wall_s:.3f} s",
            f"[{style}]{row.slowest.cpu_s:.3f} s[/]",
        )
    return found


def main() -> int:
    """Print the tables; 1 if a plan took too long."""
    console = Console()
    sizes = list(product(range(1, MOST_BROKERS + 1), range(1, MOST_PARTITIONS + 1)))
    with ProcessPoolExecutor() as pool:
        every = list(pool.map(every_prefix, *zip(*sizes, strict=True), chunksize=5))
        plans = list(pool.map(large, range(1, WORLDS + 1)))
    prefixes = sum(int(row.pending.split()[0]) for row in every)
    slowest = max(every, key=lambda row: row.slowest.cpu_s)
    console.print(
        f"{len(every)} worlds of up to {MOST_BROKERS} brokers and {MOST_PARTITIONS} partitions: "
        f"every one of {prefixes} prefixes converged, after at most "
        f"{max(row.plans for row in every)} plans; the slowest plan took "
        f"{slowest.slowest.cpu_s * 1000:.0f} ms ({slowest.what})"
    )
    size = f"{BROKERS} brokers, {TOPICS * PARTITIONS_PER_TOPIC:,} partitions x {REPLICAS}"
    console.print(table(f"Plans: {size}", plans, "pending"))
    proposed = list(proposals())
    console.print(table("Proposals: 200 brokers, 20,000 partitions x 3", proposed, "moves"))
    return 0 if all(row.is_in_time for row in (*every, *plans, *proposed)) else 1


if __name__ == "__main__":
    sys.exit(main())
