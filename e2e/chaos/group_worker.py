"""Members of consumer groups: `python -m e2e.chaos.group_worker LIBRARY BOOTSTRAP TOPIC GROUP…`.

This is a separate process, so that it can be killed, with one member for each GROUP. A member
prints what it processed as JSON lines, and about once a second it commits that and waits for the
answer. Each line is written at once, and before the action that it announces: so no action of a
killed process is missing.

`t` in a line is the machine's monotonic clock in seconds. Temporary errors are reported and the
request is repeated, as every user of these libraries has to do.
"""

import json
import logging
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import FrameType
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from e2e.chaos.producers import REQUEST_LIMIT_MS
from e2e.clients.by_kafka_python import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaError,
    OffsetAndMetadata,
    TopicPartition,
)
from e2e.clients.by_librdkafka import QUIET, place
from e2e.clients.group_member import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS

COMMIT_EVERY_S = 0.8
POLL_S = 0.2
AGAIN_S = 0.2


class Worker(ABC):
    """One member of a group, independent of its client library."""

    name: ClassVar[str]
    passing: ClassVar[tuple[type[Exception], ...]]
    """The library's exceptions for temporary errors, or for an unknown outcome."""

    def __init__(self, number: int, bootstrap: str, topic: str, group: str) -> None:
        self.number, self.bootstrap, self.topic, self.group = number, bootstrap, topic, group
        self.given_s: dict[int, float] = {}
        """Partition -> when it was assigned, for partitions of which nothing was read yet."""
        self.runs: dict[int, list[list[int]]] = {}
        """Partition -> ranges [first, last] of processed offsets that are not reported yet."""
        self.uncommitted: dict[int, int] = {}
        """Partition -> the offset to commit, for partitions with uncommitted records."""
        self.committed_s = time.monotonic()
        """When the last commit was begun."""
        self.is_ending = False

    def say(self, event: str, **more: object) -> None:
        """Write one line in one call: so it is complete, even if other threads write or we are
        killed."""
        when_s = round(time.monotonic(), 4)
        line = json.dumps({"event": event, "t": when_s, "member": self.number, **more})
        os.write(sys.stdout.fileno(), f"{line}\n".encode())

    def run(self) -> None:
        """Read and commit until `is_ending`; then commit once more and leave the group."""
        self.until_it_works(self.open)
        while not self.is_ending:
            self.until_it_works(self.poll)
            if time.monotonic() - self.committed_s >= COMMIT_EVERY_S:
                self.commit()
        self.commit()
        self.close()

    def until_it_works(self, what: Callable[[], None]) -> None:
        """Call `what`, again after each temporary error, until it succeeds or `is_ending`."""
        while not self.is_ending:
            try:
                what()
                return
            except self.passing as problem:
                self.say("problem", what=repr(problem))
                time.sleep(AGAIN_S)

    def given(self, partitions: Iterable[int]) -> None:
        """Called when the group assigned these partitions to the member."""
        partitions = sorted(partitions)
        self.say("given", partitions=partitions)
        self.given_s.update(dict.fromkeys(partitions, time.monotonic()))

    def taken(self) -> None:
        """Called when all partitions are revoked: commit what was processed of them first."""
        self.commit()
        self.lost()

    def lost(self) -> None:
        """Forget all partitions without a commit: other members may have them already."""
        self.tell()
        for by_partition in (self.given_s, self.runs, self.uncommitted):
            by_partition.clear()

    def process(self, partition: int, offset: int) -> None:
        """Process one record: keep its offset for the next report and the next commit."""
        if (since_s := self.given_s.pop(partition, None)) is not None:
            self.say("began", partition=partition, offset=offset, since=since_s)
        runs = self.runs.setdefault(partition, [])
        if runs and runs[-1][1] == offset - 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
        self.uncommitted[partition] = offset + 1

    def tell(self) -> None:
        """Report the offsets processed since the last report, one line for each partition."""
        for partition, runs in self.runs.items():
            self.say("processed", partition=partition, runs=runs)
        self.runs.clear()

    def commit(self) -> None:
        """Report and commit what was processed; a failed commit is repeated as part of the next."""
        self.tell()
        self.committed_s = time.monotonic()
        if not self.uncommitted:
            return
        self.say("commit", offsets=self.uncommitted)
        try:
            self.commit_sync(self.uncommitted)
        except self.passing as problem:
            self.say("refused", what=repr(problem))
        else:
            self.say("committed", offsets=self.uncommitted)
            self.uncommitted.clear()

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def poll(self) -> None:
        """Fetch records for up to `POLL_S`, and call `process` for each."""

    @abstractmethod
    def commit_sync(self, offsets: dict[int, int]) -> None:
        """Commit these offsets (by partition).

        Raises one of `passing` unless all were committed.
        """

    @abstractmethod
    def close(self) -> None: ...


