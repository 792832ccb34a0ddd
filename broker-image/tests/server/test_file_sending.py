"""Records go from their files to the socket: real sockets, a real broker, slow and deaf clients."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.server import file_sending
from chiplog_broker.storage.log_checks import LogChecks
from chiplog_core.topic_name import INTERNAL_TOPICS
from chiplog_wire.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

PARTITIONS = 3
BATCHES = 6
VALUE_BYTES = 900_000
# More than a socket takes of answers that nobody reads.
PIPELINED = 20


class Sendfile:
    """Counts what goes by `os.sendfile`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent_bytes = 0
        self._real = os.sendfile
        monkeypatch.setattr(os, "sendfile", self)

    def __call__(self, to: int, descriptor: int, position: int, count: int) -> int:
        sent = self._real(to, descriptor, position, count)
        self.sent_bytes += sent
        return sent


@pytest.fixture
def sendfile(monkeypatch: pytest.MonkeyPatch) -> Sendfile:
    return Sendfile(monkeypatch)


async def fill(kit: "Kit", client: "Client") -> Any:
    """A topic with a few megabytes in each partition; a request for all of it."""
    await client.create("orders", PARTITIONS, file_delete_delay_ms="0")
    for number in range(BATCHES):
        for partition in range(PARTITIONS):
            value = bytes([number, partition]) * (VALUE_BYTES // 2)
            await client.produce("orders", kit.batch(value), partition=partition)
    offsets = [(partition, 0) for partition in range(PARTITIONS)]
    return client.fetch_request(
        await client.topic_id("orders"), *offsets, max_bytes=2**30, partition_max_bytes=2**30
    )


async def delete(kit: "Kit", client: "Client") -> None:
    """Delete the topic, its files too."""
    await client.delete("orders")
    directory = kit.broker._directory
    await directory.maintain({})
    assert not list(kit.directory.glob("data/orders-*"))


def records(answer: Any) -> list[bytes]:
    return [one.records for topic in answer.responses for one in topic.partitions]


def open_logs(directory: Path) -> int:
    """How many descriptors of users' segments this process has, deleted ones included."""
    links = Path("/proc/self/fd").iterdir()
    targets = [str(link.readlink()) for link in links if link.is_symlink()]
    logs = [one for one in targets if one.startswith(str(directory)) and ".log" in one]
    return sum(not any(internal in one for internal in INTERNAL_TOPICS) for one in logs)


def test_the_bytes_are_the_same_as_from_memory(
    kit: "Kit", sendfile: Sendfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            request = await fill(kit, client)
            from_files = records(await client.ask(ApiKey.FETCH, request))
            assert sendfile.sent_bytes == sum(map(len, from_files))
            assert sendfile.sent_bytes > PARTITIONS * BATCHES * VALUE_BYTES
            monkeypatch.setattr(file_sending, "SENDFILE_FROM_BYTES", 2**40)
            sendfile.sent_bytes = 0
            assert records(await client.ask(ApiKey.FETCH, request)) == from_files
            assert sendfile.sent_bytes == 0

    kit.run(scenario)


def test_a_client_that_reads_late_gets_everything_in_order(kit: "Kit", sendfile: Sendfile) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            request = await fill(kit, client)
            expected = records(await client.ask(ApiKey.FETCH, request))
            nothing = client.fetch_request(None)
            late = await kit.client()
            for _ in range(PIPELINED):
                await late.send(ApiKey.FETCH, request)
                await late.send(ApiKey.FETCH, nothing)
            await asyncio.sleep(0.2)
            requests = kit.broker.requests
            assert requests.apis[ApiKey.FETCH].latency.total < PIPELINED
            assert requests.unsent_bytes == 0, "what waits in a file takes no memory"
            for _ in range(PIPELINED):
                assert records(await late.receive()) == expected
                assert records(await late.receive()) == []

    kit.run(scenario)


def test_records_that_are_deleted_in_the_meantime_are_sent_whole(
    kit: "Kit", sendfile: Sendfile
) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            request = await fill(kit, client)
            expected = records(await client.ask(ApiKey.FETCH, request))
            late = await kit.client()
            sendfile.sent_bytes = 0
            await late.send(ApiKey.FETCH, request)
            await asyncio.sleep(0.1)
            assert 0 < sendfile.sent_bytes < sum(map(len, expected))
            await delete(kit, client)
            assert open_logs(kit.directory) > 0
            assert records(await late.receive()) == expected
            assert open_logs(kit.directory) == 0

    kit.run(scenario)


def test_a_client_that_leaves_gives_the_files_back(kit: "Kit", sendfile: Sendfile) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            request = await fill(kit, client)
            gone = await kit.client()
            await gone.send(ApiKey.FETCH, request)
            await asyncio.sleep(0.1)
            assert sendfile.sent_bytes
            gone.writer.transport.abort()
            await asyncio.sleep(0.1)
            await delete(kit, client)
            assert open_logs(kit.directory) == 0

    kit.run(scenario)


def test_a_file_that_ends_too_early_ends_the_connection(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer bytes than promised would be filled up with the next answer.

    It was whole when it was read to be checked.
    """
    monkeypatch.setattr(LogChecks, "check_slice", lambda *_: None)

    async def scenario() -> None:
        async with kit.running() as client:
            request = await fill(kit, client)
            (segment,) = kit.directory.glob("data/orders-2/*.log")
            os.truncate(segment, segment.stat().st_size - 1)
            await client.send(ApiKey.FETCH, request)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.receive()

    kit.run(scenario)
