"""Sessions through a real broker: what is told in them is what full fetches tell (KIP-227)."""

import asyncio
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pytest

from chiplog_broker.handlers import session_reading
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none
UNKNOWN = ErrorCode.fetch_session_id_not_found
BY_NAME = 12  # the last version that names topics


class Place(NamedTuple):
    topic: str
    partition: int


class Told(NamedTuple):
    """What a reader knows of a partition after an answer."""

    code: int
    high_watermark: int
    log_start_offset: int
    records: bytes = b""


class Reader:
    """A consumer's side of a session, as KIP-227 describes it."""

    def __init__(self, client: "Client", ids: dict[str, UUID], version: int) -> None:
        self.client = client
        self.ids = ids
        self.version = version
        self.session_id = 0
        self.epoch = 0
        self.wanted: dict[Place, int] = {}
        """Partition -> offset to go on from."""
        self.said: dict[Place, tuple[UUID | None, int]] = {}
        self.told: dict[Place, Told] = {}
        self.size = 0
        """Partitions in the last answer."""

    async def poll(self, **limits: Any) -> int:
        """One fetch in the session; returns the error code of the whole answer."""
        now = {one: (self._id(one), offset) for one, offset in self.wanted.items()}
        is_full = self.epoch == 0
        said = {} if is_full else self.said
        # The same name may mean another topic now: then the old one is forgotten.
        gone = [
            (said[one][0], one) for one in said if one not in now or said[one][0] != now[one][0]
        ]
        changed = [one for one in now if said.get(one) != now[one]]
        if not is_full:
            Random(self.epoch).shuffle(changed)  # noqa: S311 - the seed is the test's
        request = self._request(changed, gone, (self.session_id, self.epoch), **limits)
        answer = await self.client.ask(ApiKey.FETCH, request, self.version)
        if answer.error_code:
            self.epoch, self.said = 0, {}
            return int(answer.error_code)
        self.said = now
        found = self._found(answer)
        self.size = len(found)
        if is_full:
            self.told = found
        else:
            kept = {one: self.told[one]._replace(records=b"") for one in now if one in self.told}
            self.told = kept | found
        self.session_id = answer.session_id
        self.epoch = self.epoch + 1 if self.session_id else 0
        return 0

    async def full(self, **limits: Any) -> dict[Place, Told]:
        """The same asked without a session."""
        request = self._request(list(self.wanted), [], (0, -1), **limits)
        return self._found(await self.client.ask(ApiKey.FETCH, request, self.version))

    def _id(self, one: Place) -> UUID | None:
        return None if self.version == BY_NAME else self.ids[one.topic]

    def _request(
        self,
        places: list[Place],
        gone: list[tuple[UUID | None, Place]],
        session: tuple[int, int],
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
    ) -> Any:
        types = self.client.types(ApiKey.FETCH, self.version)
        values: dict[str, Any] = {
            "max_wait": timedelta(milliseconds=wait_ms),
            "min_bytes": min_bytes,
            "max_bytes": max_bytes,
            "isolation_level": 0,
            "session_id": session[0],
            "session_epoch": session[1],
            "rack_id": "",
        }
        if self.version == BY_NAME:
            values["replica_id"] = -1
        values["topics"] = tuple(
            types.FetchTopic(
                **self._named(one.topic, self._id(one)),
                partitions=(
                    types.FetchPartition(
                        partition=one.partition,
                        current_leader_epoch=-1,
                        fetch_offset=self.wanted[one],
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=1 << 20,
                    ),
                ),
            )
            for one in places
        )
        values["forgotten_topics_data"] = tuple(
            types.ForgottenTopic(**self._named(one.topic, topic_id), partitions=(one.partition,))
            for topic_id, one in gone
        )
        return types.FetchRequest(**values)

    def _named(self, topic: str, topic_id: UUID | None) -> dict[str, Any]:
        return {"topic": topic} if self.version == BY_NAME else {"topic_id": topic_id}

    def _found(self, answer: Any) -> dict[Place, Told]:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return {
            Place(
                topic.topic if self.version == BY_NAME else names[topic.topic_id],
                one.partition_index,
            ): Told(
                int(one.error_code), one.high_watermark, one.log_start_offset, bytes(one.records)
            )
            for topic in answer.responses
            for one in topic.partitions
        }


