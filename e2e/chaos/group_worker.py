"""Members of consumer groups: `python -m e2e.chaos.group_worker LIBRARY BOOTSTRAP TOPIC GROUP…`.

A process of its own, so that it can be killed, with one member for each GROUP. A member processes
what it reads by saying so, and about once a second it commits that and waits for the answer. Each
line is a JSON object, written at once and before what it announces is done: what a killed process
has said, it has said.

`t` is the machine's monotonic clock in seconds. What is refused for a passing reason is reported
and tried again, as every user of these libraries has to.
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
    """What a member of any library does with the records and partitions it is given."""

    name: ClassVar[str]
    passing: ClassVar[tuple[type[Exception], ...]]
    """What the library raises for a reason that passes, or for what it cannot know."""

    def __init__(self, number: int, bootstrap: str, topic: str, group: str) -> None:
        self.number, self.bootstrap, self.topic, self.group = number, bootstrap, topic, group
        self.given_s: dict[int, float] = {}
        """Partitions it was given and has read nothing of, with the moment."""
        self.runs: dict[int, list[list[int]]] = {}
        """Partition -> [first, last] of records in a row that are not reported yet."""
        self.uncommitted: dict[int, int] = {}
        """Partition -> what it would read next, where that is not committed."""
        self.committed_s = time.monotonic()
        self.is_ending = False

    def say(self, event: str, **more: object) -> None:
        """Write a line, whole: a pipe takes so much at once."""
        when_s = round(time.monotonic(), 4)
        line = json.dumps({"event": event, "t": when_s, "member": self.number, **more})
        os.write(sys.stdout.fileno(), f"{line}\n".encode())

    def run(self) -> None:
        """Until it is asked to end; then leave the group."""
        self.until_it_works(self.open)
        while not self.is_ending:
            self.until_it_works(self.poll)
            if time.monotonic() - self.committed_s >= COMMIT_EVERY_S:
                self.commit()
        self.commit()
        self.close()

    def until_it_works(self, what: Callable[[], None]) -> None:
        while not self.is_ending:
            try:
                what()
                return
            except self.passing as problem:
                self.say("problem", what=repr(problem))
                time.sleep(AGAIN_S)

    def given(self, partitions: Iterable[int]) -> None:
        partitions = sorted(partitions)
        self.say("given", partitions=partitions)
        self.given_s.update(dict.fromkeys(partitions, time.monotonic()))

    def taken(self) -> None:
        """All partitions are to be given up; what was processed of them is committed first."""
        self.commit()
        self.lost()

    def lost(self) -> None:
        """Others may have all partitions already."""
        self.tell()
        for known in (self.given_s, self.runs, self.uncommitted):
            known.clear()

    def process(self, partition: int, offset: int) -> None:
        if (since_s := self.given_s.pop(partition, None)) is not None:
            self.say("began", partition=partition, offset=offset, since=since_s)
        runs = self.runs.setdefault(partition, [])
        if runs and runs[-1][1] == offset - 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
        self.uncommitted[partition] = offset + 1

    def tell(self) -> None:
        """What was processed since the last report, a line for each partition."""
        for partition, runs in self.runs.items():
            self.say("processed", partition=partition, runs=runs)
        self.runs.clear()

    def commit(self) -> None:
        """Commit what was processed; after a refused commit the next one contains everything."""
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
        """Hand over what is there to `process`, or wait a moment."""

    @abstractmethod
    def commit_sync(self, offsets: dict[int, int]) -> None:
        """Raises one of `passing` unless every one of them is committed."""

    @abstractmethod
    def close(self) -> None: ...


class LibrdkafkaWorker(Worker):
    name: ClassVar[str] = "librdkafka"
    passing: ClassVar[tuple[type[Exception], ...]] = (KafkaException,)

    def open(self) -> None:
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
        until_s = time.monotonic() + POLL_S
        # One by one: then no record of a partition comes after the word that it is gone.
        while (left_s := until_s - time.monotonic()) > 0:
            message = self.consumer.poll(left_s)
            if message is None:
                return
            if (error := message.error()) is not None:
                raise KafkaException(error)
            self.process(*place(message))

    def commit_sync(self, offsets: dict[int, int]) -> None:
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
        """`uncommitted` of the partitions that a rebalance revoked."""

    def revoked(self) -> None:
        """No commit can be waited for here: it follows, or the next owner reads these again."""
        self.kept |= self.uncommitted
        self.lost()

    def given(self, partitions: Iterable[int]) -> None:
        # kafka-python keeps its position in a partition that it has before and after a rebalance,
        # so it never reads again what it did not commit before.
        super().given(partitions)
        self.uncommitted |= {
            number: offset for number, offset in self.kept.items() if number in self.given_s
        }
        self.kept.clear()

    def open(self) -> None:
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
        for where, records in self.consumer.poll(timeout_ms=int(POLL_S * 1000)).items():
            for one in records:
                self.process(where.partition, one.offset)

    def commit_sync(self, offsets: dict[int, int]) -> None:
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
    """What kafka-python says of partitions."""

    def __init__(self, worker: KafkaPythonWorker) -> None:
        self.worker = worker

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        # kafka-python 3.0 keeps a question for committed offsets that nobody waited for, and takes
        # its old answer when it has the same partitions in a later generation: it reads again
        # what others have committed since, and a checker would blame the coordinator.
        self.worker.consumer._coordinator._offset_fetch_futures.clear()  # noqa: SLF001
        self.worker.given(one.partition for one in assigned)

    def on_partitions_revoked(self, _: Iterable[Any]) -> None:
        self.worker.revoked()

    def on_partitions_lost(self, _: Iterable[Any]) -> None:
        self.worker.kept.clear()
        self.worker.lost()


WORKERS: dict[str, type[Worker]] = {one.name: one for one in (LibrdkafkaWorker, KafkaPythonWorker)}


def main() -> None:
    """Until SIGTERM. Where a member ends by itself, all do."""
    # For finding the cause of an anomaly; it goes to the member's own file.
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
