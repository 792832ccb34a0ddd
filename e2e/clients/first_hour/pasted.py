"""Runs the example programs that users paste: produce, consume, commit, reset and replay."""

import re
import time
from contextlib import ExitStack

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.first_hour.lesson import Lesson, NewTopic, Place
from e2e.clients.first_hour.running import (
    LIMIT_S,
    Program,
    Row,
    python,
    rows,
    spring_listener,
    three_records,
)
from e2e.clients.topics import end_offsets

ENDED_BY_SIGTERM = 143
ORDERS = 6
LIBRARIES = ("kafka_python", "librdkafka", "aiokafka")
AGAIN_S = 0.3


class TestPasted(Lesson):
    """Each program in `programs` is run without changes."""

    def test_orders_as_json_and_a_consumer_that_comes_back(
        self, place: Place, new_topic: NewTopic
    ) -> None:
        new_topic(4, "hour-json")
        with python(place.bootstrap, "produce_json.py") as producer:
            sent = rows(producer.result())
        assert [one.value for one in sent] == [str(n) for n in range(1, ORDERS + 1)]
        for key in ("customer-0", "customer-1"):
            of_key = [one for one in sent if one.key == key]
            assert len({one.partition for one in of_key}) == 1, "a key has one partition"
            offsets = [one.offset for one in of_key]
            assert offsets == sorted(offsets)
        with python(place.bootstrap, "consume_json.py", "4") as consumer:
            first = rows(consumer.result())
        with python(place.bootstrap, "consume_json.py", str(ORDERS - 4)) as consumer:
            rest = rows(consumer.result())
        assert len(first) == 4
        assert sorted((*first, *rest)) == sorted(sent), "nothing twice, nothing left out"

    def test_javas_producer_and_a_listener_of_spring(
        self, place: Place, new_topic: NewTopic
    ) -> None:
        new_topic(3, "hour-java")
        with spring_listener(place.bootstrap) as listener:
            with three_records(place.bootstrap) as producer:
                sent = rows(producer.result())
            received = listener.wait_for_rows(3)
            listener.stop(ENDED_BY_SIGTERM)
        partition = sent[0].partition
        assert sent == [Row(partition, n, "customer-7", f"order {n + 1}") for n in range(3)]
        assert received == sent

    def test_with_a_key_and_without(self, place: Place, new_topic: NewTopic) -> None:
        topic = new_topic(4, "hour-sends")
        with (
            python(place.bootstrap, "send_librdkafka.py") as one,
            python(place.bootstrap, "send_aiokafka.py") as other,
        ):
            by_program = [rows(one.result()), rows(other.result())]
        for sent in by_program:
            assert len({row.partition for row in sent if row.key != "None"}) == 1
            values = {row.value for row in sent}
            assert values == {f"{kind} {n}" for kind in ("keyed", "keyless") for n in range(10)}
        all_sent = [row for sent in by_program for row in sent]
        ends = [
            max((row.offset + 1 for row in all_sent if row.partition == partition), default=0)
            for partition in range(4)
        ]
        found = [
            Row(
                partition,
                landed.offset,
                (landed.record.key or b"None").decode(),
                (landed.record.value or b"").decode(),
            )
            for partition, end in enumerate(end_offsets(place.bootstrap, topic, range(4)))
            # aiokafka's acks=1 is answered before followers have the record and the end moves.
            for landed in Librdkafka().consume(
                place.bootstrap, topic, partition, max(end, ends[partition])
            )
        ]
        assert sorted(found) == sorted(all_sent)

    def test_where_a_group_without_commits_begins(self, place: Place, new_topic: NewTopic) -> None:
        """Programs with policy `latest` wait for new records, which are sent until all have one."""
        topic = new_topic(1, "hour-reset")
        client = Librdkafka()
        client.produce(place.bootstrap, topic, [Record(b"first")])
        with ExitStack() as running:
            programs = {
                (library, policy): running.enter_context(
                    python(place.bootstrap, f"reset_{library}.py", policy)
                )
                for library in LIBRARIES
                for policy in ("earliest", "latest", "none")
            }
            for (_, policy), program in programs.items():
                if policy != "latest":
                    program.result()
            wait_for_latest(programs, place.bootstrap, topic)
            printed = {which: program.result() for which, program in programs.items()}
        for library in LIBRARIES:
            assert printed[library, "none"] == ["no offset"]
            assert printed[library, "earliest"] == ["offset=0 value=first"]
            (later,) = printed[library, "latest"]
            assert re.fullmatch(r"offset=[1-9]\d* value=later", later)

    def test_replay_from_the_beginning(self, place: Place, new_topic: NewTopic) -> None:
        topic = new_topic(1, "hour-replay")
        Librdkafka().produce(place.bootstrap, topic, [Record(b"%d" % n) for n in range(3)])
        with (
            python(place.bootstrap, "replay.py") as one,
            python(place.bootstrap, "replay_librdkafka.py") as other,
        ):
            assert one.result() == ["first [0, 1, 2]", "again [0, 1, 2]"]
            assert other.result() == ["read [0, 1, 2]"]
        with python(place.bootstrap, "replay_librdkafka.py") as other:
            assert other.result() == ["read [0, 1, 2]"]


def wait_for_latest(programs: dict[tuple[str, str], Program], bootstrap: str, topic: str) -> None:
    """Send a record every `AGAIN_S` until all programs have ended.

    `programs` is (library, policy) -> program. Raises `AssertionError` after `LIMIT_S`.
    """
    until_s = time.monotonic() + LIMIT_S
    while not all(one.has_ended for one in programs.values()):
        running = sorted(which for which, one in programs.items() if not one.has_ended)
        assert time.monotonic() < until_s, f"not ended after {LIMIT_S} s: {running}"
        Librdkafka().produce(bootstrap, topic, [Record(b"later")])
        time.sleep(AGAIN_S)
