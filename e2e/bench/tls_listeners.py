"""A listener with TLS beside that in plain text, on brokers of both sides, with one certificate."""

import ssl
from pathlib import Path

from e2e.kafka.broker import KafkaBroker
from e2e.kafka.certificates import Authority
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.kafka.process import BrokerProcess


class TlsListeners:
    """The certificate of all brokers of a run, and where each listens with it."""

    def __init__(self, directory: Path) -> None:
        """Make a CA and a certificate in this directory, which must not exist."""
        directory.mkdir(parents=True)
        authority = Authority.create()
        self.ca = authority.write(directory) / "ca.crt"
        """The file with the CA's certificate, which clients trust."""
        self._keystore = directory / "broker.pem"
        self._keystore.write_bytes(authority.server().both)
        self._ports: dict[BrokerProcess, int] = {}

    def add_to(self, broker: BrokerProcess) -> BrokerProcess:
        """Add the listener to the settings of a broker that was not started yet; returns it."""
        (port,) = free_ports(1)
        self._ports[broker] = port
        listeners = [f"PLAINTEXT://{broker.bootstrap}", f"SSL://{LOOPBACK}:{port}"]
        broker.settings["ssl.keystore.type"] = "PEM"
        broker.settings["ssl.keystore.location"] = str(self._keystore)
        if isinstance(broker, KafkaBroker):
            listeners.append(f"CONTROLLER://{broker.controller}")
            # With a listener for TLS, Kafka has no protocol for the controller's any more.
            protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL"
            broker.settings["listener.security.protocol.map"] = protocols
        broker.settings["listeners"] = ",".join(listeners)
        return broker

    def address(self, broker: BrokerProcess) -> tuple[str, int]:
        """Where a broker listens with TLS."""
        return LOOPBACK, self._ports[broker]

    def bootstrap(self, broker: BrokerProcess) -> str:
        """The same as the Java load takes it."""
        host, port = self.address(broker)
        return f"SSL://{host}:{port}"

    def context(self) -> ssl.SSLContext:
        """That of a client in Python."""
        return ssl.create_default_context(cafile=str(self.ca))
