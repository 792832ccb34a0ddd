"""Tests of Kafka's own command line tools, run by their scripts, with their complete output."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.first_hour.lesson import Lesson, NewTopic, Place, Start
from e2e.clients.group_member import have_read
from e2e.clients.group_members import KafkaPythonMember
from e2e.clients.topics import end_offsets
from e2e.cluster.kubectl import eventually
from e2e.cluster.shell import run
from e2e.kafka.tools import scripts
from e2e.kafka.topic_lines import described

LIMIT_S = 90
AT_ONCE = 2
SETTLE_LIMIT_S = 30
BUSY_MACHINE_MS = "30000"
"""Longer than ConsumerGroupCommand's default of 5 s, which is too short on a busy machine."""
RECORDS = 200
GROUP_COLUMNS = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
STATE_COLUMNS = "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS"
MEMBER_COLUMNS = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS"
RESET_COLUMNS = "GROUP TOPIC PARTITION NEW-OFFSET"
CONFIG_LINE = re.compile(
    r"  (?P<name>[a-z.]+)=(?P<value>\S+) sensitive=false"
    r" synonyms=\{(?P<synonyms>[A-Z_]+:[a-z.]+=\S+(?:, [A-Z_]+:[a-z.]+=\S+)*)\}"
)

Tool = Callable[..., str]


def together(*calls: Callable[[], str]) -> list[str]:
    """Make the calls two at a time, as each starts a JVM; returns what each printed, in order."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [one.result() for one in [pool.submit(call) for call in calls]]


def table(printed: str) -> tuple[str, list[list[str]]]:
    """Header and rows of a printed table; the header's columns are separated by single blanks."""
    lines = [line.split() for line in printed.splitlines()]
    first = next(n for n, line in enumerate(lines) if line[:1] == ["GROUP"])
    return " ".join(lines[first]), [line for line in lines[first + 1 :] if line]


