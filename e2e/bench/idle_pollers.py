"""Consumers that wait for records which never come: `python -m e2e.bench.idle_pollers`.

It is a process of its own, so that the rest of the bench does not slow it down. Arguments: host,
port, number of pollers, wait in milliseconds, and the topics with their partitions, as `name:100`.
Each poller is a connection with a fetch session (KIP-227) of all partitions, as Java's consumer has
it. The program prints a line when all of them wait in their sessions. When its standard input is
closed, it prints the number of answers that came since then.

It encodes the protocol itself: 200 real consumers would need too much memory.
"""

import asyncio
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass

FETCH, VERSION = 1, 11
# FULL is the session epoch that asks for a new session with all partitions.
FULL, MAX_BYTES, PARTITION_BYTES = 0, 50 * 2**20, 2**20
NEVER = -1
HEADER = struct.Struct(">hhih")
# replica id, max wait, min bytes, max bytes, isolation level, session id, session epoch
LIMITS = struct.Struct(">iiiibii")
# partition, leader epoch, fetch offset, log start offset, max bytes
PARTITION = struct.Struct(">iiqqi")
NO_FORGOTTEN_TOPICS_NO_RACK = struct.pack(">ih", 0, 0)
# correlation id, throttle time, error code, session id
ANSWER = struct.Struct(">iihi")

Topics = Mapping[str, int]


@dataclass(slots=True)
class Count:
    """Number of answers that all pollers got in their sessions."""

    answers: int = 0


def request(
    session: tuple[int, int],
    topics: Topics,
    wait_ms: int,
    partition_bytes: int = PARTITION_BYTES,
) -> bytes:
    """A Fetch request with its length, which adds all partitions of `topics` from offset 0 on.

    `session` is (session id, session epoch). Empty `topics` fetch what the session already has.
    `partition_bytes` is wanted of each partition at most.
    """
    parts = [
        HEADER.pack(FETCH, VERSION, 1, -1),
        LIMITS.pack(NEVER, wait_ms, 1, MAX_BYTES, 0, *session),
        struct.pack(">i", len(topics)),
    ]
    for name, partitions in topics.items():
        parts.append(struct.pack(">h", len(name)) + name.encode())
        parts.append(struct.pack(">i", partitions))
        parts += [
            PARTITION.pack(index, NEVER, 0, NEVER, partition_bytes) for index in range(partitions)
        ]
    parts.append(NO_FORGOTTEN_TOPICS_NO_RACK)
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


class Poller:
    """A consumer that only fetches, on a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.session_id = 0
        self.epoch = FULL

    async def poll(self, topics: Topics, wait_ms: int) -> None:
        """Fetch once in the poller's session; the first time, the broker creates the session.

        Raises `RuntimeError` for an error, or for an answer without a session (session id 0).
        """
        self.writer.write(request((self.session_id, self.epoch), topics, wait_ms))
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        _, _, code, session_id = ANSWER.unpack_from(await self.reader.readexactly(size))
        if code or not session_id:
            raise RuntimeError(f"Fetch was answered with error {code}, session {session_id}")
        self.session_id = session_id
        self.epoch += 1

    async def poll_on(self, wait_ms: int, count: Count) -> None:
        """Fetch again and again until the task is cancelled; counts the answers."""
        while True:
            await self.poll({}, wait_ms)
            count.answers += 1


async def run(host: str, port: int, pollers: int, wait_ms: int, topics: Topics) -> int:
    """Poll until standard input is closed; returns the number of answers."""
    all_of_them = [Poller(*await asyncio.open_connection(host, port)) for _ in range(pollers)]
    for one in all_of_them:
        # The first answer of a session contains all partitions; after the second one it reports
        # only changes, of which there are none.
        await one.poll(topics, 1)
        await one.poll({}, 1)
    count = Count()
    polling = [asyncio.create_task(one.poll_on(wait_ms, count)) for one in all_of_them]
    print("waiting", flush=True)
    ending = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([ending, *polling], return_when=asyncio.FIRST_COMPLETED)
    for task in polling:
        if task.done():
            task.result()
        task.cancel()
    return count.answers


if __name__ == "__main__":
    named = (word.partition(":") for word in sys.argv[5:])
    wanted = {name: int(partitions) for name, _, partitions in named}
    host, (port, pollers, wait_ms) = sys.argv[1], map(int, sys.argv[2:5])
    print(asyncio.run(run(host, port, pollers, wait_ms, wanted)))
