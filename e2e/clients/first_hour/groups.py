"""Consumers of four libraries in groups: partitions are shared, and nobody starts over."""

from collections.abc import Callable, Iterator

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.group_member import GroupMember, wait_shared, wait_until
from e2e.clients.group_members import MEMBERS, CooperativeMember, KafkaPythonMember
from e2e.kafka.process import BrokerProcess
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

RECORDS = 200
EACH_CLIENT = pytest.mark.parametrize("kind", MEMBERS, ids=lambda one: one.name.replace(", ", "-"))

Start = Callable[[type[GroupMember], str, str], GroupMember]


@pytest.fixture
def start(broker: BrokerProcess) -> Iterator[Start]:
    """Starts members, of (library, group, topic), that have left when the test ends."""
    made: list[GroupMember] = []

    def one_more(kind: type[GroupMember], group_id: str, topic: str) -> GroupMember:
        made.append(kind(broker.bootstrap, group_id, topic).start())
        return made[-1]

    yield one_more
    for one in made:
        one.ending.set()
    for one in made:
        one.stop()


def produce(broker: BrokerProcess, topic: str, count: int = RECORDS) -> None:
    """Spread by their keys."""
    records = [Record(b"value %d" % n, b"key %d" % n) for n in range(count)]
    Librdkafka().produce(broker.bootstrap, topic, records)


def have_read(members: list[GroupMember], count: int) -> None:
    wait_until(f"{count} records are read", members, lambda: count_of(members) >= count)


def count_of(members: list[GroupMember]) -> int:
    return sum(len(one.read) for one in members)


@EACH_CLIENT
def test_a_member_that_comes_back_goes_on_where_it_was(
    kind: type[GroupMember], broker: BrokerProcess, new_topic: Callable[[int], str], start: Start
) -> None:
    topic = new_topic(4)
    produce(broker, topic)
    first = start(kind, topic, topic)
    have_read([first], RECORDS)
    first.stop()
    produce(broker, topic)
    second = start(kind, topic, topic)
    have_read([second], RECORDS)
    read = [*first.read, *second.read]
    assert len(read) == len(set(read)) == 2 * RECORDS, "nothing twice, nothing left out"


@EACH_CLIENT
def test_partitions_are_shared_anew_as_members_come_and_go(
    kind: type[GroupMember], new_topic: Callable[[int], str], start: Start
) -> None:
    topic = new_topic(4)
    members = [start(kind, topic, topic) for _ in range(2)]
    assert wait_shared(members, 4) == [2, 2]
    members.append(start(kind, topic, topic))
    assert wait_shared(members, 4) == [2, 1, 1]
    members.pop(0).stop()
    assert wait_shared(members, 4) == [2, 2]


def test_members_beyond_the_partitions_rest(new_topic: Callable[[int], str], start: Start) -> None:
    topic = new_topic(8)
    members = [start(KafkaPythonMember, topic, topic) for _ in range(10)]

    def most_have_one() -> bool:
        owned = sorted(len(one.assigned or ()) for one in members)
        return owned == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]

    wait_until("eight have one each", members, most_have_one)


def test_groups_do_not_know_of_each_other(
    broker: BrokerProcess, new_topic: Callable[[int], str], start: Start
) -> None:
    topic = new_topic(2)
    produce(broker, topic)
    members = [
        start(KafkaPythonMember, f"{topic}-first", topic),
        start(CooperativeMember, f"{topic}-second", topic),
    ]
    for one in members:
        have_read([one], RECORDS)
        assert len(set(one.read)) == len(one.read) == RECORDS


def test_what_kafkas_tool_says_and_does(
    broker: BrokerProcess, new_topic: Callable[[int], str], start: Start
) -> None:
    topic = new_topic(1)
    produce(broker, topic)
    member = start(KafkaPythonMember, topic, topic)
    have_read([member], RECORDS)

    def tool(*arguments: str) -> str:
        command = ("kafka-consumer-groups.sh", "--bootstrap-server", broker.bootstrap)
        return run_tool(*command, *arguments)

    assert topic in tool("--list").split()
    (line,) = described(tool("--describe", "--group", topic), topic)
    assert line[1:6] == [topic, "0", str(RECORDS), str(RECORDS), "0"]
    assert "Stable" in tool("--describe", "--group", topic, "--state")
    reset = ("--reset-offsets", "--group", topic, "--topic", topic, "--to-offset", "7")
    assert "current state is Stable" in tool(*reset, "--execute")
    member.stop()
    assert "Empty" in tool("--describe", "--group", topic, "--state")
    (line,) = described(tool(*reset, "--dry-run"), topic)
    assert line == [topic, topic, "0", "7"]
    (line,) = described(tool("--describe", "--group", topic), topic)
    assert line[3] == str(RECORDS), "a dry run changes nothing"
    tool(*reset, "--execute")
    (line,) = described(tool("--describe", "--group", topic), topic)
    assert line[3:6] == ["7", str(RECORDS), str(RECORDS - 7)]
    again = start(KafkaPythonMember, topic, topic)
    have_read([again], RECORDS - 7)
    assert again.read[0] == (0, 7)
    again.stop()
    assert "successful" in tool("--delete", "--group", topic)
    assert topic not in tool("--list").split()


def described(printed: str, group_id: str) -> list[list[str]]:
    """The lines about partitions, split into their columns."""
    return [line.split() for line in printed.splitlines() if line.startswith(f"{group_id} ")]
