"""Healthy logs of any shape, as hypothesis makes them, and what their leader would tell of them."""

import hashlib

from hypothesis import strategies as st

from chiplog_spark.verify.covered import Covered, Range
from chiplog_spark.verify.facts import (
    Batch,
    EpochHistory,
    EpochStart,
    PartitionFacts,
    ReplicaFacts,
)
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.peers import Peers

NOW_MS = 1_700_000_000_000
REPLICAS = (1, 2, 3)
Log = list[Batch]


def batch(base: int, count: int, epoch: int = 0, replica: int = 1, salt: bytes = b"") -> Batch:
    digest = hashlib.sha256(b"%d %d %d " % (base, count, epoch) + salt).digest()
    return Batch(
        replica=replica,
        base_offset=base,
        last_offset=base + count - 1,
        leader_epoch=epoch,
        stored_crc=base * 7 + 1,
        computed_crc=base * 7 + 1,
        size_bytes=61 + 10 * count,
        record_count=count,
        attributes=0,
        max_timestamp_ms=NOW_MS - 1_000_000 + base,
        digest=digest,
    )


@st.composite
def logs(draw: st.DrawFn, min_batches: int = 1) -> Log:
    """Batches of one replica: offsets without holes, epochs that rise, from any start."""
    sizes = draw(
        st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=min_batches, max_size=14)
    )
    offset, epoch, found = draw(st.integers(0, 50)), draw(st.integers(0, 5)), []
    for count, rises in sizes:
        epoch += rises
        found.append(batch(offset, count, epoch))
        offset += count
    return found


def copies(log: Log, replicas: tuple[int, ...] = REPLICAS) -> dict[int, Log]:
    return {broker: [one._replace(replica=broker) for one in log] for broker in replicas}


TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAg"


def facts_of(log: Log, replicas: tuple[int, ...] = REPLICAS) -> PartitionFacts:
    starts: list[EpochStart] = []
    for one in log:
        if not starts or starts[-1].epoch != one.leader_epoch:
            starts.append(EpochStart(one.leader_epoch, one.base_offset))
    start = log[0].base_offset
    return PartitionFacts(
        topic="orders",
        partition=0,
        leader=replicas[0],
        start_offset=start,
        end_offset=log[-1].last_offset + 1,
        epochs=EpochHistory(tuple(starts)),
        replicas=tuple(
            ReplicaFacts(broker=one, in_sync=True, start_offset=start) for one in replicas
        ),
        topic_id=TOPIC_ID,
        planned_ms=NOW_MS,
        retention_ms=7 * 86_400_000,
    )


def judged(
    facts: PartitionFacts, stored: dict[int, Log], covered: dict[int, list[Range]] | None = None
) -> list[Finding]:
    """What comes out where these batches are read; all of them, where not said otherwise."""
    whole = {
        one.broker: [Range(one.broker, one.start_offset, facts.end_offset)]
        for one in facts.replicas
        if one.broker in stored
    }
    ranges = {broker: Covered(found) for broker, found in (covered or whole).items()}
    peers = Peers(facts, ranges)
    rows = sorted(
        (one for log in stored.values() for one in log),
        key=lambda one: (one.base_offset, one.replica),
    )
    found = [finding for row in rows for finding in peers.check_next(row)]
    return [*found, *peers.finish()]


def named(findings: list[Finding]) -> list[tuple[str, int, int]]:
    """Check, offset and replica of each."""
    return [(one.check.value, one.offset, one.replica) for one in findings]
