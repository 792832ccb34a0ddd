"""Wakes the loops that a change in the caches concerns.

It is created before everything else, because the caches need a listener and the loops need the
caches. A change before the loops run is not missed: each loop begins with a pass.
"""

from chiplog_operator.caches import ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.groups.loop import GroupsLoop
from chiplog_operator.keyed_loops import KeyedLoops
from chiplog_operator.loop import ClusterLoop
from chiplog_operator.users.loop import UsersLoop
from chiplog_operator.waking import Wake


class Changes:
    """The loops of one operator process, for callers that only wake them."""

    def __init__(self, clock: Clock) -> None:
        self.clusters = KeyedLoops[ClusterKey, ClusterLoop]("loop")
        self.groups = KeyedLoops[ClusterKey, GroupsLoop]("groups of")
        self.users = KeyedLoops[ClusterKey, UsersLoop]("users of")
        self.processes = Wake(clock)
        """Set when a broker or its pod changed: another process may run."""
        self.jobs = Wake(clock)
        """Set when the spec of an object that runs Spark jobs changed."""

    def cluster_changed(self, cluster: ClusterKey, *, urgent: bool = False) -> None:
        """Wake the cluster's loop, and the task that connects to its brokers. An urgent change may
        interrupt a plan that is being carried out."""
        self.processes.set()
        if (loop := self.clusters.of(cluster)) is not None:
            loop.wake(urgent=urgent)

    def all_clusters_changed(self) -> None:
        """Wake the loops of all clusters."""
        for loop in self.clusters.all():
            loop.wake()

    def groups_changed(self, cluster: ClusterKey) -> None:
        """Wake the loop of the cluster's groups."""
        if (loop := self.groups.of(cluster)) is not None:
            loop.wake()

    def users_changed(self, cluster: ClusterKey) -> None:
        """Wake the loop of the cluster's users."""
        if (loop := self.users.of(cluster)) is not None:
            loop.wake()

    def jobs_changed(self) -> None:
        """Wake the loop of Spark jobs."""
        self.jobs.set()
