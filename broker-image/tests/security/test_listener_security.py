"""The security of listeners in `server.properties`."""

from pathlib import Path

import pytest

from chiplog_broker.config_file import listeners, member_listeners
from chiplog_broker.errors import CannotStart
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings

MAP = {"listener.security.protocol.map": "tls:SSL,plain:PLAINTEXT"}
SASL = {
    "listener.security.protocol.map": "tls:SASL_SSL,plain:SASL_PLAINTEXT",
    "ssl.keystore.location": "/k",
}
TWO = {"listeners": "tls://0.0.0.0:9093,plain://0.0.0.0:9092"}


def tls_of(config: dict[str, str]) -> dict[str, TlsSettings | None]:
    return {one.name: one.tls for one in member_listeners(config)}


def mechanisms_of(config: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {one.name: one.mechanisms for one in member_listeners(config)}


def test_a_member_has_tls_where_the_map_says_so() -> None:
    found = tls_of(
        {
            **MAP,
            **TWO,
            "listener.name.tls.ssl.keystore.location": "/tls",
            "listener.name.tls.ssl.truststore.location": "/cas",
            "listener.name.tls.ssl.client.auth": "required",
        }
    )
    assert found == {
        "plain": None,
        "tls": TlsSettings(
            Path("/tls"),
            Path("/cas"),
            ClientAuth.REQUIRED,
            keystore_key="server.properties[listener.name.tls.ssl.keystore.location]",
            truststore_key="listener.name.tls.ssl.truststore.location",
        ),
    }


def test_a_member_without_a_map_has_no_tls() -> None:
    assert tls_of(TWO) == {"tls": None, "plain": None}


def test_keys_without_a_prefix_hold_for_every_listener() -> None:
    config = {
        "listeners": "a://h:1,b://h:2",
        "listener.security.protocol.map": "a:SSL,b:SSL",
        "ssl.keystore.location": "/all",
        "listener.name.b.ssl.keystore.location": "/b",
        "listener.name.b.ssl.enabled.protocols": "TLSv1.3",
    }
    a, b = tls_of(config).values()
    assert a == TlsSettings(Path("/all"), None)
    assert b is not None
    assert (b.keystore, b.protocols) == (Path("/b"), ("TLSv1.3",))


def test_the_names_of_a_standalone_broker_say_their_protocol() -> None:
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093",
        "listener.name.ssl.ssl.keystore.location": "/tls.pem",
    }
    plain, secured = listeners(config)
    assert plain.tls is None
    assert secured.tls is not None
    assert secured.tls.keystore == Path("/tls.pem")


def test_users_log_in_where_the_map_says_so() -> None:
    config = {**SASL, **TWO, "listener.name.tls.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}
    assert mechanisms_of(config) == {
        "tls": ("PLAIN", "SCRAM-SHA-512"),
        "plain": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    }
    assert {name: tls is not None for name, tls in tls_of(config).items()} == {
        "tls": True,
        "plain": False,
    }


def test_with_sasl_only_a_listeners_own_key_asks_for_certificates() -> None:
    """KIP-684."""
    config = {**SASL, **TWO, "ssl.client.auth": "required", "ssl.truststore.location": "/cas"}
    found = tls_of(config)["tls"]
    assert found is not None
    assert found.client_auth is ClientAuth.NONE
    found = tls_of({**config, "listener.name.tls.ssl.client.auth": "requested"})["tls"]
    assert found is not None
    assert found.client_auth is ClientAuth.REQUESTED


def test_a_truststore_without_client_certificates_is_not_read() -> None:
    config = {**MAP, **TWO, "ssl.keystore.location": "/k", "ssl.truststore.location": "/gone"}
    found = tls_of(config)["tls"]
    assert found is not None
    assert found.truststore is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"listener.security.protocol.map": "tls:PLAINTEXT"},
            r"\[listeners\] has plain, .*: add plain:PLAINTEXT",
        ),
        (
            {"listener.security.protocol.map": "tls:SASL_SSL,plain:PLAINTEXT"},
            r"\[ssl.keystore.location\] is not set, but the listener tls uses TLS",
        ),
        (
            {**SASL, "sasl.enabled.mechanisms": "PLAIN"},
            r"has PLAIN, which sends passwords, but the listener plain has no TLS",
        ),
        (
            {
                **MAP,
                "ssl.keystore.location": "/k",
                "listener.name.tls.sasl.enabled.mechanisms": "PLAIN",
            },
            "is for a listener tls, but there is none with that name and SASL",
        ),
        (
            {"listener.security.protocol.map": "tls:TLS,plain:PLAINTEXT"},
            "has 'tls:TLS': write name:protocol with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            {"listener.security.protocol.map": "tls:SSL,TLS:PLAINTEXT,plain:PLAINTEXT"},
            "each name once",
        ),
        (MAP, r"\[ssl.keystore.location\] is not set, but the listener tls uses TLS"),
        (
            {**MAP, "ssl.keystore.location": "/k", "ssl.client.auth": "required"},
            r"\[ssl.truststore.location\] is not set, but ssl.client.auth is required",
        ),
        (
            {**MAP, "ssl.keystore.location": "/k", "listener.name.tsl.ssl.client.auth": "required"},
            r"\[listener.name.tsl.ssl.client.auth\] is for a listener tsl",
        ),
        (
            {**MAP, "ssl.keystore.location": "/k", "listener.name.plain.ssl.client.auth": "none"},
            "is for a listener plain, but there is none with that name and TLS",
        ),
    ],
)
def test_what_would_leave_a_listener_open_is_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(CannotStart, match=message):
        member_listeners({**TWO, **config})
