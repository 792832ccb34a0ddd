"""What `down` says, and whose state `--forget` deletes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from e2e.cluster import cli, layout
from e2e.cluster.console import console
from e2e.cluster.target import Kind, Local


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What a cluster of ours has stored; stopping one does nothing."""
    directory = tmp_path / "state"
    (directory / "etcd").mkdir(parents=True)
    monkeypatch.setattr(layout, "STATE", directory)
    for target in (Local, Kind):
        monkeypatch.setattr(target, "down", lambda _self: None)
    return directory


def down(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, ["down", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_what_it_stored_stays_and_that_is_said(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(console, "print", said.append)
    monkeypatch.setenv("CLUSTER", "local")
    down()
    assert state.exists()
    assert said == [
        f"{state} keeps the stored data: `make cluster-down FORGET=1` (--forget) deletes it"
    ]


def test_forget_deletes_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "local")
    down("--forget")
    assert not state.exists()


def test_another_cluster_has_nothing_of_ours_to_forget(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER", "kind")
    down("--forget")
    assert state.exists()
