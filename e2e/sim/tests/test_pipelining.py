"""What a producer with several batches on their way does when one is refused."""

import asyncio
import random
from uuid import UUID

from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.writer import Producer as ProducerState
from e2e.sim.clients import Answer, Habits, Notebook
from e2e.sim.loop import SimLoop
from e2e.sim.pipelining import PipeliningProducer
from e2e.sim.wire import TopicPartition

PARTITION = TopicPartition("orders", 0, UUID(int=1))
PAUSE_S = 30.0


class Refused(PipeliningProducer):
    """Its leader refuses every third batch that it is sent, once."""

    def __init__(self, loop: SimLoop) -> None:
        notebook = Notebook(loop.time)
        super().__init__("p1", [], random.Random(1), notebook, Habits(in_flight=5))  # noqa: S311
        self.pause_s = PAUSE_S
        self.sent: list[tuple[float, int]] = []
        """When which sequence number was sent."""
        self.refused: list[tuple[int, int]] = []
        """So many had been sent when which was refused."""
        self.stored = 0
        """The next sequence number."""

    async def back_off(self, longest_s: float = 0.4) -> None:
        await asyncio.sleep(longest_s)

    async def _new_state(self) -> ProducerState:
        return ProducerState(producer_id=1, epoch=0, base_sequence=0)

    async def _attempt(self, partition: TopicPartition, batch: bytes) -> Answer:
        header = read_header(batch)
        self.sent.append((self.notebook.now_s(), header.base_sequence))
        is_refused = len(self.sent) % 3 == 0
        await asyncio.sleep(0.01)
        if is_refused or header.base_sequence != self.stored:
            self.refused.append((len(self.sent), header.base_sequence))
            return Answer(int(ErrorCode.not_leader_or_follower), -1)
        self.stored += header.record_count
        return Answer(0, header.base_sequence)


def test_what_was_refused_is_sent_again_before_anything_new() -> None:
    """As Java's sender does it, which does not wait for the application's next record."""
    loop = SimLoop()
    producer = Refused(loop)

    async def scenario() -> None:
        task = loop.create_task(producer.run([PARTITION]))
        await asyncio.sleep(1200.0)
        producer.is_stopping = True
        await task

    loop.run_until_complete(scenario())
    loop.close()
    assert producer.notebook.problems == []
    assert producer.notebook.history.sequences_refused == []
    assert producer.stored > 50
    times: dict[int, list[float]] = {}
    for at_s, sequence in producer.sent:
        times.setdefault(sequence, []).append(at_s)
    assert max(len(one) for one in times.values()) > 1
    assert max(one[-1] - one[0] for one in times.values()) < PAUSE_S / 10
    assert producer.refused
    for number, sequence in producer.refused:
        assert producer.sent[number][1] <= sequence
