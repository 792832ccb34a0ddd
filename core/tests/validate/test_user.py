"""Problems with users, and warnings about settings that have no effect in their cluster."""

import pytest

from chiplog_core.validate.user import check_user, warn_about_user
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


def test_quotas_of_everybody_are_a_warning() -> None:
    of = cluster(listeners=[SCRAM], authorization=SIMPLE)
    limited = user("all", None, username="*", quotas={"producerByteRate": 1024})
    (problem,) = warn_about_user(limited, of)
    assert str(problem).startswith("spec.quotas have no effect: nobody has the name *")


@pytest.mark.parametrize(
    ("type_", "username", "why"),
    [
        (None, "*", ""),
        (None, "ANONYMOUS", ""),
        (None, "system:serviceaccount:shop:web", ""),
        ("tls-external", "CN=alice,O=größe", ""),
        ("scram-sha-512", "Alice_1", ""),
        ("tls", "CN=alice", "spec.username is set, but the operator issues certificates"),
        ("tls-external", "alice", "spec.username is not the subject of a certificate"),
        ("scram-sha-512", "CN=alice", "spec.username must be printable ASCII without ="),
        ("scram-sha-512", "größe", "spec.username must be printable ASCII without ="),
        (
            "scram-sha-512",
            "system:serviceaccount:shop:web",
            "spec.username is the name of a ServiceAccount",
        ),
        ("scram-sha-512", "*", "spec.username is *"),
        ("scram-sha-512", "ANONYMOUS", "spec.username is ANONYMOUS"),
    ],
)
def test_a_username_must_fit_the_authentication(type_: str | None, username: str, why: str) -> None:
    problems = check_user(user("alice", type_, username=username))
    assert len(problems) == bool(why)
    assert all(str(one).startswith(why) for one in problems)


PASSWORD = {"valueFrom": {"secretKeyRef": {"name": "given", "key": "password"}}}


@pytest.mark.parametrize(
    ("authentication", "why"),
    [
        ({"type": "scram-sha-512", "verifierKey": "scram-sha-512.0"}, ""),
        ({"type": "tls", "verifierKey": "scram-sha-512.0"}, "only scram-sha-512 uses it"),
        (
            {"type": "scram-sha-512", "verifierKey": "scram-sha-512.0", "password": PASSWORD},
            "is set beside password",
        ),
        ({"type": "scram-sha-512", "verifierKey": "password"}, "no entry of a verifier"),
    ],
)
def test_the_verifier_of_a_client_stands_alone(authentication: object, why: str) -> None:
    problems = check_user(user(authentication=authentication))
    assert len(problems) == bool(why)
    assert all(why in str(one) for one in problems)


def test_a_long_name_is_no_subject_unless_the_spec_has_another() -> None:
    name = "a" * 65
    assert check_user(user(name, "tls-external"))
    assert not check_user(user(name, "tls-external", username="CN=alice"))
