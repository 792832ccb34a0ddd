"""A consumer with `isolation.level=read_committed`."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from chiplog_wire.records.control import read_marker
from chiplog_wire.records.reader import read_records
from e2e.sim.clients import OUT_OF_RANGE, Client
from e2e.sim.transactions.history import Piece, Stable
from e2e.sim.wire import MAX_BYTES, UNREACHED, TopicPartition, batches_in, named

REREADS: Final = 0.03
"""Share of fetches before which a reader begins again at a random offset."""
ASKS: Final = 0.3
"""Share of fetches after which it asks for the last stable offset."""
PIECES_BYTES: Final = (300, 3_000, MAX_BYTES)


class CommittedReader(Client):
    """Reads partitions from 0 on, and parts of them again, from leaders or from the replicas in
    its rack."""

    rack = ""
    is_stopping = False

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        """Read all these partitions until stopped, one after the other."""
        positions = dict.fromkeys(partitions, 0)
        read_at: dict[TopicPartition, int] = {}
        while not self.is_stopping:
            for one in partitions:
                if self.chance.random() < REREADS:
                    positions[one] = self.chance.randint(0, positions[one])
                try:
                    is_well = await self._read(one, positions, read_at)
                except UNREACHED as error:
                    self.notebook.error(type(error).__name__)
                    is_well = False
                if not is_well:
                    read_at.pop(one, None)
                    await self.back_off()
            await asyncio.sleep(self.chance.uniform(0.0, 0.5))

    async def _read(
        self,
        partition: TopicPartition,
        positions: dict[TopicPartition, int],
        read_at: dict[TopicPartition, int],
    ) -> bool:
        """Fetch once; False if that failed. Raises one of `UNREACHED`."""
        leader, epoch = self.wire.leaders.get(partition), self.wire.epochs.get(partition)
        at = self.wire.address(read_at.get(partition, -1 if leader is None else leader))
        if at is None:
            return False
        piece, broker_id = await self.fetch(at, partition, positions[partition])
        if piece is None:
            return False
        if broker_id >= 0:
            read_at[partition] = broker_id
        positions[partition] = piece.to_offset
        leader_at = self.wire.leader(partition)
        if self.chance.random() < ASKS and leader_at is not None:
            error, offset = await self.wire.offset(leader_at, partition)
            is_current = (leader, epoch) == (
                self.wire.leaders.get(partition),
                self.wire.epochs.get(partition),
            )
            if not error and is_current:
                noted = Stable(self.notebook.now_s(), self.name, str(partition), offset)
                self.notebook.history.transactions.stables.append(noted)
        return True

    async def fetch(
        self, at: tuple[str, int], partition: TopicPartition, offset: int
    ) -> tuple[Piece | None, int]:
        """What one fetch gives, noted in the history, and the preferred read replica or -1.

        None after an error. Raises one of `UNREACHED`.
        """
        size_bytes = self.chance.choice(PIECES_BYTES)
        answers = await self.wire.fetch_parts(at, {partition: offset}, size_bytes, self.rack)
        ((_, answer),) = answers
        broker_id = int(getattr(answer, "preferred_read_replica", -1))
        if answer.error_code:
            if int(answer.error_code) == OUT_OF_RANGE and not self.rack:
                self.notebook.problems.append(f"{self.name} was out of range at {offset}")
            return None, -1
        records, to_offset = committed_in(answer, offset)
        piece = Piece(
            at_s=self.notebook.now_s(),
            reader=self.name,
            partition=str(partition),
            from_offset=offset,
            to_offset=to_offset,
            records=tuple(records),
            stable=int(answer.last_stable_offset),
            high_watermark=int(answer.high_watermark),
        )
        if to_offset > offset:
            self.notebook.history.transactions.pieces.append(piece)
        return piece, broker_id


def committed_in(answer: Any, offset: int) -> tuple[list[tuple[int, str]], int]:
    """The records that a consumer delivers of a partition's part of a Fetch response, from `offset`
    on, and the offset of the next fetch.

    As Kafka's clients do, it skips the records of a producer from the first offset of its aborted
    transaction up to the marker. Raises `CorruptBatchError`.
    """
    aborted = sorted(
        (
            (int(one.first_offset), int(one.producer_id))
            for one in answer.aborted_transactions or ()
        ),
        reverse=True,
    )
    skipped: set[int] = set()
    found: list[tuple[int, str]] = []
    for header, batch in batches_in(bytes(answer.records or b"")):
        while aborted and aborted[-1][0] <= header.last_offset:
            skipped.add(aborted.pop()[1])
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.is_commit:
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found += [
                (one.offset, named(one).decode())
                for one in read_records(batch, header)
                if one.offset >= offset
            ]
        offset = max(offset, header.last_offset + 1)
    return found, offset
