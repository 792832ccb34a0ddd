"""Changes under a load of three libraries, two groups and transactions, whose histories are judged.

The long form makes every change by itself, and then again while the active operator is killed at a
random moment of it: `make e2e LANE=change FULL=1`.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from e2e import measured
from e2e.change.campaign import Campaign, run_changes, table
from e2e.change.changes import CHANGES, Change, replication_factor
from e2e.change.gaps import GAP_LIMIT_S
from e2e.chaos.scene import Scene
from e2e.chaos.workload import PARTITIONS
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.operator import Operator
from e2e.main.setting_up import NewTopic

RECORDS_PER_S = 2_000 if is_full() else 300
# Less would be another test than the one that is asked for.
ENOUGH = 0.9
TABLE_WIDTH = 170
KILLS = 10
ASKED_FOR = [one.strip() for one in os.environ.get("CHANGES", "").split(",") if one.strip()]

pytestmark = [pytest.mark.change, pytest.mark.timeout(1500 if is_full() else 400)]


def chosen() -> list[tuple[Change, bool]]:
    """Changes, and whether the operator is killed: one with it in the short form, in the long one
    each without a kill, and then `KILLS` in turn with one. CHANGES has parts of names, with commas
    between."""
    if not is_full():
        return [(Change("replication factor", replication_factor), True)]
    asked_for = [
        one for one in CHANGES if not ASKED_FOR or any(part in one.name for part in ASKED_FOR)
    ]
    killed = [asked_for[number % len(asked_for)] for number in range(KILLS)]
    return [(one, False) for one in asked_for] + [(one, True) for one in killed]


@pytest.fixture(scope="module")
def campaigns() -> Iterator[list[Campaign]]:
    """Tests add to it; at the end it is shown as a table."""
    found: list[Campaign] = []
    yield found
    if found:
        Console(width=TABLE_WIDTH).print(table(found))


@pytest.fixture
def scene(cluster: BrokerClusterUnderTest, operator: Operator, new_topic: NewTopic) -> Scene:
    """A topic that no group has committed in yet, on a cluster that is whole."""
    topic = new_topic(f"changed-{time.time_ns()}", PARTITIONS, replicas=3)
    operator.wait_whole()
    return Scene(cluster, operator, topic)


@pytest.mark.parametrize(
    ("change", "is_killed"),
    chosen(),
    ids=lambda one: one.name.replace(" ", "-") if isinstance(one, Change) else f"killed-{one}",
)
def test_clients_lose_nothing(
    scene: Scene, campaigns: list[Campaign], tmp_path: Path, change: Change, is_killed: bool
) -> None:
    seed = int(os.environ.get("SEED") or time.time_ns() % 1_000_000)
    chance = random.Random(seed) if is_killed else None  # noqa: S311 - moments, not secrets
    found = run_changes(scene, [change], tmp_path, RECORDS_PER_S, chance)
    campaigns.append(found)
    result = found.result
    for one in found.changes:
        measured.note(
            f"{one.line} (before {found.quiet.p99_ms:.0f} ms), {result.acknowledged:,} records at "
            f"{result.records_per_s:.0f}/s, {len(result.anomalies)} anomalies, "
            f"{len(result.group_anomalies)} of groups, {len(result.errors)} given up; "
            f"{result.transactions.text}, {len(result.transaction_anomalies)} anomalies"
            + (f" (SEED={seed})" if is_killed else "")
        )
    result.check()
    limited = [one for one in found.changes if one.gap_limit_s is not None]
    assert all(one.gap_s < 5 * GAP_LIMIT_S for one in limited), limited
    if is_full():
        assert result.records_per_s >= ENOUGH * RECORDS_PER_S
