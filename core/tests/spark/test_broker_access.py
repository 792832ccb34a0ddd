"""How jobs connect to a cluster, by its listeners and the User of its spec."""

from typing import Any

import pytest

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.user import User
from chiplog_core.spark.application import Volume, VolumeKind
from chiplog_core.spark.broker_access import BrokerAccess, broker_access, user_of_jobs
from chiplog_core.spark.requests import Connection, ScramLogin
from chiplog_core.spark.topic_choice import WaitReason

HOST = "demo-kafka-bootstrap.shop.svc"
AUTHORITIES = Volume(
    name="chiplog-cluster-ca",
    kind=VolumeKind.SECRET,
    source="demo-cluster-ca-cert",
    path="/etc/chiplog/cluster-ca",
)
CREDENTIALS = Volume(
    name="chiplog-user", kind=VolumeKind.SECRET, source="jobs", path="/etc/chiplog/user"
)
CA_FILE = "/etc/chiplog/cluster-ca/ca.crt"
PLAIN = {"name": "plain", "type": "internal", "port": 9092}
TLS = {"name": "tls", "type": "internal", "port": 9093, "tls": True}
MTLS = {**TLS, "name": "mtls", "port": 9095, "authentication": {"type": "tls"}}
SCRAM = {**TLS, "name": "scram", "port": 9096, "authentication": {"type": "scram-sha-512"}}
OUTSIDE = {"name": "outside", "type": "nodeport", "port": 9094}
GIVEN = {
    **TLS,
    "configuration": {
        "brokerCertChainAndKey": {"secretName": "kafka", "certificate": "a", "key": "b"}
    },
}


def cluster(*listeners: dict[str, Any], user: str | None = None) -> BrokerCluster:
    return BrokerCluster.from_manifest(
        {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "shop", "uid": "u", "generation": 1},
            "spec": {
                "replicas": 1,
                "storage": {"size": "1Gi"},
                "listeners": list(listeners),
                **({} if user is None else {"spark": {"user": user}}),
            },
        }
    )


def user(kind: str, username: str | None, secret: str | None = "jobs") -> User:  # noqa: S107
    status = {"username": username, "secret": secret}
    return User.from_manifest(
        {
            "apiVersion": "chiplog.dev/v1alpha1",
            "kind": "User",
            "metadata": {"name": "jobs", "namespace": "shop", "uid": "v", "generation": 1},
            "spec": {"clusterRef": {"name": "demo"}, "authentication": {"type": kind}},
            "status": {name: value for name, value in status.items() if value is not None},
        }
    )


@pytest.mark.parametrize("namespace", ["shop", "team"])
@pytest.mark.parametrize("listeners", [(), (PLAIN,), (SCRAM, TLS, OUTSIDE, PLAIN)])
def test_nobody_uses_plain_text_if_it_is_there(
    listeners: tuple[dict[str, Any], ...], namespace: str
) -> None:
    found = broker_access(cluster(*listeners), namespace, None)
    assert found == BrokerAccess(bootstrap=f"{HOST}:9092")


def test_nobody_uses_tls_otherwise() -> None:
    assert broker_access(cluster(SCRAM, TLS), "shop", None) == BrokerAccess(
        bootstrap=f"{HOST}:9093",
        connection=Connection(tls=True, ca_file=CA_FILE),
        volumes=(AUTHORITIES,),
    )


@pytest.mark.parametrize("namespace", ["shop", "team"])
def test_a_certificate_of_somebody_else_is_checked_with_the_cas_of_the_image(
    namespace: str,
) -> None:
    assert broker_access(cluster(GIVEN), namespace, None) == BrokerAccess(
        bootstrap=f"{HOST}:9093", connection=Connection(tls=True)
    )


