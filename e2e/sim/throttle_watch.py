"""Observes whether the throttle of replication holds members of an ISR back."""

import asyncio
from typing import Final, NamedTuple

from chiplog_core.config.broker_keys import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    MOVES_THROTTLED_RATE,
)
from e2e.sim.history import POLL_S, broker_of
from e2e.sim.kubelet import Node
from e2e.sim.loop import Process
from e2e.sim.maps import states_in
from e2e.sim.network import Network
from e2e.sim.observer import Observer, Scenery
from e2e.sim.upkeep_history import Held
from e2e.sim.watch import label_of, logs_of, session_of

HELD_S: Final = 6.0
"""Shorter than `replica.lag.time.max.ms`, after which a member leaves the ISR. Without a throttle,
a fetch takes milliseconds."""
CALM_S: Final = 12.0
"""A connection that hangs since a disturbance may last for so long: a fetch's timeout."""
USUAL_DELAY_S: Final = 0.002
LIMITS: Final = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE, MOVES_THROTTLED_RATE)


class _Lag(NamedTuple):
    """A member of an ISR that is behind its leader."""

    since_s: float
    leader: Process
    follower: Process
    end: int
    """The follower's log end offset."""


class ThrottleWatch(Observer):
    """Notes members of ISRs that get no records from running leaders, over open connections."""

    def __init__(self, scenery: Scenery, network: Network) -> None:
        super().__init__(scenery)
        self._network = network
        self._lags: dict[tuple[str, int], _Lag] = {}
        self._disturbed_s = 0.0
        """When anything but a throttle could last hold a fetch back."""

    async def run(self) -> None:
        """Observe until cancelled."""
        while True:
            self._observe()
            await asyncio.sleep(POLL_S)

    def _observe(self) -> None:
        now_s = self._now_s()
        if self._is_disturbed():
            self._disturbed_s = now_s
        if now_s - self._disturbed_s < CALM_S or not self._is_throttling():
            self._lags.clear()
            return
        ends = {
            (label_of(log), broker_id): log.end_offset
            for broker_id, node in self._nodes.items()
            for log in logs_of(node)
        }
        lags = {}
        for partition, state in states_in(self._store):
            if state.leader is None or not self._is_running(str(state.leader)):
                continue
            label, leader_id = str(partition), int(state.leader.broker_id)
            for member in map(str, state.isr):
                broker_id = broker_of(member)
                end = ends.get((label, broker_id))
                if end is None or end >= ends.get((label, leader_id), 0):
                    continue
                if broker_id != leader_id and self._is_running(member):
                    lags[label, broker_id] = self._lag(label, leader_id, broker_id, end)
        self._lags = lags

    def _lag(self, label: str, leader_id: int, broker_id: int, end: int) -> _Lag:
        """The member's lag, which began before if nothing changed since; noted if it is long."""
        leader, follower = self._nodes[leader_id].process, self._nodes[broker_id].process
        assert leader is not None, "it is running"
        assert follower is not None, "it is running"
        known = self._lags.get((label, broker_id))
        if known is None or known[1:] != (leader, follower, end):
            return _Lag(self._now_s(), leader, follower, end)
        if self._now_s() - known.since_s > HELD_S:
            held = Held(self._now_s(), label, broker_id, leader_id, known.since_s, end)
            self._history.upkeep.held.append(held)
            return known._replace(since_s=self._now_s())
        return known

    def _is_running(self, member: str) -> bool:
        """Whether this member's process runs in just this session."""
        node = self._nodes[broker_of(member)]
        return self.is_in_session(member) and session_of(node) == int(member.partition("@")[2])

    def _is_throttling(self) -> bool:
        """Whether any running broker has a limit for copies."""
        return any(limits_of(node) for node in self._nodes.values())

    def _is_disturbed(self) -> bool:
        """Whether anything else than a throttle may hold a fetch back now."""
        network = self._network
        if network.blocked or network.without_power or network.refused:
            return True
        if network.slow_ways_s or network.slow_ends_s:
            return True
        if any(one.pipe.hangs for one in network.connections):
            return True
        return network.slowest_s > USUAL_DELAY_S or any(
            (node.process is not None and node.process.is_paused) or node.disks.is_troubled
            for node in self._nodes.values()
        )


def limits_of(node: Node) -> list[int]:
    """The limits for copies in the configuration that the node's running broker has applied."""
    config = getattr(node.broker, "_config", None) or {}
    return [int(config[key.name]) for key in LIMITS if config.get(key.name)]
