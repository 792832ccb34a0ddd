"""CLUSTER=kind, with programs in place of kind and docker that write down how they are called."""

import os
from pathlib import Path

import pytest

from e2e.cluster import layout
from e2e.cluster.images import Image
from e2e.cluster.target import current_target

IMAGE = Image("chiplog/broker", "1-ab")
KIND = """#!/bin/sh
echo "kind $*" >> "$CALLS"
printf 'chiplog-control-plane\\nchiplog-worker\\n'
"""
DOCKER = """#!/bin/sh
echo "docker $*" >> "$CALLS"
case "$*" in
  *chiplog-worker*list*) echo docker.io/chiplog/broker:1-ab ;;
  *import*) echo "with $(cat)" >> "$CALLS" ;;
esac
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file in which calls are written down."""
    for name, text in (("kind", KIND), ("docker", DOCKER)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CLUSTER", "kind")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr(layout, "cache", lambda: tmp_path)
    return tmp_path / "calls"


def test_an_image_is_loaded_into_the_nodes_that_lack_it(calls: Path) -> None:
    IMAGE.archive.parent.mkdir()
    IMAGE.archive.write_text("an archive")

    current_target().load([IMAGE])

    ctr = "docker exec --privileged --interactive chiplog-{} ctr -n k8s.io images {}"
    assert calls.read_text().splitlines() == [
        "kind get nodes --name chiplog",
        ctr.format("control-plane", "list --quiet"),
        ctr.format("control-plane", "import -"),
        "with an archive",
        ctr.format("worker", "list --quiet"),
    ]