@pytest.mark.parametrize(
    ("listeners", "namespace", "remedy"),
    [
        ((SCRAM, MTLS), "shop", "set spec.spark.user to a User"),
        ((OUTSIDE,), "shop", "set spec.spark.user to a User"),
        ((TLS,), "team", "create this object in the namespace of the cluster"),
    ],
)
def test_nobody_finds_no_listener(
    listeners: tuple[dict[str, Any], ...], namespace: str, remedy: str
) -> None:
    found = broker_access(cluster(*listeners), namespace, None)
    assert isinstance(found, WaitReason)
    assert found.reason == "NoListener"
    assert remedy in found.message


def test_a_user_with_a_password() -> None:
    secured = cluster(PLAIN, MTLS, SCRAM, user="jobs")
    assert broker_access(secured, "shop", user("scram-sha-512", "jobs")) == BrokerAccess(
        bootstrap=f"{HOST}:9096",
        connection=Connection(
            tls=True,
            ca_file=CA_FILE,
            login=ScramLogin(username="jobs", password_file="/etc/chiplog/user/password"),  # noqa: S106
        ),
        volumes=(CREDENTIALS, AUTHORITIES),
    )


def test_a_user_with_a_password_in_plain_text() -> None:
    secured = cluster({**SCRAM, "tls": False}, user="jobs")
    found = broker_access(secured, "shop", user("scram-sha-512", "jobs"))
    assert isinstance(found, BrokerAccess)
    assert found.connection is not None
    assert not found.connection.tls
    assert found.volumes == (CREDENTIALS,)


def test_a_user_with_a_password_uses_tls_if_it_is_there() -> None:
    in_clear = {**SCRAM, "name": "clear", "tls": False, "port": 9097}
    found = broker_access(cluster(in_clear, SCRAM, user="jobs"), "shop", user("scram-sha-512", "j"))
    assert isinstance(found, BrokerAccess)
    assert found.bootstrap == f"{HOST}:9096"


def test_a_status_does_not_choose_the_secret() -> None:
    found = broker_access(cluster(SCRAM, user="jobs"), "shop", user("scram-sha-512", "j", "others"))
    assert isinstance(found, BrokerAccess)
    assert CREDENTIALS in found.volumes


def test_a_user_with_a_certificate() -> None:
    secured = cluster(PLAIN, SCRAM, MTLS, user="jobs")
    assert broker_access(secured, "shop", user("tls", "CN=jobs")) == BrokerAccess(
        bootstrap=f"{HOST}:9095",
        connection=Connection(
            tls=True,
            ca_file=CA_FILE,
            certificate_file="/etc/chiplog/user/user.crt",
            key_file="/etc/chiplog/user/user.key",
        ),
        volumes=(CREDENTIALS, AUTHORITIES),
    )


@pytest.mark.parametrize(
    ("listeners", "found", "reason", "message"),
    [
        ((SCRAM,), None, "UserNotReady", "no User of this name has a Secret"),
        ((SCRAM,), user("scram-sha-512", "jobs", None), "UserNotReady", "no User of this name"),
        ((SCRAM,), user("scram-sha-512", None), "UserNotReady", "no User of this name"),
        ((PLAIN, MTLS), user("scram-sha-512", "jobs"), "NoListener", "type scram-sha-512"),
        ((PLAIN, SCRAM), user("tls", "CN=jobs"), "NoListener", "authentication.type tls"),
    ],
)
def test_a_user_who_cannot_connect(
    listeners: tuple[dict[str, Any], ...], found: User | None, reason: str, message: str
) -> None:
    refused = broker_access(cluster(*listeners, user="jobs"), "shop", found)
    assert isinstance(refused, WaitReason)
    assert refused.reason == reason
    assert message in refused.message


def test_only_jobs_in_the_namespace_of_the_cluster_have_its_user() -> None:
    secured = cluster(PLAIN, SCRAM, user="jobs")
    assert user_of_jobs(secured, "shop") == "jobs"
    assert user_of_jobs(secured, "team") is None
    assert user_of_jobs(cluster(PLAIN), "shop") is None
    assert broker_access(secured, "team", None) == BrokerAccess(bootstrap=f"{HOST}:9092")
