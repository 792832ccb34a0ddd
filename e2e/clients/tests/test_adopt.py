"""What a log directory tells about its partitions."""

from pathlib import Path

from e2e.kafka.adopt import Stored, stored
from e2e.kafka.process import read_properties

TOPIC_ID = "CpgTYXXIRlmZBskHdy8s-A"


def make_partition(logs: Path, name: str, epochs: str | None) -> None:
    directory = logs / name
    directory.mkdir()
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    if epochs is not None:
        (directory / "leader-epoch-checkpoint").write_text(epochs)


def test_partitions_with_their_last_epoch(tmp_path: Path) -> None:
    make_partition(tmp_path, "orders-eu-0", "0\n2\n3 0\n7 120\n")
    make_partition(tmp_path, "orders-eu-11", "0\n0\n")
    make_partition(tmp_path, "orders-eu-2", None)
    (tmp_path / "not-a-partition").mkdir()
    assert list(stored(tmp_path)) == [
        Stored(TOPIC_ID, "orders-eu", 0, leader_epoch=7),
        Stored(TOPIC_ID, "orders-eu", 11, leader_epoch=0),
        Stored(TOPIC_ID, "orders-eu", 2, leader_epoch=0),
    ]


def test_what_is_being_deleted_is_no_partition(tmp_path: Path) -> None:
    """Such a directory is named `topic-partition.id-delete`."""
    make_partition(tmp_path, "orders-0.2f6a-delete", None)
    assert list(stored(tmp_path)) == []


def test_properties_without_comments(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("#\n#Sat Nov 21\nnode.id=1\n\ncluster.id=a=b\n")
    assert read_properties(path) == {"node.id": "1", "cluster.id": "a=b"}
