"""A broker that logs everything, and answers everybody, shows no secret of its users."""

import hashlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from chiplog_broker.metadata.standalone_users import USERS_FILE
from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.scram import Mechanism, client_key, derived_keys
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic
from e2e.kafka.certificates import Authority
from e2e.kafka.connection import Connection
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.security.canary import Canary, of_key, search

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

PASSWORD, WRONG, NEW = "the-password-of-alice", "a-wrong-password", "the-password-of-bob"
SALT, ITERATIONS = b"salt-of-bob", 4096
SALTED = hashlib.pbkdf2_hmac("sha512", NEW.encode(), SALT, ITERATIONS)
SHA_512 = Mechanism.SCRAM_SHA_512
KEYSTORE = "broker.pem"


class Scene:
    """A broker whose log level is `debug`, with a listener for logins and one for all."""

    def __init__(self, directory: Path) -> None:
        authority = Authority.create()
        self.issued = authority.server()
        keystore = directory / KEYSTORE
        keystore.write_bytes(self.issued.both)
        self.ca = authority.write(directory / "ca") / "ca.crt"
        self.secured = f"{LOOPBACK}:{free_ports(1)[0]}"
        self.broker = StandaloneBroker(directory / "broker")
        self.broker.options = (
            *("--log-level", "debug"),
            *("--add-scram", f"SCRAM-SHA-512=[name=alice,password={PASSWORD}]"),
        )
        self.broker.settings = {
            "listeners": f"PLAINTEXT://{self.broker.bootstrap},SASL_SSL://{self.secured}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "ssl.keystore.location": str(keystore),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
        }

    def client(self, mechanism: str, user: str, password: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.secured,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            **QUIET,
        }

    def upsertion(self) -> dict[str, Any]:
        """Stores a password of bob, as a client sends it: salted."""
        return {
            "name": "bob",
            "mechanism": 2,
            "iterations": ITERATIONS,
            "salt": SALT,
            "salted_password": SALTED,
        }

    def canaries(self) -> list[Canary]:
        homes = frozenset({f"file {USERS_FILE}"})
        found = [
            Canary("password of alice", PASSWORD.encode()),
            Canary("a wrong password", WRONG.encode()),
            Canary("password of bob", NEW.encode()),
            of_key("key of the broker", self.issued.key, frozenset()),
        ]
        keys = derived_keys(SHA_512, SALTED)
        return [
            *found,
            Canary("salted password of bob", SALTED),
            Canary("client key of bob", client_key(SHA_512, SALTED)),
            Canary("stored key of bob", keys.stored_key, homes),
            Canary("server key of bob", keys.server_key, homes),
        ]

    def shown(self) -> Iterator[tuple[str, str]]:
        """The log, the metrics, and all files that the broker has written."""
        yield "the log", self.broker.output.read_text()
        address = f"http://{LOOPBACK}:{self.broker.side_ports[1]}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            yield "the metrics", answer.read().decode()
        for path in sorted(self.broker.home.rglob("*")):
            if path.is_file():
                content = path.read_bytes().rstrip(b"\0")
                yield f"file {path.name}", content.decode(errors="replace") + content.hex()


def is_denied(settings: dict[str, Any], topic: str) -> bool:
    """Whether a client that can log in may not see the topic."""
    found = Producer(settings).list_topics(topic, timeout=10)
    return found.topics[topic].error is not None


def test_a_broker_that_logs_everything_shows_no_secret(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.broker as broker:
        create_topic(broker.bootstrap, "orders", 1)
        with Connection((LOOPBACK, broker.port), timeout_s=10) as admin:
            key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
            answer = admin.ask(key, 0, {"upsertions": [scene.upsertion()]})
            assert [one.error_code for one in answer.results] == [0]
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            for user, password in (("alice", PASSWORD), ("bob", NEW)):
                assert is_denied(scene.client(mechanism, user, password), "orders")
            wrong = Producer(scene.client(mechanism, "alice", WRONG))
            with pytest.raises(KafkaException):
                wrong.list_topics(timeout=0.5)
        shown = list(scene.shown())
    texts = dict(shown)
    for event in ("login_failed", "denied", "changed"):
        assert f'"{event}"' in texts["the log"]
    _, found = search(scene.canaries(), shown)
    assert found == []
    stored = [one for one in scene.canaries() if one.homes]
    _, found = search([Canary(one.name, one.value) for one in stored], shown)
    assert len(found) == len(stored), "the search sees what is there"
