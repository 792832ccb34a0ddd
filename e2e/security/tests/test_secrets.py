"""No secret of a running installation stands in anything that others may read."""

import base64
from collections.abc import Iterator

import pytest
import yaml
from confluent_kafka import KafkaException, Producer

from e2e import measured
from e2e.clients.by_librdkafka import QUIET
from e2e.cluster.kubectl import Kubectl
from e2e.main import operator as release
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest, topic_manifest
from e2e.main.evidence import gather
from e2e.security.canary import Canary, merged, search
from e2e.security.secured import Credentials, user
from e2e.security.shown import all_of, artefacts, cluster_wide, data_title

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

TOPIC = "canaries"
BY_CERTIFICATE, BY_PASSWORD, GIVEN = "canary-tls", "canary-scram", "canary-given"
GIVEN_SECRET, GIVEN_PASSWORD = "canary-own-password", "chosen-by-somebody-42"
PLANTED = "planted"
RULES = ("topic", TOPIC, ["Write", "Describe"])


def manifests() -> list[Manifest]:
    """A topic, and Users of each kind: one of them has chosen its password."""
    given = user(GIVEN, "scram-sha-512", RULES)
    given["spec"]["authentication"]["password"] = {
        "valueFrom": {"secretKeyRef": {"name": GIVEN_SECRET, "key": "mine"}}
    }
    return [
        topic_manifest(TOPIC, 1, replicas=3),
        user(BY_CERTIFICATE, "tls", RULES),
        user(BY_PASSWORD, "scram-sha-512", RULES),
        given,
    ]


@pytest.fixture(scope="module")
def accounts(
    cluster: BrokerClusterUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Credentials]]:
    """Users of both kinds, by name; deleted afterwards."""
    kubectl, names = cluster.kubectl, (BY_CERTIFICATE, BY_PASSWORD, GIVEN)
    # `kubectl apply` would repeat the password in an annotation.
    kubectl("create", "secret", "generic", GIVEN_SECRET, f"--from-literal=mine={GIVEN_PASSWORD}")
    kubectl.apply(yaml.safe_dump_all(manifests()))
    try:
        cluster.wait_ready("ct", TOPIC)
        for name in names:
            cluster.wait_ready("users.chiplog.dev", name)
        directory = tmp_path_factory.mktemp("canaries")
        yield {name: Credentials(cluster, name, directory / name) for name in names}
    finally:
        kubectl("delete", "users.chiplog.dev", *names, "--ignore-not-found", "--wait=false")
        kubectl("delete", "secret", GIVEN_SECRET, "--ignore-not-found")
        kubectl("delete", "ct", TOPIC, "--ignore-not-found", "--wait=false")


@pytest.fixture(scope="module")
def namespaces(cluster: BrokerClusterUnderTest) -> list[Kubectl]:
    """The cluster's and the operator's."""
    return [cluster.kubectl, Kubectl(cluster.kubectl.kubeconfig, release.NAMESPACE)]


@pytest.fixture(scope="module")
def canaries(namespaces: list[Kubectl], accounts: dict[str, Credentials]) -> list[Canary]:
    """All that is secret: of the cluster, of its CAs, brokers and users, and tokens of pods."""
    assert accounts
    of_cluster, of_operator = namespaces
    found = merged([*all_of(of_cluster, "demo"), *all_of(of_operator)])
    by_name = {one.name: one for one in found}
    expected = {
        "Secret demo-internal, password",
        "Secret demo-cluster-ca, ca.key",
        "Secret demo-cluster-ca, ca.key, the key's number",
        "Secret demo-clients-ca, ca.key, the key's number",
        "Secret demo-cluster-ca-cert, ca.password",
        "Secret demo-broker-certs, 1.key, the key's number",
        f"Secret {BY_CERTIFICATE}, user.key, the key's number",
        f"Secret {BY_CERTIFICATE}, user.p12",
        f"Secret {BY_CERTIFICATE}, user.password",
        f"Secret {BY_PASSWORD}, password",
        f"verifier of {BY_PASSWORD}, storedKey of SCRAM-SHA-512",
        f"verifier of {GIVEN}, serverKey of SCRAM-SHA-512",
        f"password of {BY_PASSWORD}, salted for SCRAM-SHA-512",
        f"password of {GIVEN}, client key of SCRAM-SHA-512",
    }
    assert expected <= by_name.keys(), expected - by_name.keys()
    assert len([name for name in by_name if name.startswith("token of pod demo-broker-")]) == 3
    # A password is in the Secret of its user only, or also where it was given.
    assert by_name[f"Secret {BY_PASSWORD}, password"].homes == {
        data_title(BY_PASSWORD, of_cluster.namespace)
    }
    (given,) = [one for one in found if one.value == GIVEN_PASSWORD.encode()]
    assert given.homes == {data_title(one, of_cluster.namespace) for one in (GIVEN, GIVEN_SECRET)}
    return found


