"""What a PartitionMap said at every moment: each version that kubectl could get hold of."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from e2e.cluster.shell import CommandFailed
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import Place, places

EVERY_S = 0.3


class MapWatch:
    """Asks for a topic's partitions over and over, from the moment the block is entered."""

    def __init__(self, cluster: BrokerClusterUnderTest, topic: str) -> None:
        self.ask: Callable[[], list[Place]] = lambda: places(cluster, topic)
        self.seen: list[tuple[Place, ...]] = []
        """Each different answer, in order."""
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        while not self.ending.wait(EVERY_S):
            try:
                found = tuple(self.ask())
            except (CommandFailed, AssertionError, OSError):
                continue  # the API server is away
            if not self.seen or self.seen[-1] != found:
                self.seen.append(found)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.ending.set()
        self.thread.join(60)
