"""What the claims of tokens prove."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.limits import MAX_USERNAME_LENGTH
from chiplog_core.token_claims import TokenRefused, TokenRules, holder

NOW_S = 1_800_000_000
RULES = TokenRules(issuer="https://issuer", audiences=("kafka", "other"), skew_s=30)
CLAIMS: dict[str, Any] = {
    "iss": "https://issuer",
    "aud": ["web", "kafka"],
    "sub": "alice",
    "exp": NOW_S + 600,
    "nbf": NOW_S - 5,
    "iat": NOW_S - 5,
}
OF_PODS = TokenRules(issuer="https://issuer", audiences=("kafka",), are_of_kubernetes=True)
ACCOUNT = "system:serviceaccount:shop:orders"
BOUND = {"namespace": "shop", "serviceaccount": {"name": "orders", "uid": "1"}}
POD = {**CLAIMS, "sub": ACCOUNT, "kubernetes.io": BOUND}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)


def refused(claims: dict[str, Any], rules: TokenRules = RULES) -> str:
    with pytest.raises(TokenRefused) as error:
        holder(claims, rules, NOW_S)
    return str(error.value)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


def test_a_token_says_who_its_holder_is_and_until_when() -> None:
    found = holder(CLAIMS, RULES, NOW_S)
    assert (found.username, found.valid_s) == ("alice", 630)
    assert holder({**CLAIMS, "aud": "other"}, RULES, NOW_S).username == "alice"
    for optional in ("nbf", "iat"):
        assert holder(without(optional), RULES, NOW_S).username == "alice"


@pytest.mark.parametrize("claim", ["iss", "aud", "exp", "sub"])
def test_no_claim_may_be_missing(claim: str) -> None:
    refused(without(claim))


@pytest.mark.parametrize(
    ("claim", "value", "why"),
    [
        ("iss", "https://issuer/", "another issuer"),
        ("iss", ["https://issuer"], "another issuer"),
        ("aud", "web", "another audience"),
        ("aud", [], "another audience"),
        ("aud", {"kafka": 1}, "another audience"),
        ("aud", [["kafka"]], "another audience"),
        ("exp", NOW_S - 30, "has expired"),
        ("exp", str(NOW_S + 600), "not a number"),
        ("exp", True, "not a number"),
        ("exp", float("nan"), "not a time"),
        ("exp", float("inf"), "not a time"),
        ("exp", 10**400, "not a time"),
        ("exp", -1, "not a time"),
        ("nbf", NOW_S + 31, "not valid yet"),
        ("iat", NOW_S + 31, "not valid yet"),
        ("nbf", "soon", "not a number"),
        ("sub", "", "no name"),
        ("sub", 7, "no name"),
        ("sub", "a" * (MAX_USERNAME_LENGTH + 1), "no name"),
        ("sub", "a\nb", "not a printable name"),
        ("sub", " alice", "not a printable name"),
        ("sub", "ANONYMOUS", "reserved"),
        ("sub", "*", "reserved"),
        ("sub", "CN=admin", "reserved"),
        ("sub", ACCOUNT, "reserved"),
    ],
)
def test_a_wrong_claim_is_refused(claim: str, value: object, why: str) -> None:
    assert why in refused({**CLAIMS, claim: value})


def test_clocks_may_differ_a_little() -> None:
    late, early = {**CLAIMS, "exp": NOW_S - 29}, {**CLAIMS, "nbf": NOW_S + 30}
    assert holder(late, RULES, NOW_S).valid_s == 1
    assert holder(early, RULES, NOW_S).username == "alice"


def test_another_claim_may_have_the_name() -> None:
    rules = TokenRules(issuer="https://issuer", audiences=("kafka",), name_claim="client_id")
    assert holder({**CLAIMS, "client_id": "billing"}, rules, NOW_S).username == "billing"
    assert "client_id" in refused(CLAIMS, rules)


def test_a_pod_is_its_account() -> None:
    assert holder(POD, OF_PODS, NOW_S).username == ACCOUNT


@pytest.mark.parametrize(
    "change",
    [
        {"sub": "alice"},
        {"sub": "system:serviceaccount:shop"},
        {"sub": ACCOUNT + ":more"},
        {"sub": ACCOUNT + "\n"},
        {"sub": "system:serviceaccount:shop:Orders"},
        {"sub": "system:serviceaccount:shop:other"},
        {"kubernetes.io": None},
        {"kubernetes.io": "shop"},
        {"kubernetes.io": {**BOUND, "namespace": "other"}},
        {"kubernetes.io": {**BOUND, "serviceaccount": {"name": "orders"}}},
        {"kubernetes.io": {"namespace": "shop"}},
    ],
)
def test_only_a_token_that_is_bound_to_its_account_is_accepted(change: dict[str, Any]) -> None:
    refused({**POD, **change}, OF_PODS)


def test_tokens_for_the_api_server_are_not_for_brokers() -> None:
    rules = TokenRules(
        issuer="https://issuer", audiences=("https://issuer",), are_of_kubernetes=True
    )
    assert "the API server itself" in refused({**POD, "aud": "https://issuer"}, rules)


@given(
    claims=st.dictionaries(st.sampled_from([*POD, "other"]), json_values),
    right=st.sets(st.sampled_from(sorted(POD))),
    rules=st.sampled_from([RULES, OF_PODS]),
)
def test_who_is_accepted_has_all_of_it(
    claims: dict[str, Any], right: set[str], rules: TokenRules
) -> None:
    claims = claims | {name: POD[name] for name in right}
    try:
        found = holder(claims, rules, NOW_S)
    except TokenRefused:
        return
    assert claims["iss"] == rules.issuer
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    assert set(rules.audiences).intersection(one for one in audiences if isinstance(one, str))
    assert 0 < found.valid_s <= claims["exp"] + rules.skew_s - NOW_S
    assert found.username == claims["sub"]
    assert found.username.startswith("system:serviceaccount:") == rules.are_of_kubernetes
