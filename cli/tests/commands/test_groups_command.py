"""`chiplog groups` against a real broker and real consumers."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog

LIMIT_S = 60


@contextmanager
def consuming(broker: StandaloneBroker, topic: str, group: str) -> Iterator[Consumer]:
    """A member that has partitions and read the first record."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    deadline_s = time.monotonic() + LIMIT_S
    try:
        while consumer.poll(0.2) is None:
            assert time.monotonic() < deadline_s, "nothing to read"
        yield consumer
    finally:
        consumer.close()


def offsets(chiplog: Chiplog, group: str) -> dict[int, int | None]:
    (told,) = json.loads(chiplog("groups", "describe", group, "-o", "json").stdout)
    return {one["partition"]: one["currentOffset"] for one in told["partitions"]}


def test_a_group_with_a_member(
    broker: StandaloneBroker, chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic(2)
    chiplog("produce", name, "--partition=0", stdin="a\nb\nc\n")
    with consuming(broker, name, "active"):
        assert "active" in chiplog("groups", "list").stdout.splitlines()
        (told,) = json.loads(chiplog("groups", "describe", "active", "-o", "json").stdout)
        assert told["state"] == "Stable"
        assert [one["clientId"] for one in told["members"]] == ["reader"]
        assert [(one["partition"], one["logEndOffset"]) for one in told["partitions"]] == [
            (0, 3),
            (1, 0),
        ]
        header, line = chiplog("groups", "describe", "active", "--state").stdout.splitlines()
        assert header.split() == [
            *("GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
        ]
        assert line.split() == ["active", broker.bootstrap, "(1)", "range", "Stable", "1"]
        _, line = chiplog(
            "groups", "describe", "active", "--members", "--verbose"
        ).stdout.splitlines()
        assert line.split()[-1] == f"{name}:0,1"
        refused = chiplog("groups", "reset", "active", "--all-topics", "--to-earliest", "--execute")
        assert refused.exit_code == 1
        assert "is inactive, but the current state is Stable: stop its" in refused.stderr
        refused = chiplog("groups", "delete", "active")
        assert refused.exit_code == 1
        assert "(NON_EMPTY_GROUP): stop its consumers first" in refused.stderr
        looks = chiplog("top", "--interval=100ms", "--iterations=1", "-o", "json").stdout
        (mine,) = [one for one in json.loads(looks)["groups"] if one["group"] == "active"]
        assert (mine["state"], mine["members"]) == ("Stable", 1)


def test_reset_plans_and_then_does_it(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(2)
    chiplog("produce", name, "--partition=0", stdin="a\nb\nc\n")
    planned = chiplog("groups", "reset", "moved", "--topic", name, "--to-latest")
    assert planned.stdout.splitlines() == [
        f"GROUP  TOPIC{' ' * (len(name) - 3)}PARTITION  NEW-OFFSET",
        f"moved  {name}  0          3",
        f"moved  {name}  1          0",
    ]
    assert planned.stderr == "Nothing was changed. Add --execute to carry out the reset.\n"
    assert chiplog("groups", "describe", "moved").exit_code == 1
    for options, expected in (
        (["--topic", name, "--to-latest"], {0: 3, 1: 0}),
        (["--all-topics", "--shift-by", "-2"], {0: 1, 1: 0}),
        (["--topic", f"{name}:0", "--to-offset", "99"], {0: 3, 1: 0}),
        (["--all-topics", "--to-earliest"], {0: 0, 1: 0}),
        (["--all-topics", "--to-datetime", "2200-01-01"], {0: 3, 1: 0}),
        (["--all-topics", "--by-duration", "P1D"], {0: 0, 1: 0}),
        (["--all-topics", "--to-current"], {0: 0, 1: 0}),
    ):
        done = chiplog("groups", "reset", "moved", *options, "--execute", "-o", "json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["executed"] is True
        assert offsets(chiplog, "moved") == expected
    assert chiplog("groups", "delete", "moved").stdout == "Deleted consumer group moved.\n"
    gone = chiplog("groups", "delete", "moved")
    assert gone.exit_code == 1
    assert "(GROUP_ID_NOT_FOUND): `chiplog groups list` shows all groups" in gone.stderr


def test_a_group_consumes_on_where_it_was(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    """Nothing twice and nothing left out, however often it begins."""
    name = topic()
    chiplog("produce", name, stdin="".join(f"{number}\n" for number in range(7)))
    read = []
    for count in (3, 2, 2):
        given = ("--group=reading", "--from-beginning", f"--max-messages={count}")
        lines = chiplog("consume", name, *given, "--timeout-ms=30000").stdout.splitlines()
        assert len(lines) == count
        read += [line.rpartition("\t")[2] for line in lines]
    assert read == [str(number) for number in range(7)]
    assert offsets(chiplog, "reading") == {0: 7}
    chiplog("groups", "delete", "reading")


def test_a_group_that_is_not_there(chiplog: Chiplog) -> None:
    refused = chiplog("groups", "describe", "nobody")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "chiplog: Consumer group 'nobody' does not exist: `chiplog groups list` shows all groups\n"
    )
