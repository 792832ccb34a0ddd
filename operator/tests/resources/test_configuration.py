"""server.properties and the secret: what a broker reads when it starts."""

from collections.abc import Callable

import pytest

from chiplog_core.config.broker_keys import BROKER_KEYS
from chiplog_core.config.effective import topic_defaults
from chiplog_core.config.given import given_broker_config
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_kube.api import Manifest
from chiplog_operator.resources.config_map import properties
from chiplog_operator.resources.secret import internal_secret, password_of

Made = dict[tuple[str, str], Manifest]
Make = Callable[..., Made]
ClusterWith = Callable[..., BrokerCluster]


def test_the_file_says_what_is_read_at_start(full_cluster: BrokerCluster, make: Make) -> None:
    (text,) = make(full_cluster)["ConfigMap", "payments-broker-config"]["data"].values()
    comment, *lines = text.splitlines()
    assert comment.startswith("# ")
    assert lines == [
        "listeners=plain://0.0.0.0:9092,external://0.0.0.0:9094",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "auto.create.topics.enable=false",
        "max.connections.per.ip=200",
        "num.partitions=3",
        "offsets.retention.minutes=20160",
    ]
    assert text.endswith("\n")


def test_without_listeners_there_is_the_default_one(cluster_with: ClusterWith) -> None:
    assert properties(cluster_with()) == {"listeners": "plain://0.0.0.0:9092"}


TLS = {"name": "tls", "type": "internal", "port": 9093, "tls": True}
PLAIN = {"name": "plain", "type": "internal", "port": 9092}


def test_a_listener_with_tls_says_where_its_certificate_is(cluster_with: ClusterWith) -> None:
    assert properties(cluster_with(listeners=[PLAIN, TLS])) == {
        "listeners": "plain://0.0.0.0:9092,tls://0.0.0.0:9093",
        "listener.security.protocol.map": "plain:PLAINTEXT,tls:SSL",
        "listener.name.tls.ssl.keystore.location": "/etc/chiplog-tls/tls",
    }


def test_a_listener_whose_clients_authenticate_says_whom_it_trusts(
    cluster_with: ClusterWith,
) -> None:
    mutual = {**TLS, "authentication": {"type": "tls"}}
    assert properties(cluster_with(listeners=[mutual])) == {
        "listeners": "tls://0.0.0.0:9093",
        "listener.security.protocol.map": "tls:SSL",
        "listener.name.tls.ssl.keystore.location": "/etc/chiplog-tls/tls",
        "listener.name.tls.ssl.truststore.location": "/etc/chiplog-clients-ca",
        "listener.name.tls.ssl.client.auth": "required",
    }


def test_versions_of_tls_are_set_for_all_listeners(cluster_with: ClusterWith) -> None:
    found = properties(cluster_with(listeners=[TLS], config={"ssl.enabled.protocols": "TLSv1.3"}))
    assert found["ssl.enabled.protocols"] == "TLSv1.3"


def test_a_broker_reads_it_without_a_problem(full_cluster: BrokerCluster) -> None:
    given = given_broker_config(properties(full_cluster), by_operator=True)
    assert given.problems == ()
    assert given.values == properties(full_cluster)


def test_every_key_takes_exactly_one_way(cluster_with: ClusterWith) -> None:
    """Into the file, or to the topics; what the operator writes itself, users cannot set."""
    config = {
        name: key.format(key.default)
        for name, key in BROKER_KEYS.items()
        if key.default is not None and key.set_by is None
    }
    in_file = set(properties(cluster_with(config=config))) - {"listeners"}
    to_topics = set(topic_defaults(config))
    assert not in_file & to_topics
    assert in_file | to_topics == set(config)


@pytest.mark.parametrize("key", ["listeners", "node.id", "broker.rack", "log.dirs"])
def test_a_key_of_the_operators_is_never_taken_from_the_user(
    cluster_with: ClusterWith, key: str
) -> None:
    assert properties(cluster_with(config={key: "7"})) == properties(cluster_with())


def test_the_password_is_found_again(cluster_with: ClusterWith) -> None:
    secret = internal_secret(cluster_with(), "päss=word")
    assert set(secret["data"]) == {"username", "password"}
    assert password_of(secret) == "päss=word"