async def reader_of(
    kit: "Kit", topics: dict[str, int], version: int = 16, client: "Client | None" = None
) -> Reader:
    client = client or await kit.client()
    ids = {name: await client.topic_id(name) for name in topics}
    reader = Reader(client, ids, version)
    reader.wanted = {
        Place(name, index): 0 for name, partitions in topics.items() for index in range(partitions)
    }
    return reader


@pytest.mark.parametrize("version", [16, BY_NAME])
@pytest.mark.parametrize("seed", range(6))
def test_a_session_answers_what_full_fetches_answer(kit: "Kit", seed: int, version: int) -> None:
    """Folded by its reader, in whatever order things happen to its partitions."""
    chance = Random(seed)  # noqa: S311 - the seed is the test's

    async def scenario() -> None:
        async with kit.running(chiplog_durability="PageCache") as client:
            topics = {"orders": 3, "bills": 2}
            for name, partitions in topics.items():
                await client.create(name, partitions)
            reader = await reader_of(kit, topics, version)
            sizes = []
            for _ in range(50):
                await something_happens(chance, client, kit, reader)
                expected = await reader.full()
                code = await reader.poll()
                assert code in (OK, UNKNOWN)
                if code == OK:
                    sizes.append(reader.size)
                    assert {one: reader.told[one] for one in reader.wanted} == expected
            assert min(sizes) == 0, "a session in which nothing happened says something"

    kit.run(scenario)


async def something_happens(chance: Random, client: "Client", kit: "Kit", reader: Reader) -> None:
    """To the broker, or to what the reader wants; often nothing."""
    place = Place(*chance.choice([("orders", 0), ("orders", 1), ("orders", 2), ("bills", 1)]))
    match chance.randrange(8):
        case 0 | 1:
            await client.produce(place.topic, kit.batch(b"x" * 50), partition=place.partition)
        case 2:
            first = Place(place.topic, 0)
            high_watermark = reader.told.get(first, Told(0, 0, 0)).high_watermark
            await client.delete_records(place.topic, chance.randint(0, max(high_watermark, 0)))
        case 3:
            reader.wanted.pop(place, None)
            reader.wanted.setdefault(Place("bills", 0), 0)
        case 4:
            reader.wanted[place] = max(reader.told.get(place, Told(0, 0, 0)).high_watermark, 0)
        case 5:
            reader.wanted[place] = chance.choice([-3, 0, 1, 99])
        case 6 if chance.random() < 0.3:
            await client.delete(place.topic)
            await client.create(place.topic, 3)
            reader.ids[place.topic] = await client.topic_id(place.topic)
        case 6 if chance.random() < 0.2:
            reader.session_id += 1
        case _:
            for one, told in reader.told.items():
                if told.code == OK and one in reader.wanted:
                    reader.wanted[one] = told.high_watermark


def test_nothing_is_checked_again_before_it_changes(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 50)
            reader = await reader_of(kit, {"orders": 50})
            for size in (50, 0, 0):
                assert await reader.poll() == OK
                assert reader.size == size
            (session,) = kit.broker.fetch_sessions
            assert not session.maybe_changed
            await client.produce("orders", kit.batch(b"x"), partition=7)
            assert [(one.topic.name, one.wanted.partition) for one in session.maybe_changed] == [
                (None, 7)
            ]
            await reader.poll()
            assert (reader.size, bool(reader.told[Place("orders", 7)].records)) == (1, True)
            # It is answered until it is asked for from another offset.
            await reader.poll()
            assert reader.told[Place("orders", 7)].records
            reader.wanted[Place("orders", 7)] = 1
            await reader.poll()
            assert reader.size == 0
            assert not session.maybe_changed

    kit.run(scenario)


