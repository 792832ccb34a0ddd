"""Through which listener of a BrokerCluster the program connects, and how."""

from typing import Any

import pytest

from chiplog_cli.errors import CannotDo
from chiplog_cli.listener_choice import by_config, by_credentials
from chiplog_cli.security import (
    PLAINTEXT,
    ClientCertificate,
    Login,
    Reached,
    SaslMechanism,
    Security,
    Tls,
    TokenFile,
    TokenLogin,
)
from chiplog_core.model.broker_cluster import BrokerCluster
from tests.views.objects import broker_cluster

LISTENERS = {"plain": "demo-kafka-bootstrap.shop.svc:9092", "external": "10.0.0.1:31543"}
LOGIN = Login(mechanism=SaslMechanism.SCRAM_SHA_512, username="ada", password="x")  # noqa: S106
CERTIFICATE = ClientCertificate(chain="c", key="k")


def cluster(**listeners: dict[str, Any]) -> BrokerCluster:
    """Listeners by their names, with fields of the spec; the CA of those with TLS is `ca`."""
    manifest = broker_cluster({name: f"{name}:1" for name in listeners})
    for spec, status in zip(
        manifest["spec"]["listeners"], manifest["status"]["listeners"], strict=True
    ):
        spec.update(listeners[spec["name"]])
        if spec.get("tls") and "configuration" not in spec:
            status["certificates"] = ["ca"]
    return BrokerCluster.from_manifest(manifest)


def asking(kind: str, *, tls: bool = True) -> dict[str, Any]:
    return {"tls": tls, "authentication": {"type": kind}}


def reached(one: BrokerCluster, listener: str | None = None, *, in_cluster: bool = False) -> str:
    return by_credentials(one, listener, None, in_cluster=in_cluster).bootstrap_servers


def test_where_clients_begin() -> None:
    one = BrokerCluster.from_manifest(broker_cluster(LISTENERS))
    assert reached(one) == LISTENERS["external"]
    assert reached(one, in_cluster=True) == LISTENERS["plain"]
    assert reached(one, "plain") == LISTENERS["plain"]
    with pytest.raises(CannotDo, match="'demo' has no listener 'x': use one of external, pl"):
        reached(one, "x")


def test_the_only_listener_is_better_than_none() -> None:
    only = BrokerCluster.from_manifest(broker_cluster({"plain": LISTENERS["plain"]}))
    assert reached(only) == LISTENERS["plain"]


def test_the_listener_of_a_cluster_whose_spec_has_none() -> None:
    manifest = broker_cluster({"plain": LISTENERS["plain"]})
    del manifest["spec"]["listeners"]
    assert reached(BrokerCluster.from_manifest(manifest)) == LISTENERS["plain"]


def test_a_cluster_without_listeners() -> None:
    with pytest.raises(CannotDo, match="has no listener yet"):
        reached(BrokerCluster.from_manifest(broker_cluster({})))


def test_credentials_decide() -> None:
    one = cluster(open={"tls": True}, mtls=asking("tls"), scram=asking("scram-sha-512"))
    tls = Tls(authorities="ca\n")
    found = [by_credentials(one, None, who, in_cluster=True) for who in (None, CERTIFICATE, LOGIN)]
    assert found == [
        Reached(bootstrap_servers="open:1", security=Security(tls=tls)),
        Reached(
            bootstrap_servers="mtls:1",
            security=Security(tls=Tls(authorities="ca\n", certificate=CERTIFICATE)),
        ),
        Reached(bootstrap_servers="scram:1", security=Security(tls=tls, login=LOGIN)),
    ]
    plain = cluster(scram=asking("scram-sha-512", tls=False))
    assert by_credentials(plain, None, LOGIN, in_cluster=True).security == Security(login=LOGIN)


def test_a_certificate_of_somebody_else_is_checked_with_the_cas_of_the_system() -> None:
    given = {"brokerCertChainAndKey": {"secretName": "s", "certificate": "c", "key": "k"}}
    one = cluster(tls={"tls": True, "configuration": given})
    assert by_credentials(one, None, None, in_cluster=True).security == Security(tls=Tls())


def test_what_is_missing_is_named() -> None:
    one = cluster(
        mtls=asking("tls"),
        scram=asking("scram-sha-512", tls=False),
        tokens={
            "tls": True,
            "authentication": {"type": "kubernetes-token", "audience": "kafka"},
        },
    )
    with pytest.raises(CannotDo) as refused:
        by_credentials(one, None, None, in_cluster=True)
    said = str(refused.value)
    assert "listener 'mtls' needs TLS and a certificate: use --user NAME" in said
    assert "listener 'scram' needs a password: use --user NAME" in said
    assert "listener 'tokens' needs TLS and a token: use --config FILE with sasl.mech" in said
    with pytest.raises(CannotDo) as refused:
        by_credentials(one, "mtls", LOGIN, in_cluster=True)
    assert "'scram'" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "listener"),
    [
        (PLAINTEXT, "plain"),
        (Security(tls=Tls()), "open"),
        (Security(tls=Tls(certificate=CERTIFICATE)), "mtls"),
        (Security(login=LOGIN), "words"),
        (Security(tls=Tls(), login=LOGIN), "scram"),
        (Security(tls=Tls(), login=TokenLogin(source=TokenFile("token"))), "tokens"),
    ],
)
def test_a_configuration_decides(given: Security, listener: str) -> None:
    one = cluster(
        tokens={
            "tls": True,
            "authentication": {"type": "kubernetes-token", "audience": "kafka"},
        },
        scram=asking("scram-sha-512"),
        words=asking("scram-sha-512", tls=False),
        open={"tls": True},
        mtls=asking("tls"),
        plain={},
    )
    found = by_config(one, None, given, in_cluster=True)
    assert found.bootstrap_servers == f"{listener}:1"
    assert found.security.login == given.login
    assert (found.security.tls is None) == (given.tls is None)
    if found.security.tls is not None:
        assert found.security.tls.authorities == "ca\n"
    own = Security(tls=Tls(authorities="own"))
    assert by_config(one, None, own, in_cluster=True).security == own
    with pytest.raises(CannotDo, match=r"fits security\.protocol PLAINTEXT of --config"):
        by_config(one, "mtls", PLAINTEXT, in_cluster=True)
    with pytest.raises(CannotDo, match=r"fits security\.protocol SSL of --config"):
        by_config(one, "mtls", Security(tls=Tls()), in_cluster=True)
    named = by_config(one, "open", Security(tls=Tls(certificate=CERTIFICATE)), in_cluster=True)
    assert named.bootstrap_servers == "open:1"
