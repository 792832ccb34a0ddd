"""The keys of an issuer: which are used, and for which algorithms."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.security.oauth.jwk_set import ALGORITHMS, MAX_KEYS, OF_RSA, read_key_set
from tests.security.tokens_kit import ec_key, jwk, key_set, rsa_key


def algorithms(entry: dict[str, Any]) -> tuple[str, ...] | None:
    found = read_key_set(key_set(entry))
    return found["one"].algorithms if found else None


def test_a_key_verifies_the_algorithms_of_its_kind() -> None:
    assert algorithms(jwk(rsa_key("a"))) == OF_RSA
    assert algorithms(jwk(ec_key("a"))) == ("ES256",)
    assert algorithms(jwk(ec_key("a", ec.SECP384R1))) == ("ES384",)
    assert algorithms(jwk(rsa_key("a"), alg="PS256", use="sig")) == ("PS256",)
    assert algorithms(jwk(rsa_key("a"), key_ops=["verify"])) == OF_RSA


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "kid": "one", "k": "c2VjcmV0"},
        {"kty": "OKP", "kid": "one", "crv": "Ed25519", "x": "AA"},
        {"kty": "RSA", "kid": "one"},
        {"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"},
        {"kid": "one"},
        jwk(rsa_key("a"), use="enc"),
        jwk(rsa_key("a"), key_ops=["encrypt"]),
        jwk(rsa_key("a"), alg="HS256"),
        jwk(rsa_key("a"), alg="none"),
        jwk(rsa_key("short", 1_024)),
        {**jwk(rsa_key("a")), "e": "AQAAAAAAAAE"},
        {**jwk(rsa_key("a")), "d": "AQAB"},
        jwk(ec_key("a"), crv="P-384"),
        jwk(ec_key("a", ec.SECP521R1)),
        jwk(ec_key("a", ec.SECP256K1)),
        jwk(rsa_key("a"), key_id="k" * 257),
        {**jwk(rsa_key("a")), "kid": 7},
    ],
)
def test_other_keys_are_left_out_and_the_rest_is_used(entry: dict[str, Any]) -> None:
    found = read_key_set(key_set(entry, jwk(rsa_key("b"), key_id="two")))
    assert list(found) == ["two"]


@pytest.mark.parametrize(
    "document", [{}, {"keys": {}}, {"keys": None}, key_set(*[{"kty": "RSA"}] * (MAX_KEYS + 1))]
)
def test_what_is_no_key_set_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"[Ss]et"):
        read_key_set(document)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["kty", "kid", "alg", "use", "key_ops", "n", "e", "crv", "x", "y"]),
            st.none()
            | st.integers()
            | st.sampled_from(["RSA", "EC", "P-256", "AQAB", "AA", "sig", "one"])
            | st.text(max_size=5)
            | st.lists(st.text(max_size=5), max_size=2),
        )
        | st.integers(),
        max_size=5,
    )
)
def test_no_document_breaks_it(entries: list[Any]) -> None:
    for key in read_key_set({"keys": entries}).values():
        assert ALGORITHMS.issuperset(key.algorithms)
