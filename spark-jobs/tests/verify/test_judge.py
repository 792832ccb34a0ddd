"""The second stage and the last word: what is told, what meanwhile happened explains."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.spark_result import MAX_ACCUSED, Check
from chiplog_spark.verify import job
from chiplog_spark.verify.accused import accused
from chiplog_spark.verify.facts import UNKNOWN, Batch, PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.inspection import BatchInspector, Wanted
from chiplog_spark.verify.judge import After, Judge, Verdict, confirmed, figures
from chiplog_spark.verify.merging import merged
from chiplog_spark.verify.reports import Found, Read, Refusal
from chiplog_spark.verify.rows import ORDER, Kind, Row, row_of_batch, row_of_record
from chiplog_spark.verify.surviving import Surviving, Suspicion
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

from .logs import REPLICAS, TOPIC_ID, Log, batch, copies, facts_of, logs, named

ALL = frozenset(Check)
LOG = [batch(0, 5), batch(5, 5), batch(10, 5)]
FACTS = facts_of(LOG)
PLACE = (FACTS.topic, FACTS.partition)
IN_SYNC = {PLACE: After(in_sync=frozenset(REPLICAS))}


def read_of(replica: int, end: int = 15, **more: object) -> Read:
    whole = Read(topic="orders", partition=0, replica=replica, start=0, end=end, planned_end=15)
    for name, value in more.items():
        setattr(whole, name, value)
    return whole


def row_of(read: Read) -> Row:
    where = read.topic, read.partition, b"", Kind.READ, read.start, read.replica
    return Row(*where, text=read.to_json())


def judged(
    facts: PartitionFacts,
    rows: list[Row],
    after: dict[tuple[str, int], After] | None = None,
    checks: frozenset[Check] = ALL,
    limit: int = 100,
) -> Verdict:
    """As the two stages do it, with a sort for the exchange."""
    judge = Judge({PLACE: facts}, checks)
    ordered = sorted(rows, key=lambda row: tuple(getattr(row, at) for at in ORDER))
    for told in merged(ordered, {PLACE: facts}, limit):
        if isinstance(told, Read):
            judge.add_read(told)
        else:
            judge.add_found(Found.from_json(told.to_json()))
    return judge.verdict(IN_SYNC if after is None else after)


def rows_of(stored: dict[int, Log], *reads: Read) -> list[Row]:
    batches = [row_of_batch("orders", 0, one) for log in stored.values() for one in log]
    return batches + [row_of(one) for one in reads or [read_of(one) for one in stored]]


@given(logs())
def test_a_healthy_partition(log: Log) -> None:
    facts, stored = facts_of(log), copies(log)
    start, end = facts.start_offset, facts.end_offset
    reads = [read_of(one, end, start=start, planned_end=end, records=7) for one in stored]
    verdict = judged(facts, rows_of(stored, *reads))
    assert (verdict.findings, verdict.total, verdict.suspects) == ([], 0, {})
    assert verdict.coverage == {
        "topics": 1,
        "partitions": 1,
        "replicas": 3,
        "records": 21,
        "bytes": 0,
    }


def test_a_tail_counts_only_while_the_replica_is_in_sync() -> None:
    stored = copies(LOG)
    del stored[2][1:]
    assert named(judged(FACTS, rows_of(stored)).findings) == [("TruncatedTail", 5, 2)]
    left = {PLACE: After(in_sync=frozenset({1, 3}))}
    assert judged(FACTS, rows_of(stored), left).findings == []
    deleted = {PLACE: After(in_sync=frozenset(REPLICAS), start_offsets={2: 15})}
    assert judged(FACTS, rows_of(stored), deleted).findings == []


def test_a_hole_that_retention_made_in_the_meantime() -> None:
    stored = copies(LOG)
    del stored[3][0]
    after = {PLACE: After(in_sync=frozenset(REPLICAS), start_offsets={1: 0, 2: 0, 3: 5})}
    assert judged(FACTS, rows_of(stored), after).findings == []
    assert named(judged(FACTS, rows_of(stored)).findings) == [("MissingSegment", 0, 3)]


def test_only_checks_that_are_wanted() -> None:
    stored = copies(LOG)
    stored[1][1] = stored[1][1]._replace(computed_crc=0)
    assert judged(FACTS, rows_of(stored), checks=frozenset({Check.TIMESTAMP})).total == 0
    assert judged(FACTS, rows_of(stored), checks=frozenset({Check.CRC})).total == 1


def test_a_limit_reports_the_first_and_counts_all() -> None:
    stored = copies(LOG)
    stored[2] = [one._replace(computed_crc=0) for one in stored[2]]
    verdict = judged(FACTS, rows_of(stored), limit=1)
    assert named(verdict.findings) == [("Crc", 0, 2)]
    assert verdict.total == 3
    summary = {"coverage": verdict.coverage, "figures": figures([], seconds=1.0, cores=1)}
    result = job.result_of_findings(verdict.findings, verdict.counts, summary)
    assert result.violations_total == 3
    assert result.summary["byCheck"] == [{"check": "Crc", "count": 3}]


def test_a_replica_that_refuses_is_reported_and_one_that_is_damaged_accused() -> None:
    stored = copies(LOG)
    del stored[2][1:], stored[3][1:]
    damaged = read_of(2, 5, refusal=Refusal("ReplicaDamaged", 5, "it says so"))
    gone = read_of(3, 5, refusal=Refusal("Unreachable", 5, "nobody answers"))
    verdict = judged(FACTS, rows_of(stored, read_of(1), damaged, gone))
    assert named(verdict.findings) == [("Crc", 5, 2)]
    assert [(one["replica"], one["offset"]) for one in verdict.refused] == [(2, 5), (3, 5)]
    assert {one["topicId"] for one in verdict.refused} == {TOPIC_ID}


def records_rows(stored: dict[int, list[Surviving]]) -> list[Row]:
    return [row_of_record("orders", 0, one) for log in stored.values() for one in log] + [
        row_of(read_of(one)) for one in stored
    ]


def test_a_suspicion_needs_two_reads_and_whole_ones() -> None:
    facts = replace(FACTS, compacts=True)
    record = {one: [Surviving(b"k", 3, one, b"v", is_tombstone=False)] for one in (1, 3)}
    stored = {**record, 2: []}
    first = judged(facts, records_rows(stored))
    assert set(first.suspects) == {(PLACE, Suspicion(b"k", 3, 2))}
    assert first.findings == []
    again = judged(facts, records_rows(stored))
    assert named(confirmed(first, again)) == [("ReplicaMismatch", 3, 2)]
    newer = {one: [Surviving(b"k", 9, one, b"w", is_tombstone=False)] for one in REPLICAS}
    assert confirmed(first, judged(facts, records_rows(newer))) == []
    cut = [row for row in records_rows(stored) if not (row.kind == Kind.READ and row.replica == 2)]
    assert judged(facts, [*cut, row_of(read_of(2, 4, was_cut=True))]).suspects == {}


def test_an_older_value_counts_only_if_the_clean_point_stayed() -> None:
    cleaned = tuple(replace(one, clean_offset=10) for one in FACTS.replicas)
    facts = replace(FACTS, compacts=True, replicas=cleaned)
    log = [Surviving(b"k", at, 1, b"v", is_tombstone=False) for at in (3, 4)]
    stored = {one: [each._replace(replica=one) for each in log] for one in REPLICAS}
    del stored[2][0], stored[3][0]
    after = After(in_sync=frozenset(REPLICAS), clean_offsets=dict.fromkeys(REPLICAS, 12))
    verdict = judged(facts, records_rows(stored), {PLACE: after})
    assert named(verdict.findings) == [("CompactionOrder", 3, 1)]
    assert verdict.skipped == []
    # Fetched anew while it was read: it has to be compacted first.
    anew = replace(after, clean_offsets={1: 0})
    assert judged(facts, records_rows(stored), {PLACE: anew}).findings == []
    silent = replace(FACTS, compacts=True)
    verdict = judged(silent, records_rows(stored), {PLACE: after})
    assert verdict.findings == []
    assert [one["check"] for one in verdict.skipped] == ["CompactionOrder"]


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=30))
def test_what_a_batch_says_of_its_records(keys: list[bytes]) -> None:
    records = [NewRecord(b"v", key, 1_000 + at) for at, key in enumerate(keys)]
    data = memoryview(build_batch(records, BatchOptions(base_offset=3)))
    header = read_header(data)
    one = Batch(
        1, 3, header.last_offset, 0, 1, 1, len(data), len(keys), 0, header.max_timestamp_ms, b""
    )
    facts = replace(FACTS, partitions=4, compacts=True, end_offset=10_000)
    read = read_of(1)
    looker = BatchInspector(facts, Wanted(checks=ALL, partitioners=("murmur2", "crc32")), read)
    compared = looker.inspect(one, header, data)
    assert [each.offset for each in compared] == list(range(3, 3 + len(keys)))
    assert read.findings == []
    assert read.records == len(keys)
    assert read.tally.keyed == sum(1 for key in keys if key), "librdkafka spreads the others"
    assert len(read.misplaced) == read.tally.unplaced
    assert Read.from_json(read.to_json()) == read
    newer = one._replace(max_timestamp_ms=one.max_timestamp_ms + 1)
    looker.inspect(newer, header, data)
    assert named(read.findings) == [("Timestamp", 3, 1)]


def test_a_report_of_a_refusal_survives_its_journey() -> None:
    finding = Finding(Check.OFFSET_GAP, "t", 1, 2, 3, "gone", 9)
    read = read_of(1, refusal=Refusal("NoLeader", 3, "none"), findings=[finding], more={"x": 2})
    assert Read.from_json(read.to_json()) == read
    found = Found(finding=finding, suspicion=Suspicion(b"\xff\x00", 4, 5), more=6)
    assert Found.from_json(found.to_json()) == found


def test_speed_is_that_of_a_core() -> None:
    reads = [read_of(one, bytes=5_000_000, seconds=2.0) for one in (1, 2)]
    told = figures(reads, seconds=2.5, cores=2)
    assert told["megabytesPerSecondPerCore"] == 2.5
    assert told["timeLimitReached"] is False
    assert figures([], seconds=0.0, cores=2)["megabytesPerSecondPerCore"] == 0.0


def test_who_is_accused_is_reported_by_replica_also_where_it_is_not_listed() -> None:
    stored = copies(LOG)
    stored[2] = [one._replace(computed_crc=0) for one in stored[2]]
    stored[3][1] = stored[3][1]._replace(computed_crc=0)
    verdict = judged(FACTS, rows_of(stored), limit=1)
    where = {"topic": "orders", "topicId": TOPIC_ID, "partition": 0, "checks": ["Crc"]}
    assert accused(verdict.accusations, {PLACE: FACTS}) == {
        "accused": [where | {"replica": 2}, where | {"replica": 3}],
        "accusedTotal": 2,
    }


def test_what_a_producer_did_accuses_no_replica() -> None:
    of_all = {(Check.KEY_PLACEMENT, "orders", 0, 2), (Check.TIMESTAMP, "orders", 0, 2)}
    assert accused(of_all, {PLACE: FACTS}) == {"accused": [], "accusedTotal": 0}
    nobody = accused({(Check.REPLICA_MISMATCH, "orders", 0, UNKNOWN)}, {PLACE: FACTS})
    assert "replica" not in nobody["accused"][0]


def test_too_many_are_only_counted() -> None:
    facts = {("orders", index): FACTS for index in range(MAX_ACCUSED + 1)}
    found = accused({(Check.CRC, *place, 2) for place in facts}, facts)
    assert found == {"accused": [], "accusedTotal": MAX_ACCUSED + 1}
