"""kafka-dump-log.sh reads the segments without complaint and prints what was sent."""

import re
from pathlib import Path

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import CODECS, Record
from e2e.clients.subject import subject
from e2e.clients.topics import create_topic
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

COMPLAINTS = ("isvalid: false", "Found timestamp mismatch", "Index position", "exception", "ERROR")
RECORD_LINE = re.compile(r"\| offset: (\d+) .* key: (\S+) payload: (\S+)")
# Small segments, so that some are rolled and indexes have more than one entry.
SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """The directory of a partition after its broker has stopped, and what was written to it."""
    records = []
    with subject()(tmp_path_factory.mktemp("dumped")) as broker:
        create_topic(broker.bootstrap, "orders", 1, SEGMENTS)
        for codec in CODECS:
            some = [Record(f"{codec}-{n:05}".encode() * 20, b"key") for n in range(4000)]
            Librdkafka().produce(broker.bootstrap, "orders", some, codec)
            records += some
        broker.stop()
    return broker.logs / "orders-0", records


def test_segments_hold_what_was_sent(partition: tuple[Path, list[Record]]) -> None:
    directory, records = partition
    segments = sorted(directory.glob("*.log"))
    assert len(segments) > 1
    printed = dump(*segments, "--deep-iteration", "--print-data-log")
    lines = RECORD_LINE.findall(printed)
    assert [int(offset) for offset, _, _ in lines] == list(range(len(records)))
    assert [(key.encode(), value.encode()) for _, key, value in lines] == [
        (one.key, one.value) for one in records
    ]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_indexes_agree_with_the_segments(partition: tuple[Path, list[Record]], kind: str) -> None:
    """The tool holds each entry against the segment beside it."""
    directory, _ = partition
    indexes = sorted(directory.glob(f"*.{kind}"))
    printed = dump(*indexes)
    entries = [line for line in printed.splitlines() if re.match(r"(offset|timestamp): \d+ ", line)]
    assert len(entries) > len(indexes), printed


def test_producer_snapshots_can_be_read(partition: tuple[Path, list[Record]]) -> None:
    directory, _ = partition
    snapshots = sorted(directory.glob("*.snapshot"))
    assert snapshots
    assert "producerId: " in dump(*snapshots)


def dump(*words: Path | str) -> str:
    """What the tool prints of these files, with options; none of it is a complaint."""
    files = ",".join(str(one) for one in words if isinstance(one, Path))
    options = [one for one in words if isinstance(one, str)]
    printed = run_tool("kafka-dump-log.sh", "--files", files, *options)
    assert [line for line in printed.splitlines() if any(c in line for c in COMPLAINTS)] == []
    return printed