class LibrdkafkaWorker(Worker):
    name: ClassVar[str] = "librdkafka"
    passing: ClassVar[tuple[type[Exception], ...]] = (KafkaException,)

    def open(self) -> None:
        """Create the consumer and join the group; commits are explicit, never automatic."""
        self.consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "socket.timeout.ms": REQUEST_LIMIT_MS,
                "fetch.wait.max.ms": 500,
                "fetch.min.bytes": 2**16,
                **QUIET,
            }
        )
        self.consumer.subscribe(
            [self.topic],
            on_assign=lambda _, found: self.given(one.partition for one in found),
            on_revoke=lambda *_: self.taken(),
            on_lost=lambda *_: self.lost(),
        )

    def poll(self) -> None:
        """Process the records that arrive within `POLL_S`."""
        until_s = time.monotonic() + POLL_S
        # One by one: `consume` could return records of a partition after its revocation was
        # reported.
        while (left_s := until_s - time.monotonic()) > 0:
            message = self.consumer.poll(left_s)
            if message is None:
                return
            if (error := message.error()) is not None:
                raise KafkaException(error)
            self.process(*place(message))

    def commit_sync(self, offsets: dict[int, int]) -> None:
        """Commit offsets by partition, and wait. Raises `KafkaException` if one is refused."""
        wanted = [Position(self.topic, number, offset) for number, offset in offsets.items()]
        for one in self.consumer.commit(offsets=wanted, asynchronous=False) or ():
            if one.error is not None:
                raise KafkaException(one.error)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonWorker(Worker):
    name: ClassVar[str] = "kafka-python"
    passing: ClassVar[tuple[type[Exception], ...]] = (KafkaError,)

    def __init__(self, number: int, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(number, bootstrap, topic, group)
        self.kept: dict[int, int] = {}
        """`uncommitted` of the partitions that a rebalance revoked, until the next assignment."""

    def revoked(self) -> None:
        """Called before a rebalance, when no commit is possible; `uncommitted` is kept.

        If the member gets the partitions back, it commits them later. Otherwise their next owner
        reads these records again.
        """
        self.kept |= self.uncommitted
        self.lost()

    def given(self, partitions: Iterable[int]) -> None:
        """Note new partitions, and keep the uncommitted offsets of those it had before."""
        # If kafka-python has a partition before and after a rebalance, it continues at its old
        # position: so what was read, but not committed, must still be committed.
        super().given(partitions)
        self.uncommitted |= {
            number: offset for number, offset in self.kept.items() if number in self.given_s
        }
        self.kept.clear()

    def open(self) -> None:
        """Create the consumer and join the group; commits are explicit, never automatic."""
        self.consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            request_timeout_ms=REQUEST_LIMIT_MS,
            fetch_min_bytes=2**16,
        )
        self.consumer.subscribe([self.topic], listener=RebalanceListener(self))

    def poll(self) -> None:
        """Process the records that one poll of at most `POLL_S` returns."""
        for where, records in self.consumer.poll(timeout_ms=int(POLL_S * 1000)).items():
            for one in records:
                self.process(where.partition, one.offset)

    def commit_sync(self, offsets: dict[int, int]) -> None:
        """Commit offsets by partition, and wait for the answer."""
        self.consumer.commit(
            {
                TopicPartition(self.topic, number): OffsetAndMetadata(offset, "", -1)
                for number, offset in offsets.items()
            },
            timeout_ms=REQUEST_LIMIT_MS,
        )

    def close(self) -> None:
        self.consumer.close()


class RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc] # it has no types
    """Passes kafka-python's calls about assigned and revoked partitions to the worker."""

    def __init__(self, worker: KafkaPythonWorker) -> None:
        self.worker = worker

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        # kafka-python 3.0 keeps an abandoned request for committed offsets. If it gets the same
        # partitions in a later generation, it uses the old answer, and reads again what others
        # have committed since: a checker would report a fault of the coordinator.
        self.worker.consumer._coordinator._offset_fetch_futures.clear()  # noqa: SLF001
        self.worker.given(one.partition for one in assigned)

    def on_partitions_revoked(self, _: Iterable[Any]) -> None:
        self.worker.revoked()

    def on_partitions_lost(self, _: Iterable[Any]) -> None:
        self.worker.kept.clear()
        self.worker.lost()


WORKERS: dict[str, type[Worker]] = {one.name: one for one in (LibrdkafkaWorker, KafkaPythonWorker)}


def main() -> None:
    """Run all members until SIGTERM; if one fails, the others end, too."""
    # For people who look for the cause of an anomaly; stderr is a file of this process.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    library, bootstrap, topic, *groups = sys.argv[1:]
    workers = [WORKERS[library](n, bootstrap, topic, one) for n, one in enumerate(groups)]

    def end(_signal: int, _frame: FrameType | None) -> None:
        for one in workers:
            one.is_ending = True

    signal.signal(signal.SIGTERM, end)
    with ThreadPoolExecutor(len(workers)) as pool:
        for done in as_completed([pool.submit(one.run) for one in workers]):
            if done.exception() is not None:
                end(signal.SIGTERM, None)
            done.result()


if __name__ == "__main__":
    main()
