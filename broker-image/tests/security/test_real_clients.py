"""Kafka's clients log in to an internal listener: they share no code with us."""

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.listeners import internal_listener
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.scram import Mechanism

if TYPE_CHECKING:
    from tests.conftest import Kit

KNOWN = Credentials("chiplog", "pa,ss=word")


@asynccontextmanager
async def internal_only(kit: "Kit") -> AsyncIterator[str]:
    """The address of a broker with a topic `orders` that asks everybody who they are."""
    keyring = Keyring(FixedCredentials(KNOWN), SystemRng(), tuple(Mechanism))
    broker = kit.new_broker(
        {"auto.create.topics.enable": "true"},
        [internal_listener("127.0.0.1", keyring, host="127.0.0.1", port=0)],
    )
    await broker.start()
    try:
        yield "{}:{}".format(*broker.addresses["internal"])
    finally:
        await broker.stop()


def kafka_python_topics(address: str, mechanism: str, password: str) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaAdminClient  # type: ignore[import-untyped]  # noqa: PLC0415
        from kafka.admin import NewTopic  # type: ignore[import-untyped]  # noqa: PLC0415
    admin = KafkaAdminClient(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="chiplog",
        sasl_plain_password=password,
        bootstrap_timeout_ms=1000,
    )
    try:
        admin.create_topics([NewTopic("orders", 1, 1)])
        return set(admin.list_topics())
    finally:
        admin.close()


def librdkafka_topics(address: str, mechanism: str, password: str) -> set[str]:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    admin = AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "chiplog",
            "sasl.password": password,
        },
        logger=logging.getLogger("librdkafka"),
    )
    for created in admin.create_topics([NewTopic("orders", 1, 1)]).values():
        created.result(timeout=1)
    return set(admin.list_topics(timeout=3).topics)


async def aiokafka_topics(address: str, mechanism: str, password: str) -> set[str]:
    from aiokafka.admin import (  # type: ignore[import-untyped]  # noqa: PLC0415
        AIOKafkaAdminClient,
        NewTopic,
    )

    admin = AIOKafkaAdminClient(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="chiplog",
        sasl_plain_password=password,
    )
    try:
        await admin.start()
        await admin.create_topics([NewTopic("orders", 1, 1)])
        return set(await admin.list_topics())
    finally:
        await admin.close()


async def topics(client: Callable[..., Any], *options: str) -> set[str]:
    if client is aiokafka_topics:
        return await aiokafka_topics(*options)
    found: set[str] = await asyncio.to_thread(client, *options)
    return found


CLIENTS = pytest.mark.parametrize(
    "client", [kafka_python_topics, librdkafka_topics, aiokafka_topics]
)


@CLIENTS
@pytest.mark.parametrize("mechanism", [one.value for one in Mechanism])
def test_clients_log_in(kit: "Kit", client: Callable[..., Any], mechanism: str) -> None:
    async def scenario() -> None:
        async with internal_only(kit) as address:
            found = await topics(client, address, mechanism, KNOWN.password)
            assert found == {"orders", "__consumer_offsets", "__transaction_state"}

    kit.run(scenario)


@CLIENTS
def test_clients_with_another_password_do_not(
    kit: "Kit", client: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with internal_only(kit) as address:
            with pytest.raises(Exception):  # noqa: B017, PT011 - each has its own
                await topics(client, address, "SCRAM-SHA-512", "wrong")
            assert kit.broker.requests.apis[ApiKey.SASL_AUTHENTICATE].latency.total >= 2
            assert kit.broker.requests.apis[ApiKey.CREATE_TOPICS].latency.total == 0

    kit.run(scenario)
    assert "login_failed" in [one.message for one in caplog.records]
