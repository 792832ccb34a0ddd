"""Where the cluster cannot run it says so in one line, with status 2, and what would work."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster import layout, preflight, target
from e2e.cluster.console import Refused
from e2e.cluster.packages import apt_alone, go_version


def test_without_root_the_two_ways_that_work_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refused, match=r"root.*CLUSTER=kind.*CLUSTER=current"):
        preflight.require_this_machine()


def test_without_apt_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refused, match="apt-get"):
        preflight.require_this_machine()


def test_a_taken_port_is_named_with_its_process() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = layout.Port("127.0.0.1", taken.getsockname()[1], "a test")
        assert f"pid {os.getpid()} (" in preflight.port_owner(port)
    assert not preflight.port_owner(port)


def test_a_port_taken_on_every_address_counts_too() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = layout.Port(layout.DNS_IP, taken.getsockname()[1], "a test")
        assert preflight.port_owner(port)


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"CLUSTER": "minikube"}, "CLUSTER=minikube is unknown: use local, kind or current"),
        ({"CLUSTER": "current"}, "CLUSTER=current needs CONTEXT"),
    ],
)
def test_the_command_prints_one_line_and_ends_with_2(
    environment: dict[str, str], text: str, checkout: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "e2e.cluster", "up"],
        cwd=checkout,
        env={**os.environ, "CONTEXT": "", **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout.startswith(f"cluster: {text}")
    assert len(done.stdout.splitlines()) == 1
    assert not done.stderr


def test_kind_without_an_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "kind")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refused, match="docker"):
        target.current_target().up(fresh=False)


def test_go_version() -> None:
    assert go_version("go version go1.26.8 linux/amd64") == (1, 26)
    assert go_version("nonsense") == (0, 0)


def test_apt_get_is_run_by_one_process_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with apt_alone():
        (lock,) = layout.cache().iterdir()
        with lock.open() as another, pytest.raises(BlockingIOError):
            fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as another:
        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
