"""What a PartitionMap said at every moment: each version that kubectl could get hold of."""

from collections.abc import Callable

from e2e.clients.background import Background
from e2e.cluster.shell import CommandFailed
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import Place, places

EVERY_S = 0.3


class MapWatch(Background):
    """Asks for a topic's partitions over and over, from the moment the block is entered."""

    ends_within_s = 60

    def __init__(self, cluster: BrokerClusterUnderTest, topic: str) -> None:
        super().__init__()
        self.ask: Callable[[], list[Place]] = lambda: places(cluster, topic)
        self.seen: list[tuple[Place, ...]] = []
        """Each different answer, in order."""

    def run(self) -> None:
        while not self.ending.wait(EVERY_S):
            try:
                found = tuple(self.ask())
            except (CommandFailed, AssertionError, OSError):
                continue  # the API server is away
            if not self.seen or self.seen[-1] != found:
                self.seen.append(found)