def work(cluster: BrokerClusterUnderTest, accounts: dict[str, Credentials]) -> None:
    """What makes brokers and operator log and write: logins that succeed and fail, denials, and a
    new process of a broker."""
    for account in accounts.values():
        settings = {**account.librdkafka(), "message.timeout.ms": 15_000, **QUIET}
        producer = Producer(settings)
        producer.produce(TOPIC, b"a")
        producer.produce("orders-of-somebody-else", b"a")
        assert producer.flush(30) == 0
        if "sasl.password" in settings:
            wrong = {**settings, "sasl.password": settings["sasl.password"][:-1]}
            with pytest.raises(KafkaException):
                Producer(wrong).list_topics(timeout=2)
    # A broker that was killed logs in to the others again, and they to it.
    pod = next(iter(cluster.broker_pods()))
    cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    cluster.wait_cluster_ready()


def test_no_secret_stands_in_what_others_may_read(
    cluster: BrokerClusterUnderTest,
    namespaces: list[Kubectl],
    accounts: dict[str, Credentials],
    canaries: list[Canary],
) -> None:
    work(cluster, accounts)
    shown = [one for kubectl in namespaces for one in artefacts(kubectl)]
    everything = [*shown, cluster_wide(cluster.kubectl), *gather(cluster.kubectl)]
    searched, found = search(canaries, everything)
    assert found == []
    texts = dict(shown)
    assert "kafka_server" in texts["pages of demo-broker-1-0"], "an empty page shows nothing"
    assert "meta.properties" in texts["files of demo-broker-1-0"]
    assert BY_PASSWORD in texts[f"accesslists.chiplog.dev of {cluster.kubectl.namespace}"]
    logs = "".join(text for title, text in shown if title.startswith("log of pod/demo-broker"))
    assert '"login_failed"' in logs
    assert '"denied"' in logs
    measured.note(f"{len(canaries)} secrets, {len(searched)} artefacts, none of them in any")


def test_the_search_sees_what_is_planted(
    cluster: BrokerClusterUnderTest, canaries: list[Canary]
) -> None:
    """Else the test above would be green whatever it read."""
    kubectl, by_name = cluster.kubectl, {one.name: one for one in canaries}
    password = by_name[f"Secret {BY_PASSWORD}, password"]
    salted = by_name[f"password of {BY_PASSWORD}, salted for SCRAM-SHA-512"]
    stored = by_name[f"verifier of {BY_PASSWORD}, storedKey of SCRAM-SHA-512"]
    number = by_name["Secret demo-clients-ca, ca.key, the key's number"]
    key = base64.b64decode(kubectl.get("secret", "demo-clients-ca")["data"]["ca.key"]).decode()
    pod = next(iter(cluster.broker_pods()))
    made = {"name": PLANTED}
    planted = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": made,
            "data": {"a": salted.value.hex(), "b": key},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": made,
            "stringData": {"a": f"it is {password.value.decode()}"},
        },
    ]
    write = f"open('/dev/shm/{PLANTED}', 'w').write('{stored.value.hex()}')"
    kubectl.apply(yaml.safe_dump_all(planted))
    kubectl.execute(pod, "python3", "-c", write)
    try:
        _, found = search([password, salted, stored, number], artefacts(kubectl))
    finally:
        kubectl("delete", f"configmap/{PLANTED}", f"secret/{PLANTED}")
        kubectl.execute(pod, "python3", "-c", f"import os; os.remove('/dev/shm/{PLANTED}')")
    places = {tuple(line.split(" stands in ")) for line in found}
    named = {(name, place.rpartition(" (")[0]) for name, place in places}
    assert named == {
        (salted.name, f"configmaps of {kubectl.namespace}"),
        (number.name, f"configmaps of {kubectl.namespace}"),
        (password.name, data_title(PLANTED, kubectl.namespace)),
        (stored.name, f"files of {pod}"),
        # `kubectl apply` repeats what it applies in an annotation.
        (password.name, f"metadata of Secret {PLANTED} of {kubectl.namespace}"),
    }
