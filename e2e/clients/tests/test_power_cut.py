"""Power cuts in the middle of a produce load, by crash image (`e2e.clients.crash_disk`).

With `Fsync`, what was acknowledged survives every one. Without, it does not: the last
test shows that the cuts are real, or the first would prove nothing.
"""

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.clients.crash_disk import CrashDisk
from e2e.clients.load import Ledger, Load
from e2e.clients.stored import Differences, differences
from e2e.clients.tests.conftest import NewBroker
from e2e.clients.topics import create_topic
from e2e.cluster.processes import wait_until

CUTS = int(os.environ.get("POWER_CUTS", "5"))
PARTITIONS = 2

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120 + 20 * CUTS)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashDisk]:
    if why := CrashDisk.refusal(tmp_path):
        pytest.skip(why)
    with CrashDisk(tmp_path) as one:
        yield one


def test_with_fsync_nothing_acknowledged_is_lost(disk: CrashDisk, new_broker: NewBroker) -> None:
    chance = random.Random(5)  # noqa: S311 - moments, not secrets
    broker = new_broker(
        home=disk.path / "home", fsync=True, settings={"log.segment.bytes": str(2**20)}
    )
    broker.start()
    create_topic(broker.bootstrap, "orders", PARTITIONS)
    with Load(broker.bootstrap, "orders", PARTITIONS) as load:
        for _ in range(CUTS):
            enough = load.acknowledged() + chance.randint(500, 5_000)
            wait_until("records are acknowledged", partial(load.has_acknowledged, enough), 30)
            broker.kill()
            disk.cut_power()
            broker.start()
    assert load.ledger.refused == []
    found = differences(broker.bootstrap, "orders", PARTITIONS, load.ledger)
    assert found == Differences(lost=[], twice=[], gaps=[])
    print(f"{CUTS} power cuts, {load.sent} records, none lost")


def test_without_fsync_the_cut_is_felt(disk: CrashDisk, new_broker: NewBroker) -> None:
    broker = new_broker(home=disk.path / "home", fsync=False)
    broker.start()
    create_topic(broker.bootstrap, "orders", PARTITIONS)
    with Load(broker.bootstrap, "orders", PARTITIONS) as load:
        wait_until("records are acknowledged", partial(load.has_acknowledged, 2_000), 30)
        broker.kill()
        promised = Ledger(dict(load.ledger.acknowledged))
        disk.cut_power()
        broker.start()
    lost = differences(broker.bootstrap, "orders", PARTITIONS, promised).lost
    assert lost
    print(f"{len(lost)} of {len(promised.acknowledged)} acknowledged records lost")
