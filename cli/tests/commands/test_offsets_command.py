"""`chiplog offsets get` against a real broker."""

import json
from collections.abc import Callable

from tests.commands.program import Chiplog


def test_offsets(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(3)
    chiplog("produce", name, "--partition", "1", stdin="a\nb\n")
    assert chiplog("offsets", "get", name).stdout == f"{name}:0:0\n{name}:1:2\n{name}:2:0\n"
    assert chiplog("offsets", "get", f"{name}:1-2", "--time", "earliest").stdout == (
        f"{name}:1:0\n{name}:2:0\n"
    )
    assert chiplog("offsets", "get", name, "--time", "1970-01-01").stdout == f"{name}:1:0\n"
    assert chiplog("offsets", "get", name, "--time", "max-timestamp").stdout in {
        f"{name}:1:0\n",
        f"{name}:1:1\n",
    }
    told = json.loads(chiplog("offsets", "get", name, "--time", "2200-01-01", "-o", "json").stdout)
    assert [one["offset"] for one in told] == [None, None, None]


def test_of_all_topics(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    first, second = topic(), topic()
    lines = chiplog("offsets", "get", "--exclude-internal-topics").stdout.splitlines()
    assert {f"{first}:0:0", f"{second}:0:0"} <= set(lines)
    assert not any(line.startswith("__") for line in lines)


def test_a_partition_that_is_not_there(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(2)
    refused = chiplog("offsets", "get", f"{name}:7")
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"chiplog: topic '{name}' has no partition 7: its partitions are 0 to 1\n"
    )
