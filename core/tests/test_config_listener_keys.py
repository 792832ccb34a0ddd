"""Keys that one listener may have for itself."""

import pytest

from chiplog_core.config.listener_keys import (
    LISTENER_KEYS,
    SSL_CLIENT_AUTH,
    SSL_ENABLED_PROTOCOLS,
    SSL_KEYSTORE_LOCATION,
    key_of_one_listener,
    listener_value,
    name_for_listener,
    set_under,
)


def test_the_name_of_each_key_for_a_listener_reads_back() -> None:
    for key in LISTENER_KEYS.values():
        assert key_of_one_listener(name_for_listener("EXTERNAL", key)) == ("external", key)


@pytest.mark.parametrize(
    "name",
    [
        "ssl.client.auth",
        "listener.name.ssl.client.auth",
        "listener.name..ssl.client.auth",
        "listener.name.TLS.ssl.client.auth",
        "listener.name.tls.listeners",
    ],
)
def test_other_names_are_not_of_a_listener(name: str) -> None:
    assert key_of_one_listener(name) is None


def test_a_listeners_own_value_comes_first() -> None:
    config = {"ssl.client.auth": "requested", "listener.name.tls.ssl.client.auth": "required"}

    assert listener_value(config, "TLS", SSL_CLIENT_AUTH) == "required"
    assert set_under(config, "tls", SSL_CLIENT_AUTH) == "listener.name.tls.ssl.client.auth"
    assert listener_value(config, "other", SSL_CLIENT_AUTH) == "requested"
    assert set_under(config, "other", SSL_CLIENT_AUTH) == "ssl.client.auth"


def test_without_a_value_the_default_counts() -> None:
    assert listener_value({}, "tls", SSL_ENABLED_PROTOCOLS) == ("TLSv1.2", "TLSv1.3")
    assert listener_value({}, "tls", SSL_KEYSTORE_LOCATION) is None
    assert set_under({}, "tls", SSL_KEYSTORE_LOCATION) == "ssl.keystore.location"
