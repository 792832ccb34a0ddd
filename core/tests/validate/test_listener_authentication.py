"""Listeners whose clients log in with tokens."""

from typing import Any

import pytest

from chiplog_core.validate.broker_cluster import check_cluster
from tests.users.kit import cluster

OAUTH = {
    "type": "oauth",
    "audience": "kafka",
    "validIssuerUri": "https://issuer.example",
    "jwksEndpointUri": "https://issuer.example/keys",
}
PODS = {"type": "kubernetes-token", "audience": "demo.home"}


def problems(authentication: dict[str, Any], *, tls: bool = True) -> list[str]:
    listener = {
        "name": "tokens",
        "type": "internal",
        "port": 9096,
        "tls": tls,
        "authentication": authentication,
    }
    return [str(one) for one in check_cluster(cluster(listeners=[listener]))]


def test_what_is_complete_has_no_problem() -> None:
    trusted = [{"secretName": "issuer-ca", "certificate": "ca.crt"}]
    assert problems(OAUTH) == problems(PODS) == []
    assert problems({**OAUTH, "userNameClaim": "azp", "tlsTrustedCertificates": trusted}) == []


@pytest.mark.parametrize("field", ["audience", "validIssuerUri", "jwksEndpointUri"])
def test_what_is_needed_must_be_there(field: str) -> None:
    (problem,) = problems({key: value for key, value in OAUTH.items() if key != field})
    assert f"authentication.{field} is missing" in problem


def test_what_is_not_used_must_not_be_there() -> None:
    found = problems({**OAUTH, "type": "kubernetes-token", "userNameClaim": "azp"})
    assert len(found) == 3
    (problem,) = problems({"type": "scram-sha-512", "audience": "kafka"})
    assert "type scram-sha-512 does not use it" in problem


@pytest.mark.parametrize("authentication", [OAUTH, PODS])
def test_tokens_are_not_sent_in_plain_text(authentication: dict[str, Any]) -> None:
    (problem,) = problems(authentication, tls=False)
    assert "which needs TLS" in problem


def test_the_audience_of_the_api_server_is_not_for_brokers() -> None:
    (problem,) = problems({**PODS, "audience": "https://kubernetes.default.svc.cluster.local"})
    assert "the API server's own" in problem
