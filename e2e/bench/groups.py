"""Many small groups on one broker: until all have joined, and what it costs that they live."""

import subprocess
import sys
import time
from functools import partial
from typing import Final

from e2e.bench import lines
from e2e.bench.paired import Cell, Numbers, Sides
from e2e.bench.rig import Rig, spent
from e2e.clients.topics import create_topic
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.process import BrokerProcess

GROUPS, MEMBERS = 1_000, 2
INTERVAL_MS: Final = 3_000
"""The default of Kafka's consumers."""
TOPIC: Final = "grouped"


def groups(rig: Rig) -> Sides:
    """The same members (`idle_members.py`) for the two brokers that run all the time."""

    def side(broker: BrokerProcess) -> Cell:
        create_topic(broker.bootstrap, TOPIC, MEMBERS)
        return partial(join_and_heartbeat, rig, broker)

    return Sides(side(rig.ours), side(rig.kafka))


def join_and_heartbeat(rig: Rig, broker: BrokerProcess) -> Numbers:
    """New groups, so that each begins from nothing; then CPU while they only heartbeat."""
    seconds = 3 + rig.effort.scaled(9)
    program = (sys.executable, "-m", "e2e.bench.idle_members")
    place = (LOOPBACK, str(broker.port), f"idle-{next(rig.numbers)}", TOPIC)
    words = (*place, str(GROUPS), str(MEMBERS), str(INTERVAL_MS))
    with subprocess.Popen(
        [*program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        joined_s = child.stdout.readline()
        if not joined_s:
            raise RuntimeError(f"the members of {broker.title} did not all join")
        began_s = time.monotonic()
        with spent(broker) as cost:
            time.sleep(seconds)
        measured_s = time.monotonic() - began_s
        heartbeats = int(child.communicate()[0] or 0)
    expected = GROUPS * MEMBERS * measured_s * 1000 / INTERVAL_MS
    if heartbeats < expected / 2:
        raise RuntimeError(f"{heartbeats} heartbeats to {broker.title}, not {expected:.0f}")
    return {
        lines.GROUPS_JOINED: float(joined_s),
        lines.GROUPS_CPU: cost.cpu_s / measured_s * 100,
    }
