"""A throttled connection is not read, and nothing that it has sent is lost."""

import asyncio

from chiplog_wire.protocol.apis import ApiKey
from tests.server.test_connection import Service, connected, feed, frame, run

FOREVER_S = 1_000.0


def never(_: ApiKey) -> bool:
    return False


def loop_s() -> float:
    return asyncio.get_running_loop().time()


def test_requests_of_a_muted_connection_start_when_its_time_is_over() -> None:
    async def scenario() -> None:
        service = Service(never)
        connection, transport = connected(service)
        connection.peer.muted_until_s = loop_s() + 0.5
        feed(connection, frame(ApiKey.METADATA, 1) + frame(ApiKey.METADATA, 2)[:7])
        assert (service.started, transport.reading) == ([], False)
        async with asyncio.timeout(10):
            while not service.started:  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(0.005)
        assert (service.started, transport.reading) == ([1], True)
        assert connection.peer.muted_until_s == 0
        feed(connection, frame(ApiKey.METADATA, 2)[7:])
        assert transport.sent == [b"1", b"2"]

    run(scenario())


def test_a_longer_time_replaces_a_shorter_one() -> None:
    async def scenario() -> None:
        service = Service(never)
        connection, transport = connected(service)
        connection.peer.muted_until_s = loop_s() + 0.5
        feed(connection, frame(ApiKey.METADATA, 1))
        connection.peer.muted_until_s = loop_s() + FOREVER_S
        await asyncio.sleep(0.7)
        assert (service.started, transport.reading) == ([], False)
        connection.unmute()
        assert (service.started, transport.reading) == ([1], True)

    run(scenario())


def test_a_shorter_time_after_a_change_of_quotas_is_not_the_longer_one_before() -> None:
    async def scenario() -> None:
        service = Service(never)
        connection, transport = connected(service)
        connection.peer.muted_until_s = loop_s() + FOREVER_S
        feed(connection, frame(ApiKey.METADATA, 1))
        connection.unmute()
        assert (service.started, transport.reading) == ([1], True)
        connection.peer.muted_until_s = loop_s() + 0.5
        feed(connection, frame(ApiKey.METADATA, 2))
        assert transport.reading is False
        async with asyncio.timeout(10):
            while service.started != [1, 2]:  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(0.005)

    run(scenario())


def test_a_muted_connection_counts_as_idle_and_can_be_closed() -> None:
    async def scenario() -> None:
        service = Service(never)
        connection, transport = connected(service)
        connection.peer.muted_until_s = loop_s() + FOREVER_S
        feed(connection, frame(ApiKey.METADATA, 1)[:7])
        assert connection.idle
        assert not connection.mid_frame
        connection.trim()
        connection.finish()
        assert transport.closed
        connection.connection_lost(None)
        timer = connection._unmute
        assert timer is not None
        assert timer.cancelled()
        connection.unmute()
        assert not service.started

    run(scenario())


def test_answers_that_were_waited_for_leave_a_muted_connection() -> None:
    async def scenario() -> None:
        service = Service(lambda key: key is ApiKey.PRODUCE)
        connection, transport = connected(service)
        feed(connection, frame(ApiKey.PRODUCE, 1))
        connection.peer.muted_until_s = loop_s() + FOREVER_S
        feed(connection, frame(ApiKey.PRODUCE, 2))
        service.futures[1].set_result([b"done"])
        await asyncio.sleep(0.01)
        assert transport.sent == [b"done"]
        assert service.started == [1]
        connection.unmute()
        assert service.started == [1, 2]
        connection.connection_lost(None)

    run(scenario())
