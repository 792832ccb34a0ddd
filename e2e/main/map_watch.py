"""Records the states of a topic's PartitionMap, by asking again and again."""

from collections.abc import Callable

from e2e.clients.background import Background
from e2e.cluster.shell import CommandFailed
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import Place, places

EVERY_S = 0.3


class MapWatch(Background):
    """Reads a topic's partitions every `EVERY_S` while the `with` block runs."""

    ends_within_s = 60

    def __init__(self, cluster: BrokerClusterUnderTest, topic: str) -> None:
        super().__init__()
        self.ask: Callable[[], list[Place]] = lambda: places(cluster, topic)
        self.seen: list[tuple[Place, ...]] = []
        """The answers in order, without repetitions."""

    def run(self) -> None:
        """Ask again and again, and keep each answer that differs from the one before."""
        while not self.ending.wait(EVERY_S):
            try:
                found = tuple(self.ask())
            except (CommandFailed, AssertionError, OSError):
                continue  # the API server is unavailable
            if not self.seen or self.seen[-1] != found:
                self.seen.append(found)
