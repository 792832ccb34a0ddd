"""A standalone broker that lets in nobody without credentials, except through one listener."""

from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from e2e.clients.by_librdkafka import QUIET
from e2e.clients.standalone import StandaloneBroker
from e2e.kafka.certificates import Authority
from e2e.kafka.ports import LOOPBACK, free_ports

ADMIN: Final = "admin"
PASSWORD: Final = 'of "the" admin\\'  # noqa: S105 - of a test
"""With characters that have a meaning in JAAS configurations and properties files."""
OPEN, MTLS, SCRAM, SCRAM_PLAIN = "open", "mtls", "scram", "scramplain"
PROTOCOLS: Final = {
    OPEN: "SSL",
    MTLS: "SSL",
    SCRAM: "SASL_SSL",
    SCRAM_PLAIN: "SASL_PLAINTEXT",
}


class SecuredBroker(StandaloneBroker):
    """A broker with TLS, logins and an authorizer. Its superusers are `ADMIN`, with `PASSWORD`, and
    the certificate of `CN=admin`; clients of the listener `open`, which needs none, are nobody and
    may do nothing."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.servers, self.clients = Authority.create("servers"), Authority.create("clients")
        self.ca = self.servers.write(directory / "ca") / "ca.crt"
        self.client = self.clients.client(ADMIN)
        self.client_files = self.client.write(directory / "client")
        self.ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
        protocols = (f"{name}:{protocol}" for name, protocol in PROTOCOLS.items())
        self.options = ("--add-scram", f"SCRAM-SHA-512=[name={ADMIN},password={PASSWORD}]")
        self.settings |= {
            "listeners": ",".join(f"{one}://{self.address(one)}" for one in PROTOCOLS),
            "listener.security.protocol.map": ",".join(protocols),
            "ssl.keystore.location": str(self.servers.server().write(directory / "server")),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.truststore.location": str(
                self.clients.write(directory / "client-cas")
            ),
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:CN={ADMIN}",
            "group.initial.rebalance.delay.ms": "0",
        }

    def address(self, listener: str) -> str:
        return f"{LOOPBACK}:{self.ports[listener]}"

    def as_admin(self) -> dict[str, str]:
        """Settings of librdkafka for `ADMIN`."""
        return {
            "bootstrap.servers": self.address(SCRAM),
            "security.protocol": PROTOCOLS[SCRAM],
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": ADMIN,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.ca),
        }

    def fill(self, topic: str, values: list[bytes]) -> None:
        """Create a topic of one partition with these records."""
        admin = AdminClient({**self.as_admin(), **QUIET})
        admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=20)[topic].result(20)
        producer = Producer({**self.as_admin(), **QUIET})
        for value in values:
            producer.produce(topic, value, value)
        assert producer.flush(30) == 0