def test_a_fetch_that_waits_in_a_session_is_woken(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 20)
            reader = await reader_of(kit, {"orders": 20})
            for _ in range(2):
                await reader.poll()
            for index in (3, 4, 3):
                waiting = asyncio.create_task(reader.poll(wait_ms=9000))
                await asyncio.sleep(0.05)
                assert kit.broker.requests.waiting_fetches == 1
                await client.produce("orders", kit.batch(b"y"), partition=index)
                assert await asyncio.wait_for(waiting, 3) == OK
                place = Place("orders", index)
                assert reader.told[place].records
                reader.wanted[place] = reader.told[place].high_watermark
            # What comes is waited for until it is enough, however often it comes.
            waiting = asyncio.create_task(reader.poll(wait_ms=9000, min_bytes=400))
            for _ in range(4):
                await asyncio.sleep(0.02)
                assert not waiting.done()
                await client.produce("orders", kit.batch(b"z" * 50), partition=9)
            assert await asyncio.wait_for(waiting, 3) == OK
            assert len(reader.told[Place("orders", 9)].records) > 400
            # A topic that goes is news too.
            reader.wanted[Place("orders", 9)] = 4
            waiting = asyncio.create_task(reader.poll(wait_ms=9000))
            await asyncio.sleep(0.05)
            await client.delete("orders")
            assert await asyncio.wait_for(waiting, 3) == OK
            assert any(told.code for told in reader.told.values())

    kit.run(scenario)


def test_every_partition_is_answered_if_an_answer_has_space_for_one(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 5)
            for index in range(5):
                for _ in range(3):
                    await client.produce("orders", kit.batch(b"x" * 100), partition=index)
            reader = await reader_of(kit, {"orders": 5})
            read: list[int] = []
            for _ in range(15):
                await reader.poll(max_bytes=1)
                (place,) = [one for one, told in reader.told.items() if told.records]
                read.append(place.partition)
                reader.wanted[place] += 1
            assert sorted(read[:5]) == sorted(read[5:10]) == sorted(read[10:]) == list(range(5))

    kit.run(scenario)


