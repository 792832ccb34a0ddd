"""What a BrokerCluster says about certificates."""

from dataclasses import replace
from datetime import UTC, datetime

from chiplog_core.ids import BrokerId
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.model.listener_certificate import ListenerCertificate
from chiplog_core.observed.processes import identity
from tests.planner.model import Kubernetes

TLS = {"name": "tls", "type": "internal", "port": 9093, "tls": True}
OWN = {
    **TLS,
    "name": "own",
    "port": 9094,
    "authentication": {"type": "tls"},
    "configuration": {
        "brokerCertChainAndKey": {"secretName": "kafka", "certificate": "c", "key": "k"}
    },
}
BROKEN = ListenerCertificate(
    listener="own",
    fingerprint="a" * 64,
    not_after=datetime(2026, 2, 1, tzinfo=UTC),
    problem="key values mismatch",
)


def running() -> Kubernetes:
    kubernetes = Kubernetes(3, listeners=[TLS, OWN])
    kubernetes.run()
    return kubernetes


def conditions(kubernetes: Kubernetes) -> dict[str, Condition]:
    return {one.type: one for one in kubernetes.cluster.status.conditions}


def test_a_replacement_is_a_condition_as_long_as_it_lasts() -> None:
    kubernetes = running()
    assert "CertificatesChanging" not in conditions(kubernetes)

    kubernetes.settle(ca_replacements=("2 of 3 brokers trust it", "the other one"))
    found = conditions(kubernetes)["CertificatesChanging"]
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "KeyReplaced")
    assert found.message == "2 of 3 brokers trust it; the other one"
    assert conditions(kubernetes)["Stable"].status is ConditionStatus.TRUE

    kubernetes.settle()
    assert "CertificatesChanging" not in conditions(kubernetes)


def test_files_that_a_broker_cannot_use_name_broker_secret_and_remedy() -> None:
    kubernetes = running()
    status = kubernetes.brokers[BrokerId(2)].status
    kubernetes.status(2, replace(status, listener_certificates=(BROKEN,)))
    kubernetes.settle()
    found = conditions(kubernetes)["Warning"]
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "CertificateUnusable")
    assert found.message == (
        "broker 2 cannot use the files of listener own, from Secret kafka or demo-clients-ca-cert "
        "(key values mismatch): it still uses the certificate that it had, which expires at "
        "2026-02-01T00:00:00Z: correct the Secret"
    )

    kubernetes.status(2, replace(status, listener_certificates=(replace(BROKEN, problem=""),)))
    kubernetes.settle()
    assert "Warning" not in conditions(kubernetes)


def test_a_generated_certificate_and_a_listener_that_the_spec_does_not_have() -> None:
    kubernetes = running()
    status = kubernetes.brokers[BrokerId(1)].status
    reports = tuple(replace(BROKEN, listener=name, not_after=None) for name in ("gone", "tls"))
    kubernetes.status(1, replace(status, listener_certificates=reports))
    kubernetes.settle()
    assert conditions(kubernetes)["Warning"].message == (
        "broker 1 cannot use the files of listener gone (key values mismatch): it still uses the "
        "certificate that it had; broker 1 cannot use the files of listener tls, from Secret "
        "demo-broker-certs (key values mismatch): it still uses the certificate that it had: "
        "correct the Secret"
    )


def test_the_files_for_other_brokers_have_secrets_of_their_own() -> None:
    kubernetes = running()
    status = kubernetes.brokers[BrokerId(1)].status
    report = replace(BROKEN, listener="internal", not_after=None)
    kubernetes.status(1, replace(status, listener_certificates=(report,)))
    kubernetes.settle()
    assert "listener internal, from Secret demo-broker-certs or demo-cluster-ca-cert (key" in (
        conditions(kubernetes)["Warning"].message
    )


def test_a_process_says_whether_it_is_asked_with_tls() -> None:
    kubernetes = running()
    broker = kubernetes.brokers[BrokerId(1)]
    pod = replace(kubernetes.pods[BrokerId(1)], uid="u", address="198.18.0.1")
    reported = replace(BROKEN, listener="internal"), BROKEN
    of_tls = replace(broker, status=replace(broker.status, listener_certificates=reported))
    plain, secured = identity(broker, pod), identity(of_tls, pod)
    assert plain is not None
    assert secured is not None
    assert (plain.uses_tls, secured.uses_tls) == (False, True)
    assert plain == secured, "it is the same process"