@pytest.mark.parametrize("secret", [{}, {"data": None}, {"data": {"password": ""}}])
def test_a_secret_without_a_password_says_so(secret: Manifest) -> None:
    assert password_of(secret) is None


def test_an_empty_password_is_refused(cluster_with: ClusterWith) -> None:
    with pytest.raises(AssertionError):
        internal_secret(cluster_with(), "")


def test_listeners_with_passwords_use_sasl(cluster_with: ClusterWith) -> None:
    scram = {"type": "internal", "authentication": {"type": "scram-sha-512"}}
    listeners = [
        PLAIN,
        {**scram, "name": "inside", "port": 9095},
        {**scram, "name": "outside", "port": 9096, "tls": True},
    ]
    assert properties(cluster_with(listeners=listeners)) == {
        "listeners": "plain://0.0.0.0:9092,inside://0.0.0.0:9095,outside://0.0.0.0:9096",
        "listener.security.protocol.map": (
            "plain:PLAINTEXT,inside:SASL_PLAINTEXT,outside:SASL_SSL"
        ),
        "listener.name.inside.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.outside.ssl.keystore.location": "/etc/chiplog-tls/outside",
        "listener.name.outside.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }


def test_super_users_need_no_restart(cluster_with: ClusterWith) -> None:
    """They are in the AccessList."""
    simple = cluster_with(authorization={"type": "simple"})
    assert properties(simple) == {
        "listeners": "plain://0.0.0.0:9092",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
    with_super = cluster_with(authorization={"type": "simple", "superUsers": ["CN=admin"]})
    assert properties(with_super) == properties(simple)


ISSUER = {
    "type": "oauth",
    "audience": "kafka",
    "validIssuerUri": "https://issuer.example",
    "jwksEndpointUri": "https://issuer.example/keys",
}
TRUSTED = {"secretName": "issuer-ca", "certificate": "root.pem"}


def test_a_listener_for_tokens_says_whose_they_are(cluster_with: ClusterWith) -> None:
    given = {**ISSUER, "userNameClaim": "azp", "tlsTrustedCertificates": [TRUSTED]}
    found = properties(cluster_with(listeners=[{**TLS, "authentication": given}]))
    assert found == {
        "listeners": "tls://0.0.0.0:9093",
        "listener.security.protocol.map": "tls:SASL_SSL",
        "listener.name.tls.ssl.keystore.location": "/etc/chiplog-tls/tls",
        "listener.name.tls.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tls.sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
        "listener.name.tls.sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.tls.sasl.oauthbearer.expected.issuer": "https://issuer.example",
        "listener.name.tls.sasl.oauthbearer.sub.claim.name": "azp",
        "listener.name.tls.chiplog.oauthbearer.truststore.location": "/etc/chiplog-oauth/tls",
    }
    assert given_broker_config(found, by_operator=True).problems == ()


def test_a_listener_for_pods_asks_the_api_server(cluster_with: ClusterWith) -> None:
    given = {"type": "kubernetes-token", "audience": "demo.team"}
    found = properties(cluster_with(listeners=[{**TLS, "authentication": given}]))
    assert {key: value for key, value in found.items() if "oauth" in key} == {
        "listener.name.tls.sasl.oauthbearer.jwks.endpoint.url": "kubernetes:/openid/v1/jwks",
        "listener.name.tls.sasl.oauthbearer.expected.audience": "demo.team",
    }


def test_the_cas_of_an_issuer_are_mounted(cluster_with: ClusterWith, make: Make) -> None:
    given = {**ISSUER, "tlsTrustedCertificates": [TRUSTED, {**TRUSTED, "certificate": "two.pem"}]}
    made = make(cluster_with(listeners=[{**TLS, "authentication": given}]))
    pod = made["StatefulSet", "demo-broker-1"]["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "oauth-tls"]
    assert [one["secret"] for one in volume["projected"]["sources"]] == [
        {"name": "issuer-ca", "items": [{"key": "root.pem", "path": "0.crt"}]},
        {"name": "issuer-ca", "items": [{"key": "two.pem", "path": "1.crt"}]},
    ]
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "oauth-tls"]
    assert mount == {"name": "oauth-tls", "mountPath": "/etc/chiplog-oauth/tls", "readOnly": True}