def test_partitions_that_cannot_be_had_do_not_hold_up_the_others(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, each request looks at some of them, and at others the next time."""
    monkeypatch.setattr(session_reading, "MAX_CHANGED_PARTITIONS", 2)

    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            await client.produce("orders", kit.batch(b"x"))
            wanted = [(index, 0) for index in (1, 2, 3, 4, 5, 0)]
            request = client.fetch_request(topic_id, *wanted, max_bytes=0, session=(0, 0))
            session_id = (await client.ask(ApiKey.FETCH, request)).session_id
            assert session_id
            codes: dict[int, int] = {}
            for epoch in range(1, 5):
                request = client.fetch_request(
                    topic_id, wait_ms=60_000, session=(session_id, epoch)
                )
                answer = await client.ask(ApiKey.FETCH, request)
                (topic,) = answer.responses
                assert len(topic.partitions) <= 2
                codes |= {one.partition_index: int(one.error_code) for one in topic.partitions}
            unknown = ErrorCode.unknown_topic_or_partition
            assert codes == {0: OK} | dict.fromkeys(range(1, 6), unknown)

    kit.run(scenario)


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ((0, -1), OK),
        ((77, -1), OK),
        ((77, 1), UNKNOWN),
        ((0, 1), UNKNOWN),
        ((-3, -2), UNKNOWN),
    ],
)
def test_what_is_no_session(kit: "Kit", session: tuple[int, int], code: ErrorCode) -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            topic_id = await client.topic_id("orders")
            request = client.fetch_request(topic_id, (0, 0), session=session)
            answer = await client.ask(ApiKey.FETCH, request)
            assert (answer.error_code, answer.session_id) == (code, 0)
            assert len(answer.responses) == (1 if code is OK else 0)
            assert not list(kit.broker.fetch_sessions)

    kit.run(scenario)


def test_sessions_end_when_they_are_replaced_closed_or_left_empty(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            reader = await reader_of(kit, {"orders": 2})
            await reader.poll()
            first = reader.session_id
            # A full fetch that names it ends it, and may begin another.
            reader.epoch = 0
            await reader.poll()
            assert reader.session_id not in (0, first)
            assert len(kit.broker.fetch_sessions) == 1
            wanted, reader.wanted = reader.wanted, {}
            await reader.poll()
            assert reader.session_id == 0
            reader.wanted = wanted
            await reader.poll()
            closing = reader._request([], [], (reader.session_id, -1))
            answer = await client.ask(ApiKey.FETCH, closing)
            assert (answer.error_code, answer.session_id) == (OK, 0)
            assert not len(kit.broker.fetch_sessions)
            assert await reader.poll() == UNKNOWN

    kit.run(scenario)


def test_a_fetch_that_was_overtaken_says_so(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            reader = await reader_of(kit, {"orders": 2})
            for _ in range(2):
                await reader.poll()
            slow = asyncio.create_task(reader.poll(wait_ms=300))
            await asyncio.sleep(0.05)
            (session,) = kit.broker.fetch_sessions
            other = Reader(await kit.client(), reader.ids, reader.version)
            other.session_id, other.epoch, other.said = session.id, session.epoch, reader.said
            other.wanted = reader.wanted
            assert await other.poll() == OK
            assert await slow == ErrorCode.invalid_fetch_session_epoch
            assert await other.poll() == OK

    kit.run(scenario)


def test_a_connection_has_one_session_and_takes_it_along(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            sessions = kit.broker.fetch_sessions
            reader = await reader_of(kit, {"orders": 2})
            other = await reader_of(kit, {"orders": 2}, 16, reader.client)
            await reader.poll()
            await other.poll()
            assert [one.id for one in sessions] == [other.session_id]
            assert await reader.poll() == UNKNOWN
            # Over another connection it goes on, and the old one may go.
            old, other.client = other.client, await kit.client()
            assert await other.poll() == OK
            old.writer.close()
            await old.writer.wait_closed()
            assert await other.poll() == OK
            other.client.writer.close()
            async with asyncio.timeout(5):
                while len(sessions):  # noqa: ASYNC110 - the broker may notice at any time
                    await asyncio.sleep(0.005)

    kit.run(scenario)


def test_names_and_ids_do_not_mix(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            for first, second in ((16, BY_NAME), (BY_NAME, 16)):
                reader = await reader_of(kit, {"orders": 1}, first, client)
                await reader.poll()
                reader.version = second
                assert await reader.poll() == ErrorCode.fetch_session_topic_id_error

    kit.run(scenario)


def test_slots_are_the_brokers_own_setting_and_metrics_show_them(kit: "Kit") -> None:
    async def scenario() -> None:
        slots = {"max_incremental_fetch_session_cache_slots": "1"}
        async with kit.running(**slots) as client:
            await client.create("orders", 2)
            first = await reader_of(kit, {"orders": 2})
            second = await reader_of(kit, {"orders": 2})
            for reader in (first, second, first, second):
                await reader.poll()
                assert reader.told == await reader.full()
            assert first.session_id != 0
            assert second.session_id == 0
            samples = {
                sample.name: sample.value
                for family in kit.broker.exposition().registry.collect()
                for sample in family.samples
            }
            prefix = "kafka_server_fetchsessioncache"
            assert samples[f"{prefix}_numincrementalfetchsessions"] == 1
            assert samples[f"{prefix}_numincrementalfetchpartitionscached"] == 2
            assert samples[f"{prefix}_incrementalfetchsessionevictions_total"] == 0

    kit.run(scenario)
