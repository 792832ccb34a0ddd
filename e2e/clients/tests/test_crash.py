"""kill -9 in the middle of a produce load: what was acknowledged is there, once.

The producer goes on over all crashes. It sends again what it has no answer for, so a
broker that forgot its producers would store records twice, and one that lost records
would see a hole in the numbers and refuse the rest.
"""

import os
import random
from functools import partial

import pytest

from e2e.clients.load import Load
from e2e.clients.stored import Differences, differences
from e2e.clients.tests.conftest import NewBroker
from e2e.clients.topics import create_topic
from e2e.cluster.processes import wait_until

CRASHES = int(os.environ.get("CRASHES", "3"))
PARTITIONS = 3
# Segments roll every second or so, so that crashes meet rolls too.
SETTINGS = {"log.segment.bytes": str(2**20)}

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60 + 20 * CRASHES)]


def test_kill_9_loses_and_repeats_nothing(new_broker: NewBroker) -> None:
    chance = random.Random(4)  # noqa: S311 - moments, not secrets
    broker = new_broker(settings=SETTINGS)
    broker.start()
    create_topic(broker.bootstrap, "orders", PARTITIONS)
    with Load(broker.bootstrap, "orders", PARTITIONS) as load:
        for _ in range(CRASHES):
            enough = load.acknowledged() + chance.randint(1_000, 20_000)
            wait_until("records are acknowledged", partial(load.has_acknowledged, enough), 30)
            broker.kill()
            broker.start()
    assert load.ledger.refused == []
    assert load.acknowledged() == load.sent
    found = differences(broker.bootstrap, "orders", PARTITIONS, load.ledger)
    assert found == Differences(lost=[], twice=[], gaps=[])
    print(f"{CRASHES} crashes, {load.sent} records, all there")
