"""Unmodified producers that know one broker only, and that one is cut off."""

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from chiplog_broker.partitions.isolation import SILENCE_S
from chiplog_kube.api import Unavailable
from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import pieces_of, run
from tests.metadata.kubernetes.conftest import MemoryApi
from tests.metadata.kubernetes.isolation_kit import SteppedCluster

LIMIT_S = 60.0
TRIES = 4
"""One that chooses its next broker by chance finds a right one sometimes, whatever it is told."""


class OwnWay:
    """The API server as one broker reaches it: on a way of its own, which can be cut."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        self._check()
        return getattr(self._api, name)

    def _check(self) -> None:
        if self.is_cut:
            raise Unavailable("no route to host")

    async def watch(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        self._check()
        async for event in self._api.watch(*given, **named):
            self._check()
            yield event


def _librdkafka(bootstrap: str, value: bytes) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415

    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": int(LIMIT_S * 1000)},
        logger=logging.getLogger("librdkafka"),
    )
    failed: list[object] = []
    producer.produce("orders", value, on_delivery=lambda error, _: failed.append(error))
    producer.flush(LIMIT_S)
    assert failed == [None]


async def librdkafka(bootstrap: str, value: bytes) -> None:
    await asyncio.get_running_loop().run_in_executor(None, _librdkafka, bootstrap, value)


def _kafka_python(bootstrap: str, value: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaProducer  # type: ignore[import-untyped]  # noqa: PLC0415
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=1000)
    try:
        producer.send("orders", value).get(LIMIT_S)
    finally:
        producer.close()


async def kafka_python(bootstrap: str, value: bytes) -> None:
    await asyncio.get_running_loop().run_in_executor(None, _kafka_python, bootstrap, value)


async def aiokafka(bootstrap: str, value: bytes) -> None:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # noqa: PLC0415

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    try:
        await producer.send_and_wait("orders", value)
    finally:
        await producer.stop()


@pytest.mark.parametrize("send", [librdkafka, kafka_python, aiokafka])
def test_a_new_producer_finds_the_new_leader(
    cluster: SteppedCluster, send: Callable[[str, bytes], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        brokers = cluster.brokers
        api, way = brokers.api, OwnWay(brokers.api)
        brokers.api = way  # type: ignore[assignment]
        await brokers.start(1)
        brokers.api = api
        await brokers.start(2, 3)
        cluster.make_reachable()
        brokers.lead(1, minIsr=2)
        await brokers.settled(1)
        assert await cluster.produce() == ErrorCode.none
        way.is_cut = True
        cluster.cut_followers()
        await cluster.pass_silently(SILENCE_S)
        assert cluster.replica().is_isolated
        brokers.fence(1)
        brokers.lead(2, isr=(2, 3), minIsr=2)
        await brokers.eventually(lambda: brokers.leads(2) and brokers.follows(3))
        host, port = brokers.up[1].broker.addresses["plain"]
        values = [b"found-%d" % number for number in range(TRIES)]
        for value in values:
            async with asyncio.timeout(LIMIT_S):
                await send(f"{host}:{port}", value)
        written = b"".join(pieces_of(brokers.up[2].replica()))
        assert [value for value in values if value not in written] == []

    run(cluster.brokers, scenario)
