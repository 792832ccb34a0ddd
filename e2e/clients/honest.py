"""A well-behaved client that measures how long it waits for its broker."""

import time
from statistics import quantiles
from types import TracebackType

from confluent_kafka import Producer

from e2e.clients.background import Background
from e2e.clients.by_librdkafka import QUIET, must_arrive

ANSWER_LIMIT_S = 10
PAUSE_S = 0.002


class Honest(Background):
    """Sends records one after the other, each after the answer to the one before.

    It runs while the `with` block runs; the block's end raises `TimeoutError` if a record was not
    acknowledged within `ANSWER_LIMIT_S`.
    """

    ends_within_s = 2 * ANSWER_LIMIT_S

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET})
        self.waits_ms: list[float] = []
        """How long each record waited for its acknowledgement."""
        self.unanswered = 0
        """1 if the last record got no answer in time, else 0."""

    def run(self) -> None:
        """Send a record at a time, and note how long its acknowledgement takes.

        Ends if a record is not answered within `ANSWER_LIMIT_S`; `__exit__` then raises an error.
        """
        while not self.ending.wait(PAUSE_S):
            started_s = time.monotonic()
            self.producer.produce(self.topic, b"honest", on_delivery=must_arrive)
            self.unanswered = self.producer.flush(ANSWER_LIMIT_S)
            if self.unanswered:
                return
            self.waits_ms.append((time.monotonic() - started_s) * 1000)

    def p99_ms(self) -> float:
        """The 99th percentile of all waits so far; there must be some."""
        return quantiles(self.waits_ms, n=100)[98]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None and self.unanswered:
            raise TimeoutError(
                f"a record to {self.topic} was not acknowledged within {ANSWER_LIMIT_S} s"
            )
