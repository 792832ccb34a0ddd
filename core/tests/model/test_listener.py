"""What a listener's settings for TLS mean together."""

from dataclasses import replace

from chiplog_core.model.certificates import (
    AuthenticationType,
    CertificateAndKey,
)
from chiplog_core.model.listener import Listener, ListenerType
from chiplog_core.model.listener_authentication import ListenerAuthentication
from chiplog_core.model.listener_configuration import ListenerConfiguration

PLAIN = Listener(name="tls", type=ListenerType.INTERNAL, port=9093)
TLS = replace(PLAIN, tls=True)
GIVEN = CertificateAndKey(secret_name="kafka", certificate="tls.crt", key="tls.key")  # noqa: S106
OWN = ListenerConfiguration(broker_cert_chain_and_key=GIVEN)
MUTUAL = ListenerAuthentication(type=AuthenticationType.TLS)


def test_certificates_are_issued_for_listeners_with_tls_that_bring_none() -> None:
    listeners = (PLAIN, TLS, replace(TLS, configuration=OWN), replace(PLAIN, configuration=OWN))
    assert [one.is_issued for one in listeners] == [False, True, False, False]
    assert [one.own_certificate for one in listeners] == [None, None, GIVEN, None]


def test_clients_show_certificates_where_they_are_asked_for() -> None:
    listeners = (TLS, replace(TLS, authentication=MUTUAL), replace(PLAIN, authentication=MUTUAL))
    assert [one.asks_for_certificates for one in listeners] == [False, True, False]
