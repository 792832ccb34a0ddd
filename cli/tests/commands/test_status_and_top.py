"""`chiplog status` and `chiplog top` against a real broker."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog, runs


def test_status(chiplog: Chiplog, topic: Callable[..., str], broker: StandaloneBroker) -> None:
    topic(3)
    told = json.loads(chiplog("status", "-o", "json").stdout)
    (one,) = told["brokers"]
    assert one["address"] == broker.bootstrap
    assert one["leaders"] == one["replicas"] == told["partitions"] >= 3
    assert told["offlinePartitions"] == told["underReplicatedPartitions"] == 0
    assert told["clusterId"]
    lines = chiplog("status").stdout.splitlines()
    assert lines[0] == f"Cluster id: {told['clusterId']}"
    assert lines[-1].split()[:2] == ["1", broker.bootstrap]


def test_top_looks_once_more_than_it_shows(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(2)
    chiplog("produce", name, stdin="a\nb\nc\n")
    result = chiplog("top", "--interval", "100ms", "--iterations", "2", "-o", "json")
    looks = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(looks) == 2
    for look in looks:
        (mine,) = [one for one in look["topics"] if one["topic"] == name]
        assert mine == {
            "topic": name,
            "partitions": 2,
            "offline": 0,
            "underReplicated": 0,
            "records": 3,
            "recordsPerSecond": 0.0,
        }


def test_top_in_a_pipe_is_plain_text(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic()
    result = chiplog("top", "--interval", "100ms", "--iterations", "1")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert any(line.startswith(f"{name} ") for line in result.stdout.splitlines())


def test_top_outlives_a_broker_that_is_away(tmp_path: Path) -> None:
    """What was last known is shown with the reason, until the broker is back."""
    broker = StandaloneBroker(tmp_path)
    given = ("--bootstrap-server", broker.bootstrap, "--request-timeout=1s", "-o", "json")
    command = [sys.executable, "-m", "chiplog_cli", "top", "--interval=100ms", *given]
    with broker:
        assert runs({})("topics", "create", "t", *given).exit_code == 0
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            try:
                assert child.stdout is not None
                looks = (json.loads(line) for line in child.stdout)
                assert names(next(looks)) == ["t"]
                broker.stop()
                assert names(next(look for look in looks if is_away(look))) == ["t"]
                broker.start()
                assert names(next(look for look in looks if not is_away(look))) == ["t"]
            finally:
                child.kill()


def names(look: dict[str, Any]) -> list[str]:
    """Of users' topics."""
    return [one["topic"] for one in look["topics"] if not one["topic"].startswith("__")]


def is_away(look: dict[str, Any]) -> bool:
    return any("no answer in time" in one for one in look["remarks"])
