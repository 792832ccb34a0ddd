"""A producer with several batches on their way to a partition, as Java's idempotent one.

Batches are sent in the order of their sequence numbers. A batch without an answer, or with a
retriable error, is sent again in that order before any new one. A batch that arrives before an
earlier one was stored gets OUT_OF_ORDER_SEQUENCE_NUMBER: that is correct, and it is sent again. If
all earlier batches were acknowledged when a batch was sent, it must never get this error.

The first batch of a producer id is sent alone: a leader that does not know the id yet accepts any
sequence number, as Kafka's does, so a later batch that arrived first would be stored first. So is
the first batch after a long pause, because leaders forget idle producers. Here each batch may use
another connection; Java's producer has one for all, on which no batch overtakes another.
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
"""No leader forgets a producer that has been idle for less than this, or deletes its last
records."""


@dataclass(eq=False, slots=True)
class Flight:
    """One batch that was sent and has no final answer yet."""

    values: list[str]
    batch: bytes
    attempts: int = 0
    answer: "asyncio.Task[Answer] | None" = None
    was_first: bool = False
    """Whether all earlier batches were acknowledged when this one was last sent."""


class PipeliningProducer(Producer):
    """An idempotent producer with up to `habits.in_flight` batches in flight per partition."""

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
        """Write with one producer id until it may not be used any more.

        `number` is the running number of the next value, and so is the returned one. A pause
        between two batches is up to `longest_s` long if there are few partitions.
        """
        flights: deque[Flight] = deque()
        most, answered_s = 1, self.notebook.now_s()
        try:
            while flights or not self._is_over(partition):
                if self.notebook.is_deleted(partition):
                    break
                most = self._allowed_in_flight(flights, most, answered_s)
                if not self._is_over(partition) and len(flights) < most:
                    values, batch = self._new_batch(partition, number, state, codec)
                    number += len(values)
                    state = after(state, len(values))
                    flights.append(Flight(values, batch))
                    self._start_sending(partition, flights[-1], flights)
                is_full = len(flights) >= most or self._is_over(partition)
                if not await self._process_answers(partition, flights, is_full=is_full):
                    break
                if not flights:
                    most, answered_s = self.habits.in_flight, self.notebook.now_s()
                # Pauses are `most` times as long, so they are as many times rarer: the average rate
                # does not depend on `most`.
                if len(flights) < most and self.chance.random() < 1 / most:
                    pause_s = longest_s * self.crowding * most
                    seconds = self.chance.uniform(0.0, pause_s)
                    if not await self._pause_and_resend(partition, flights, seconds):
                        break
        finally:
            for one in flights:
                if one.answer is not None:
                    one.answer.cancel()
        return number

    def _allowed_in_flight(self, flights: deque[Flight], most: int, answered_s: float) -> int:
        """How many batches may be in flight: one after a long pause, else `most`."""
        has_paused = not flights and self.notebook.now_s() - answered_s > LONG_PAUSE_S
        return 1 if has_paused else most

    def _start_sending(
        self, partition: TopicPartition, flight: Flight, flights: deque[Flight]
    ) -> None:
        """Start sending a batch, without waiting for its answer.

        Tasks start in the order of their creation and write to an open connection at once, so
        batches are sent in order.
        """
        flight.attempts += 1
        flight.was_first = flight is flights[0]
        attempt = self._attempt(partition, flight.batch)
        flight.answer = asyncio.get_running_loop().create_task(attempt)

    async def _process_answers(
        self, partition: TopicPartition, flights: deque[Flight], *, is_full: bool
    ) -> bool:
        """Process the answers that have come, oldest batch first.

        With `is_full` it waits for the oldest one's answer. Returns False if this producer id must
        not be used any more.
        """
        if flights and is_full:
            assert flights[0].answer is not None
            await asyncio.wait({flights[0].answer})
        while flights and flights[0].answer is not None and flights[0].answer.done():
            answer = flights[0].answer.result()
            if answer.error in {0, DUPLICATE}:
                self._stored(partition, flights.popleft().values, answer.offset)
            elif not self._may_resend(partition, flights[0], answer):
                return False
            else:
                await self._send_again(partition, flights)
        return True

    async def _pause_and_resend(
        self, partition: TopicPartition, flights: deque[Flight], seconds: float
    ) -> bool:
        """Pause as `_pause`, and send refused batches again in the meantime.

        Java's producer does so, too: it does not wait until the application sends the next record.
        Returns False if this producer id must not be used any more.
        """
        pause = asyncio.get_running_loop().create_task(self._pause(seconds))
        try:
            while not pause.done():
                first = [one.answer for one in flights if one.answer is not None][:1]
                await asyncio.wait({pause, *first}, return_when=asyncio.FIRST_COMPLETED)
                if not await self._process_answers(partition, flights, is_full=False):
                    return False
        finally:
            pause.cancel()
        return True

    def _may_resend(self, partition: TopicPartition, first: Flight, answer: Answer) -> bool:
        """Whether the oldest batch in flight may be sent again after this answer, an error.

        Notes its records as failed if it certainly was not stored.
        """
        if self.notebook.is_deleted(partition):
            return False
        if answer.error in LOST_STATE and not first.was_first:
            return True
        if answer.error in LOST_STATE:
            self._sequence_refused(partition, first.values, answer)
            return False
        if answer.error in FOR_GOOD:
            # Of several attempts an earlier one may have been stored.
            for one in first.values if first.attempts == 1 else ():
                self.notebook.note(Kind.FAILED, self.name, partition, one)
            return False
        return True

    async def _send_again(self, partition: TopicPartition, flights: deque[Flight]) -> None:
        """Wait until every batch has its answer, then send them again: first the oldest alone,
        and the others once it is stored."""
        await asyncio.wait({one.answer for one in flights if one.answer is not None})
        await self.back_off()
        first = flights[0]
        self._start_sending(partition, first, flights)
        assert first.answer is not None
        await asyncio.wait({first.answer})
        answer = first.answer.result()
        if answer.error not in {0, DUPLICATE}:
            return
        self._stored(partition, flights.popleft().values, answer.offset)
        for one in flights:
            if one.answer is None or one.answer.result().error not in {0, DUPLICATE}:
                self._start_sending(partition, one, flights)


def after(state: ProducerState, count: int) -> ProducerState:
    """The producer state for the batch that follows one of `count` records."""
    return ProducerState(
        producer_id=state.producer_id,
        epoch=state.epoch,
        base_sequence=state.base_sequence + count,
    )
