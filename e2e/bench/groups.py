"""Many small groups on one broker: the time to join, and the CPU that their heartbeats cost."""

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
    """Both sides get the same members (`idle_members.py`), on the brokers that run all the time."""

    def cell_for(broker: BrokerProcess) -> Cell:
        create_topic(broker.bootstrap, TOPIC, MEMBERS)
        return partial(join_and_heartbeat, rig, broker)

    return Sides(cell_for(rig.ours), cell_for(rig.kafka))


def join_and_heartbeat(rig: Rig, broker: BrokerProcess) -> Numbers:
    """Let new groups join, then measure the broker's CPU while they only send heartbeats.

    Raises `RuntimeError` where a member fails, or less than half of the heartbeats were answered.
    """
    seconds = 3 + rig.effort.scaled(9)
    program = (sys.executable, "-m", "e2e.bench.idle_members")
    group_prefix = f"idle-{next(rig.numbers)}"
    place = (LOOPBACK, str(broker.port), group_prefix, TOPIC)
    arguments = (*place, str(GROUPS), str(MEMBERS), str(INTERVAL_MS))
    with subprocess.Popen(
        [*program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        joined_s = child.stdout.readline()
        if not joined_s:
            raise RuntimeError(f"the members of {broker.title} did not all join")
        began_s = time.monotonic()
        with spent(broker) as cost:
            time.sleep(seconds)
        measured_s = time.monotonic() - began_s
        # The members end when their input is closed, and print how many heartbeats were answered.
        heartbeats = int(child.communicate()[0] or 0)
    expected = GROUPS * MEMBERS * measured_s * 1000 / INTERVAL_MS
    if heartbeats < expected / 2:
        raise RuntimeError(
            f"{broker.title} answered {heartbeats} heartbeats, expected about {expected:.0f}"
        )
    return {
        lines.GROUPS_JOINED: float(joined_s),
        lines.GROUPS_CPU: cost.cpu_s / measured_s * 100,
    }
