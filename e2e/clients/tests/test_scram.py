"""Logins between Chiplog and Apache Kafka, each of them once at either end."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.metadata.listeners import internal_listener
from chiplog_broker.peers.dialer import Dialer
from chiplog_broker.peers.errors import PeerRefused
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import schema
from e2e.kafka.broker import KafkaBroker
from e2e.kafka.ports import LOOPBACK
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

RIGHT, WRONG = Credentials("chiplog", "a-secret"), Credentials("chiplog", "another")
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class KafkaWithScram(KafkaBroker):
    """Apache Kafka that knows our user on a listener of its own."""

    format_options: ClassVar[tuple[str, ...]] = (
        "--add-scram",
        f"SCRAM-SHA-512=[name={RIGHT.username},password={RIGHT.password}]",
    )

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.settings |= {
            "listeners": f"PLAINTEXT://{self.bootstrap},SECURE://{LOOPBACK}:{self.side_ports[1]},"
            f"CONTROLLER://{LOOPBACK}:{self.side_ports[0]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SECURE:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{JAAS};",
        }


def test_our_client_logs_in_to_apache_kafka(tmp_path: Path) -> None:
    async def dial(port: int, credentials: Credentials) -> int:
        """The number of brokers that the one it logged in to knows."""
        source = FixedCredentials(credentials)
        dialer = Dialer(SystemNet().connect, SystemRng(), source, "broker-1")
        connection = await dialer.dial(LOOPBACK, port, 20)
        version = connection.common_version(ApiKey.METADATA)
        assert version == 13
        request = schema.request_class(ApiKey.METADATA, version)
        answer = await connection.send_request(
            ApiKey.METADATA,
            version,
            request(
                topics=(),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ),
            20,
        )
        connection.close()
        return len(answer.brokers)

    with KafkaWithScram(tmp_path) as kafka:
        assert asyncio.run(dial(kafka.side_ports[1], RIGHT)) == 1
        with pytest.raises(PeerRefused):
            asyncio.run(dial(kafka.side_ports[1], WRONG))


def test_apache_kafkas_client_logs_in_to_us(tmp_path: Path) -> None:
    def list_topics(address: str, credentials: Credentials) -> str:
        properties = tmp_path / "client.properties"
        properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={JAAS} username="{credentials.username}" '
            f'password="{credentials.password}";\n'
        )
        return run_tool(
            "kafka-topics.sh",
            *("--bootstrap-server", address, "--command-config", str(properties), "--list"),
        )

    async def scenario() -> None:
        keyring = Keyring(FixedCredentials(RIGHT), SystemRng())
        disks = SystemDisk(tmp_path / "data"), SystemDisk(tmp_path / "metadata")
        broker = Broker(
            Ports(SystemClock(), SystemRng(), *disks),
            {},
            [internal_listener(LOOPBACK, keyring, host=LOOPBACK, port=0)],
            str(tmp_path),
        )
        await broker.start()
        address = "{}:{}".format(*broker.addresses["internal"])
        try:
            listed = await asyncio.to_thread(list_topics, address, RIGHT)
            assert listed == "__consumer_offsets\n__transaction_state\n"
            await refused(lambda: list_topics(address, WRONG))
        finally:
            await broker.stop()

    asyncio.run(scenario())


async def refused(act: Callable[[], object]) -> None:
    with pytest.raises(Exception, match="SaslAuthenticationException"):
        await asyncio.to_thread(act)
