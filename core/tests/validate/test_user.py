"""Warnings about users whose settings have no effect in their cluster."""

import pytest

from chiplog_core.validate.user import warn_about_user
from tests.users.kit import MUTUAL, SCRAM, SIMPLE, cluster, rule, user

READS = rule("orders", "Read")


def test_a_user_that_fits_its_cluster_has_no_warning() -> None:
    of = cluster(listeners=[SCRAM, MUTUAL], authorization=SIMPLE)
    for type_ in ("scram-sha-512", "tls", "tls-external", None):
        assert warn_about_user(user("alice", type_, READS), of) == ()


def test_rules_in_a_cluster_without_authorization_are_a_warning() -> None:
    (problem,) = warn_about_user(user("alice", "tls", READS), cluster(listeners=[MUTUAL]))
    assert "everybody may do everything" in str(problem)
    assert warn_about_user(user("alice", "tls"), cluster(listeners=[MUTUAL])) == ()


@pytest.mark.parametrize("name", ["alice", "User:alice"])
def test_rules_of_a_super_user_are_a_warning(name: str) -> None:
    of = cluster(listeners=[SCRAM], authorization={**SIMPLE, "superUsers": [name]})
    (problem,) = warn_about_user(user("alice", "scram-sha-512", READS), of)
    assert "superUsers" in str(problem)


@pytest.mark.parametrize(
    ("type_", "needed"), [("scram-sha-512", "scram-sha-512"), ("tls-external", "tls")]
)
def test_credentials_without_a_listener_are_a_warning(type_: str, needed: str) -> None:
    (problem,) = warn_about_user(user("alice", type_), cluster())
    assert f"no listener of cluster demo has authentication.type {needed}" in str(problem)


def test_quotas_are_a_warning_only_where_brokers_do_not_read_users() -> None:
    limited = user("alice", "tls", quotas={"producerByteRate": 1024})
    (problem,) = warn_about_user(limited, cluster(listeners=[MUTUAL]))
    assert str(problem).startswith("spec.quotas")
    assert warn_about_user(user("alice", "tls", quotas={}), cluster(listeners=[MUTUAL])) == ()
    assert warn_about_user(limited, cluster(listeners=[MUTUAL], authorization=SIMPLE)) == ()
    assert warn_about_user(limited, cluster(listeners=[MUTUAL, SCRAM])) == ()
