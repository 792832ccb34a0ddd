"""The process: what it says when it cannot start, and how it ends."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chiplog_broker.broker import Broker
from chiplog_broker.main import Addresses, arguments, serve
from chiplog_broker.server.health import Health
from chiplog_core.version import VERSION


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start(directory: Path, config: str | Path = "", **options: str) -> "subprocess.Popen[str]":
    kafka, health, metrics = free_ports(3)
    if isinstance(config, str):
        text = config or f"listeners=PLAINTEXT://127.0.0.1:{kafka}\n"
        config = directory.parent / "server.properties"
        config.write_text(text)
    given = {
        "standalone": str(directory),
        "config": str(config),
        "health-address": f"127.0.0.1:{health}",
        "metrics-address": f"127.0.0.1:{metrics}",
    }
    given |= {key.replace("_", "-"): value for key, value in options.items()}
    arguments = [part for key, value in given.items() for part in (f"--{key}", value)]
    return subprocess.Popen(
        [sys.executable, "-m", "chiplog_broker", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def refusal(process: "subprocess.Popen[str]") -> str:
    """The one line with which a process refuses to start."""
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 2, errors
    lines = [line for line in errors.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, errors
    assert lines[0].startswith("chiplog-broker: ")
    return lines[0]


def wait_for(process: "subprocess.Popen[str]", event: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if f'"event": "{event}"' in line:
            return
    raise AssertionError(f"the broker ended before it was {event}")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("num.partition=3", "num.partitions"),
        ("log.dirs=/data", "log.dirs"),
        ("default.replication.factor=3", "default.replication.factor"),
        ("advertised.listeners=EXTERNAL://a:1", "advertised.listeners"),
    ],
)
def test_a_configuration_that_cannot_be(tmp_path: Path, config: str, said: str) -> None:
    assert said in refusal(start(tmp_path / "d", config))


def test_files_and_addresses_that_cannot_be(tmp_path: Path) -> None:
    absent = tmp_path / "absent.properties"
    assert str(absent) in refusal(start(tmp_path / "d", absent))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "data").write_text("")
    assert "--standalone" in refusal(start(tmp_path / "d"))
    (tmp_path / "d" / "data").unlink()
    assert "--metrics-address" in refusal(start(tmp_path / "d", metrics_address="nowhere"))
    assert "--add-scram" in refusal(start(tmp_path / "d", add_scram="alice"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(start(tmp_path / "d", f"listeners=PLAINTEXT://127.0.0.1:{port}"))
        assert "listeners" in said
        assert str(port) in said
        # The logs were open already: they are closed cleanly all the same.
        assert (tmp_path / "d" / "data" / ".kafka_cleanshutdown").exists()
        said = refusal(start(tmp_path / "d", metrics_address=f"127.0.0.1:{port}"))
        assert str(port) in said
        assert (tmp_path / "d" / "data" / ".kafka_cleanshutdown").exists()


def test_one_directory_one_broker(tmp_path: Path) -> None:
    first = start(tmp_path / "d")
    try:
        wait_for(first, "started")
        assert "in use" in refusal(start(tmp_path / "d"))
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=20)
    assert first.returncode == 0
    assert (tmp_path / "d" / "data" / ".kafka_cleanshutdown").exists()


def test_data_of_another_broker(tmp_path: Path) -> None:
    first = start(tmp_path / "d")
    wait_for(first, "started")
    first.terminate()
    first.communicate(timeout=20)
    assert "belongs to broker 1" in refusal(start(tmp_path / "d", "node.id=2"))
    cluster = tmp_path / "d" / "metadata" / "cluster.json"
    cluster.write_text("{")
    assert "cluster.json" in refusal(start(tmp_path / "d"))


class Recovering(Broker):
    """Is still reading its logs."""

    def __init__(self) -> None:
        self.health = Health()
        self.ended = False

    async def start(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


def test_a_signal_during_recovery_ends_it() -> None:
    health, metrics = free_ports(2)
    broker = Recovering()
    addresses = Addresses(("127.0.0.1", health), ("127.0.0.1", metrics))
    asyncio.run(asyncio.wait_for(serve(broker, addresses), timeout=5))
    assert broker.ended
    assert not broker.health.started


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"chiplog-broker {VERSION}\n"
