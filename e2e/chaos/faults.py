"""All kinds of faults that a campaign can cause."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from e2e.chaos import disk_faults, network_faults, process_faults
from e2e.chaos.scene import Scene

Strike = Callable[[Scene], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault, like a killed leader or a full disk.

    `strike` is a context manager that causes it once. Entering causes the fault and checks that
    it had an effect; leaving ends it and returns when the cluster has recovered. The caller keeps
    the fault for `lasts_s` in between.
    """

    name: str
    strike: Strike
    lasts_s: float = 0.0
    is_short: bool = False
    """Whether the short campaign has it, too."""

    @property
    def how(self) -> str:
        """What the fault does, in one line: the first of the docstring of `strike`."""
        return (self.strike.__doc__ or "").strip().partition("\n")[0]


FAULTS = (
    Fault("leader killed", process_faults.leader_killed, is_short=True),
    Fault("all brokers killed", process_faults.all_killed),
    Fault("leader paused", process_faults.leader_paused, 2, is_short=True),
    Fault("pod deleted", process_faults.pod_deleted),
    Fault("node lost", process_faults.node_lost, 5),
    Fault("operator stopped", process_faults.operator_stopped, 5),
    Fault("cut two ways", network_faults.cut_two_ways, 2, is_short=True),
    Fault("cut one way", network_faults.cut_one_way, 2),
    Fault("cut from the API server", network_faults.cut_from_api_server, 2),
    Fault("cut from clients", network_faults.cut_from_clients, 8),
    Fault("API server stopped", network_faults.api_server_stopped, 20),
    Fault("disk slow", disk_faults.leader_slow, 10, is_short=True),
    Fault("disk full", disk_faults.leader_full, 10),
    Fault("bit flipped on a follower", disk_faults.follower_flipped),
    Fault("bit flipped on a leader", disk_faults.leader_flipped),
)