class TestKafkasTools(Lesson):
    """Kafka's TopicCommand, GetOffsetShell, ConsumerGroupCommand, ConfigCommand, consoles."""

    @pytest.fixture
    def tool(self, place: Place, tmp_path: Path) -> Tool:
        """A function (script, arguments) that runs one of Kafka's scripts and returns its
        output."""
        scripts(tmp_path)

        def call(
            name: str, *arguments: str, input_text: str | None = None, check: bool = True
        ) -> str:
            command = (str(tmp_path / name), "--bootstrap-server", place.bootstrap, *arguments)
            return run(*command, input_text=input_text, check=check, timeout_s=LIMIT_S).strip("\n")

        return call

    def test_topics(self, place: Place, tool: Tool, doomed_topic: str) -> None:
        topic = ("--topic", doomed_topic)
        replicas = str(place.replicas)
        created = tool(
            *("kafka-topics.sh", "--create", *topic, "--partitions", "6"),
            *("--replication-factor", replicas, "--config", "cleanup.policy=compact"),
        )
        assert created == f"Created topic {doomed_topic}."
        head, lines = described(tool("kafka-topics.sh", "--describe", *topic))
        assert head.group("name", "partitions", "replicas") == (doomed_topic, "6", replicas)
        assert "cleanup.policy=compact" in head["configs"].split(",")
        assert [one["number"] for one in lines] == [str(n) for n in range(6)]
        for one in lines:
            has = one["replicas"].split(",")
            assert len(has) == place.replicas
            assert one["leader"] in has
            assert set(one["isr"].split(",")) <= set(has)

        tool("kafka-topics.sh", "--alter", *topic, "--partitions", "12")

        def has_twelve() -> bool:
            head, lines = described(tool("kafka-topics.sh", "--describe", *topic))
            return (head["partitions"], len(lines)) == ("12", 12)

        eventually("there are twelve partitions", has_twelve, SETTLE_LIMIT_S)
        tool("kafka-topics.sh", "--delete", *topic)

        def is_gone() -> bool:
            return doomed_topic not in tool("kafka-topics.sh", "--list").splitlines()

        eventually("the topic is gone", is_gone, SETTLE_LIMIT_S)

    def test_offsets(self, place: Place, tool: Tool, new_topic: NewTopic) -> None:
        topic = new_topic(3)
        place.produce(topic, RECORDS)
        ends = end_offsets(place.bootstrap, topic, range(3))
        assert sum(ends) == RECORDS
        latest, earliest, one = together(
            lambda: tool("kafka-get-offsets.sh", "--topic", topic),
            lambda: tool("kafka-get-offsets.sh", "--topic", topic, "--time", "earliest"),
            lambda: tool("kafka-get-offsets.sh", "--topic", topic, "--partitions", "1"),
        )
        assert latest.split() == [f"{topic}:{n}:{end}" for n, end in enumerate(ends)]
        assert earliest.split() == [f"{topic}:{n}:0" for n in range(3)]
        assert one == f"{topic}:1:{ends[1]}"

    def test_groups(self, place: Place, tool: Tool, new_topic: NewTopic, start: Start) -> None:
        topic = new_topic(1)
        place.produce(topic, RECORDS)
        of_group = ("--group", topic)
        groups = ("kafka-consumer-groups.sh", "--timeout", BUSY_MACHINE_MS)
        describe = (*groups, "--describe", *of_group)
        reset = (*groups, "--reset-offsets", *of_group, "--topic", topic, "--to-offset", "7")
        member = start(KafkaPythonMember, topic, topic)
        have_read([member], RECORDS)
        listed, offsets, state, members, refused = together(
            lambda: tool(*groups, "--list"),
            lambda: tool(*describe),
            lambda: tool(*describe, "--state"),
            lambda: tool(*describe, "--members"),
            lambda: tool(*reset, "--execute", check=False),
        )
        assert topic in listed.split()
        header, ((group, *row, consumer_id, host, client_id),) = table(offsets)
        assert header == GROUP_COLUMNS
        assert (group, *row) == (topic, topic, "0", str(RECORDS), str(RECORDS), "0")
        assert consumer_id.startswith(f"{client_id}-")
        assert re.fullmatch(r"/[\d.:a-f]+", host)
        header, ((group, coordinator, number, strategy, is_now, count),) = table(state)
        assert header == STATE_COLUMNS
        assert (group, strategy, is_now, count) == (topic, "range", "Stable", "1")
        assert re.fullmatch(r"\S+:\d+ \(\d+\)", f"{coordinator} {number}")
        header, (row,) = table(members)
        assert (header, row) == (MEMBER_COLUMNS, [topic, consumer_id, host, client_id, "1"])
        assert "the current state is Stable" in refused.replace("but ", "")

        member.stop()
        state, planned = together(
            lambda: tool(*describe, "--state"), lambda: tool(*reset, "--dry-run")
        )
        assert table(state)[1][0][-2:] == ["Empty", "0"]
        plan = (RESET_COLUMNS, [[topic, topic, "0", "7"]])
        assert table(planned) == plan
        offsets = tool(*describe)
        assert f"Consumer group '{topic}' has no active members." in offsets
        no_member = ["-", "-", "-"]
        row = [topic, topic, "0", str(RECORDS), str(RECORDS), "0"]
        assert table(offsets) == (GROUP_COLUMNS, [[*row, *no_member]]), "a dry run changes nothing"
        assert table(tool(*reset, "--execute")) == plan
        row[3:] = ["7", str(RECORDS), str(RECORDS - 7)]
        assert table(tool(*describe)) == (GROUP_COLUMNS, [[*row, *no_member]])

        again = start(KafkaPythonMember, topic, topic)
        have_read([again], RECORDS - 7)
        assert again.read[0] == (0, 7)
        again.stop()
        deleted = tool(*groups, "--delete", *of_group)
        assert deleted == f"Deletion of requested consumer groups ('{topic}') was successful."
        assert topic not in tool(*groups, "--list").split()

    def test_configs(self, tool: Tool, new_topic: NewTopic) -> None:
        topic = new_topic(1)
        of_topic = ("kafka-configs.sh", "--topic", topic)
        changed = tool(*of_topic, "--alter", "--add-config", "retention.ms=60000")
        assert changed == f"Completed updating config for topic {topic}."

        def retention() -> list[str]:
            first, *lines = tool(*of_topic, "--describe").splitlines()
            assert first == f"Dynamic configs for topic {topic} are:"
            found = [CONFIG_LINE.fullmatch(line) for line in lines]
            assert all(found), lines
            of_retention = [one for one in found if one and one["name"] == "retention.ms"]
            for one in of_retention:
                own, *_ = one["synonyms"].split(", ")
                assert own == f"DYNAMIC_TOPIC_CONFIG:retention.ms={one['value']}"
            return [one["value"] for one in of_retention]

        eventually("retention.ms is set", lambda: retention() == ["60000"], SETTLE_LIMIT_S)
        tool(*of_topic, "--alter", "--delete-config", "retention.ms")
        eventually("retention.ms is not set", lambda: retention() == [], SETTLE_LIMIT_S)

    def test_consoles(self, place: Place, tool: Tool, new_topic: NewTopic) -> None:
        topic = new_topic(1)
        Librdkafka().produce(place.bootstrap, topic, [Record(b"without a key")])
        tool(
            *("kafka-console-producer.sh", "--topic", topic),
            *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
            input_text="customer-7:anchor\ncustomer-7:rope\n",
        )
        shown = [
            word
            for name in ("partition", "offset", "key")
            for word in ("--formatter-property", f"print.{name}=true")
        ]
        consume = ("kafka-console-consumer.sh", "--topic", topic, "--max-messages", "3", *shown)
        by_policy = [
            (*consume, "--group", f"{topic}-{policy}", *options)
            for policy, options in {
                "earliest": ("--from-beginning",),
                "none": ("--command-property", "auto.offset.reset=none"),
            }.items()
        ]
        earliest, none = together(
            *(lambda words=words: tool(*words, check=False) for words in by_policy)
        )
        # Before these lines Kafka's consumer prints the available group protocols.
        assert earliest.splitlines()[-4:] == [
            "Partition:0\tOffset:0\tnull\twithout a key",
            "Partition:0\tOffset:1\tcustomer-7\tanchor",
            "Partition:0\tOffset:2\tcustomer-7\trope",
            "Processed a total of 3 messages",
        ]
        assert "NoOffsetForPartitionException" in none
        assert "Partition:" not in none
