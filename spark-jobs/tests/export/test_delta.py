"""An export to a Delta table, read back by its log alone, with a driver killed as it commits."""

import json
import shutil
from datetime import UTC, timedelta
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet
import pytest

from chiplog_core.model.spark_result import Result, ResultState
from e2e.clients.topics import create_topic
from e2e.kafka.jars import jars
from e2e.kafka.process import BrokerProcess
from e2e.spark.topic_rows import Row, stored

from .test_export import EPOCH, FOR_EVER, asked, produce
from .test_killed_driver import LIMIT_S, driver, kill_when, said

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TOPIC = "delta"
JARS = Path(__file__).resolve().parents[2] / "pom.xml"


def submit() -> str:
    """As the image has them, where Spark's own jars are."""
    return f"--jars {','.join(str(one) for one in sorted(jars(JARS).glob('*.jar')))}"


def log_of(table: Path) -> list[dict[str, dict[str, object]]]:
    """Every action of the table's log, in order."""
    return [
        json.loads(line)
        for path in sorted((table / "_delta_log").glob("*.json"))
        for line in path.read_text().splitlines()
    ]


def rows(table: Path) -> list[Row]:
    """What the log says that is in the table: files that were added and not removed."""
    there: dict[str, str] = {}
    for action in log_of(table) if table.exists() else []:
        if "add" in action:
            partition = action["add"]["partitionValues"]
            assert isinstance(partition, dict)
            there[str(action["add"]["path"])] = str(partition["date"])
        if "remove" in action:
            del there[str(action["remove"]["path"])]
    found = []
    for path, date in there.items():
        for one in pyarrow.parquet.ParquetFile(table / unquote(path)).read().to_pylist():
            at = one["timestamp"].astimezone(UTC)
            assert date == f"{at:%Y-%m-%d}"
            found.append(
                Row(
                    partition=one["partition"],
                    offset=one["offset"],
                    timestamp_ms=(at - EPOCH) // timedelta(milliseconds=1),
                    timestamp_type=one["timestampType"],
                    key=one["key"],
                    value=one["value"],
                    headers=tuple((h["key"], h["value"]) for h in one["headers"] or ()),
                )
            )
    return sorted(found, key=lambda row: (row.partition, row.offset))


def test_a_table_has_each_offset_once_however_often_a_commit_is_tried(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, TOPIC, 2, FOR_EVER)
    for partition in range(2):
        produce(broker, TOPIC, partition, range(700))
    target = tmp_path / "raw"
    table, ours = target / TOPIC, target / "_chiplog" / TOPIC
    sizes = {"recordsPerFile": 200, "filesPerCommit": 4}
    request = asked(broker, TOPIC, target, format="delta", **sizes).to_json()
    everything = stored(broker.bootstrap, TOPIC, range(2))

    def ends() -> None:
        with driver(request, tmp_path, submit()) as child:
            assert child.wait(LIMIT_S) == 0, said(tmp_path)

    def has_recorded_the_second() -> bool:
        return any(ours.glob("commits/*2.json"))

    kill_when(has_recorded_the_second, request, tmp_path, submit())
    seen = rows(table)
    assert len(seen) == len(set(seen)) >= 800
    assert set(seen) <= set(everything)
    (staged,) = ours.glob("staging/*2")
    shutil.copytree(staged, tmp_path / "kept")

    ends()
    assert rows(table) == everything
    assert not any(ours.glob("staging/*"))

    # As if it had been killed after the table had the commit, and before that was cleared away.
    shutil.copytree(tmp_path / "kept", staged)
    produce(broker, TOPIC, 1, range(700, 900))
    ends()
    assert rows(table) == stored(broker.bootstrap, TOPIC, range(2))
    assert not any(ours.glob("staging/*"))
    result = Result.from_json((tmp_path / "result.json").read_text(), application="export")
    assert result.state is ResultState.SUCCEEDED
    numbers = [action["txn"]["version"] for action in log_of(table) if "txn" in action]
    assert numbers == [1, 2, 3]
