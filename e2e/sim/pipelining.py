"""A producer with several batches on their way to a partition, as Java's idempotent one.

They go out in the order of their sequence numbers, on one connection. What was not answered, or
refused for now, is sent again in that order before anything new is. A batch that comes before
an earlier one was stored is told OUT_OF_ORDER_SEQUENCE_NUMBER: that is right, and it is sent
again. The first that is not answered yet may never be told so: all before it is stored.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.records.batch import Codec
from chiplog_broker.records.writer import Producer as ProducerState
from e2e.sim.clients import DUPLICATE, FOR_GOOD, LOST_STATE, Producer
from e2e.sim.history import Kind
from e2e.sim.wire import TopicPartition


@dataclass(eq=False, slots=True)
class Flight:
    """One batch that is not answered for good."""

    values: list[str]
    batch: bytes
    attempts: int = 0
    answer: "asyncio.Task[tuple[int, int]] | None" = None


class PipeliningProducer(Producer):
    """Up to `habits.in_flight` batches at once."""

    async def write(self, partition: TopicPartition) -> None:
        """Until it is to stop, or the partition's topic was deleted."""
        number, longest_s = 0, self._longest_s()
        codec = self._codec()
        while not self._is_over(partition):
            state = await self._new_state()
            number = await self._write_as(partition, state, number, codec, longest_s)

    def _is_over(self, partition: TopicPartition) -> bool:
        return self.is_stopping or self.notebook.is_deleted(partition)

    async def _write_as(
        self,
        partition: TopicPartition,
        state: ProducerState,
        number: int,
        codec: Codec,
        longest_s: float,
    ) -> int:
        """With one producer id, until it may not go on with it; the number of the next value."""
        flights: deque[Flight] = deque()
        try:
            while flights or not self._is_over(partition):
                if self.notebook.is_deleted(partition):
                    break
                if not self._is_over(partition) and len(flights) < self.habits.in_flight:
                    values, batch = self._new_batch(partition, number, state, codec)
                    number += len(values)
                    state = after(state, len(values))
                    flights.append(self._send_off(partition, Flight(values, batch)))
                if not await self._settle(partition, flights):
                    break
                is_full = len(flights) == self.habits.in_flight
                if not is_full and self.chance.random() < 1 / self.habits.in_flight:
                    await self._pause(self.chance.uniform(0.0, longest_s * self.crowding))
        finally:
            for one in flights:
                if one.answer is not None:
                    one.answer.cancel()
        return number

    def _send_off(self, partition: TopicPartition, flight: Flight) -> Flight:
        """Tasks begin in the order in which they were made, and a request is written at once."""
        flight.attempts += 1
        attempt = self._attempt(partition, flight.batch)
        flight.answer = asyncio.get_running_loop().create_task(attempt)
        return flight

    async def _settle(self, partition: TopicPartition, flights: deque[Flight]) -> bool:
        """Take the answers that are there; whether this producer id may go on.

        Waits where as many are on their way as may be.
        """
        is_full = len(flights) >= self.habits.in_flight or self._is_over(partition)
        if flights and is_full:
            assert flights[0].answer is not None
            await asyncio.wait({flights[0].answer})
        while flights and flights[0].answer is not None and flights[0].answer.done():
            error, offset = flights[0].answer.result()
            if error in {0, DUPLICATE}:
                self._stored(partition, flights.popleft().values, offset)
            elif not self._may_come_again(partition, flights[0], error):
                return False
            else:
                await self._send_again(partition, flights)
        return True

    def _may_come_again(self, partition: TopicPartition, first: Flight, error: int) -> bool:
        """What was answered to the first: all before it is acknowledged."""
        if self.notebook.is_deleted(partition):
            return False
        if error in LOST_STATE:
            what = f"{self.name} was told {ErrorCode(error).name} for {first.values[0]}"
            self.notebook.problems.append(f"{what}, t={self.notebook.now_s():.3f}")
            return False
        if error in FOR_GOOD:
            for one in first.values if first.attempts == 1 else ():
                self.notebook.note(Kind.FAILED, self.name, partition, one)
            return False
        return True

    async def _send_again(self, partition: TopicPartition, flights: deque[Flight]) -> None:
        """All that is left, once nothing of it is on its way any more: the first alone, and the
        others after its answer."""
        await asyncio.wait({one.answer for one in flights if one.answer is not None})
        await self.back_off()
        kept = list(flights)
        # An answer to one behind the first says that it is stored, as the first is by then.
        self._send_off(partition, kept[0])
        assert kept[0].answer is not None
        await asyncio.wait({kept[0].answer})
        error, _ = kept[0].answer.result()
        if error in {0, DUPLICATE}:
            for one in kept[1:]:
                if one.answer is None or one.answer.result()[0] not in {0, DUPLICATE}:
                    self._send_off(partition, one)


def after(state: ProducerState, count: int) -> ProducerState:
    """The next batch begins where this one ends."""
    return ProducerState(
        producer_id=state.producer_id,
        epoch=state.epoch,
        base_sequence=state.base_sequence + count,
    )
