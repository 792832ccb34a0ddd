"""A producer with several batches on their way to a partition, as Java's idempotent one.

They go out in the order of their sequence numbers. What was not answered, or refused for now, is
sent again in that order before anything new is. A batch that arrives before an earlier one was
stored is answered with OUT_OF_ORDER_SEQUENCE_NUMBER: that is right, and it is sent again. One
that was sent when all before it was acknowledged may never be answered so.

The first batch of a producer id goes alone: a leader that does not know the id yet takes any
sequence number, as Kafka's does, so a later batch that arrived first would begin. The first after
a long pause does, too: leaders forget a producer that is idle. Here each batch may have a
connection of its own; Java's producer has one for all, on which none overtakes another.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from chiplog_wire.records.batch import Codec
from chiplog_wire.records.writer import Producer as ProducerState
from e2e.sim.clients import DUPLICATE, FOR_GOOD, LOST_STATE, Answer, Producer
from e2e.sim.history import Kind
from e2e.sim.wire import TopicPartition

LONG_PAUSE_S: Final = 1.0
"""No leader forgets a producer that has been idle for less, nor lets go of its last records."""


@dataclass(eq=False, slots=True)
class Flight:
    """One batch that is not answered for good."""

    values: list[str]
    batch: bytes
    attempts: int = 0
    answer: "asyncio.Task[Answer] | None" = None
    was_first: bool = False
    """Whether all before it was acknowledged when it was sent the last time."""


class PipeliningProducer(Producer):
    """Up to `habits.in_flight` batches at once."""

    async def write(self, partition: TopicPartition) -> None:
        """Write to the partition until stopped, or until its topic was deleted."""
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
        """Write with one producer id, as long as it may be used; returns the number of the next
        value."""
        flights: deque[Flight] = deque()
        most, answered_s = 1, self.notebook.now_s()
        try:
            while flights or not self._is_over(partition):
                if self.notebook.is_deleted(partition):
                    break
                most = self._most(flights, most, answered_s)
                if not self._is_over(partition) and len(flights) < most:
                    values, batch = self._new_batch(partition, number, state, codec)
                    number += len(values)
                    state = after(state, len(values))
                    flights.append(Flight(values, batch))
                    self._send_off(partition, flights[-1], flights)
                is_full = len(flights) >= most or self._is_over(partition)
                if not await self._settle(partition, flights, is_full=is_full):
                    break
                if not flights:
                    most, answered_s = self.habits.in_flight, self.notebook.now_s()
                if len(flights) < most and self.chance.random() < 1 / most:
                    pause_s = longest_s * self.crowding * most
                    seconds = self.chance.uniform(0.0, pause_s)
                    if not await self._pause_among(partition, flights, seconds):
                        break
        finally:
            for one in flights:
                if one.answer is not None:
                    one.answer.cancel()
        return number

    def _most(self, flights: deque[Flight], most: int, answered_s: float) -> int:
        """How many may be on their way."""
        has_paused = not flights and self.notebook.now_s() - answered_s > LONG_PAUSE_S
        return 1 if has_paused else most

    def _send_off(self, partition: TopicPartition, flight: Flight, flights: deque[Flight]) -> None:
        """Tasks begin in the order in which they were made, and write to an open connection at
        once."""
        flight.attempts += 1
        flight.was_first = flight is flights[0]
        attempt = self._attempt(partition, flight.batch)
        flight.answer = asyncio.get_running_loop().create_task(attempt)

    async def _settle(
        self, partition: TopicPartition, flights: deque[Flight], *, is_full: bool
    ) -> bool:
        """Take the answers that are there; whether this producer id may go on.

        Waits for one where as many are on their way as may be.
        """
        if flights and is_full:
            assert flights[0].answer is not None
            await asyncio.wait({flights[0].answer})
        while flights and flights[0].answer is not None and flights[0].answer.done():
            answer = flights[0].answer.result()
            if answer.error in {0, DUPLICATE}:
                self._stored(partition, flights.popleft().values, answer.offset)
            elif not self._may_come_again(partition, flights[0], answer):
                return False
            else:
                await self._send_again(partition, flights)
        return True

    async def _pause_among(
        self, partition: TopicPartition, flights: deque[Flight], seconds: float
    ) -> bool:
        """As `_pause`. What is refused meanwhile is sent again: Java's sender does not wait for
        the application's next record, which would then be the first to arrive."""
        pause = asyncio.get_running_loop().create_task(self._pause(seconds))
        try:
            while not pause.done():
                first = [one.answer for one in flights if one.answer is not None][:1]
                await asyncio.wait({pause, *first}, return_when=asyncio.FIRST_COMPLETED)
                if not await self._settle(partition, flights, is_full=False):
                    return False
        finally:
            pause.cancel()
        return True

    def _may_come_again(self, partition: TopicPartition, first: Flight, answer: Answer) -> bool:
        """What was answered to the first of all that are left."""
        if self.notebook.is_deleted(partition):
            return False
        if answer.error in LOST_STATE and not first.was_first:
            return True
        if answer.error in LOST_STATE:
            self._sequence_refused(partition, first.values, answer)
            return False
        if answer.error in FOR_GOOD:
            for one in first.values if first.attempts == 1 else ():
                self.notebook.note(Kind.FAILED, self.name, partition, one)
            return False
        return True

    async def _send_again(self, partition: TopicPartition, flights: deque[Flight]) -> None:
        """All that is left, once nothing of it is on its way any more: the first alone, and the
        others when that is stored."""
        await asyncio.wait({one.answer for one in flights if one.answer is not None})
        await self.back_off()
        first = flights[0]
        self._send_off(partition, first, flights)
        assert first.answer is not None
        await asyncio.wait({first.answer})
        answer = first.answer.result()
        if answer.error not in {0, DUPLICATE}:
            return
        self._stored(partition, flights.popleft().values, answer.offset)
        for one in flights:
            if one.answer is None or one.answer.result().error not in {0, DUPLICATE}:
                self._send_off(partition, one, flights)


def after(state: ProducerState, count: int) -> ProducerState:
    """The next batch begins where this one ends."""
    return ProducerState(
        producer_id=state.producer_id,
        epoch=state.epoch,
        base_sequence=state.base_sequence + count,
    )
