"""Tokens whose signature, header or form is wrong."""

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.security.oauth.jwk_set import SigningKey, read_key_set
from chiplog_broker.security.oauth.signatures import (
    MAX_TOKEN_BYTES,
    read_token,
    verified_claims,
)
from chiplog_core.token_claims import TokenRefused
from tests.security.tokens_kit import (
    by_hmac,
    claims,
    ec_key,
    encoded,
    jwk,
    key_set,
    pem,
    rsa_key,
    signed,
    unsigned,
)

KEYS: dict[str, Any] = {
    "RS256": rsa_key("a"),
    "RS384": rsa_key("a"),
    "RS512": rsa_key("a"),
    "PS256": rsa_key("a"),
    "PS384": rsa_key("a"),
    "PS512": rsa_key("a"),
    "ES256": ec_key("a"),
    "ES384": ec_key("a", ec.SECP384R1),
}
CURVES: dict[str, Any] = {"secp256r1": ec.SECP256R1, "secp384r1": ec.SECP384R1}


def public(key: Any, **more: Any) -> SigningKey:
    return read_key_set(key_set(jwk(key, **more)))["one"]


def verified(token: bytes, key: SigningKey) -> Any:
    return verified_claims(read_token(token), key)


def is_refused(token: bytes, key: SigningKey) -> None:
    with pytest.raises(TokenRefused) as error:
        verified(token, key)
    assert len(token) < 20 or token[-20:].decode("latin-1") not in str(error.value)


@pytest.mark.parametrize("algorithm", KEYS)
def test_what_a_key_has_signed_is_verified(algorithm: str) -> None:
    key = KEYS[algorithm]
    assert verified(signed(key, algorithm), public(key)) == claims()


@pytest.mark.parametrize("algorithm", KEYS)
def test_what_another_key_has_signed_is_refused(algorithm: str) -> None:
    mine = KEYS[algorithm]
    curve = getattr(mine, "curve", None)
    other: Any = rsa_key("other") if curve is None else ec_key("other", CURVES[curve.name])
    is_refused(signed(other, algorithm), public(mine))


def test_a_public_key_is_no_secret() -> None:
    """The confusion of algorithms: what everybody knows would sign."""
    key = rsa_key("a")
    for secret in (pem(key), pem(key).strip(), encoded(jwk(key)), b""):
        is_refused(by_hmac(secret), public(key))
    is_refused(by_hmac(pem(key), alg="RS256"), public(key))


@pytest.mark.parametrize("name", ["none", "None", "NONE", "", "HS256", "HS512", "EdDSA", "ES512"])
def test_other_algorithms_are_refused(name: str) -> None:
    is_refused(unsigned(name), public(rsa_key("a")))


def test_a_key_with_an_algorithm_verifies_no_other_one() -> None:
    is_refused(signed(rsa_key("a"), "RS256"), public(rsa_key("a"), alg="PS256"))
    is_refused(signed(rsa_key("a"), "RS256"), public(ec_key("a")))


def test_a_token_does_not_bring_its_own_key() -> None:
    attacker = rsa_key("attacker")
    headers = {
        "jwk": jwk(attacker),
        "jku": "https://attacker.example/keys",
        "x5u": "https://attacker.example/chain",
        "x5c": ["AA=="],
    }
    is_refused(signed(attacker, header=headers), public(rsa_key("a")))
    assert verified(signed(rsa_key("a"), header=headers), public(rsa_key("a"))) == claims()


@pytest.mark.parametrize(
    "header", [{"crit": ["exp"]}, {"crit": []}, {"b64": False}, {"b64": 0}, {"kid": 7}]
)
def test_headers_that_change_the_meaning_are_refused(header: dict[str, Any]) -> None:
    signing = encoded({"alg": "RS256", "kid": "one", **header}) + b"." + encoded(claims())
    signature = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(
        signing, rsa_key("a")
    )
    is_refused(signing + b"." + encoded(signature), public(rsa_key("a")))


@pytest.mark.parametrize(
    "payload", [b"[]", b"7", b"null", b"{", b"\xff", b"[" * 9_000, b'{"exp":' + b"9" * 5_000 + b"}"]
)
def test_a_signed_payload_that_is_no_object_is_refused(payload: bytes) -> None:
    token = jwt.PyJWS().encode(payload, rsa_key("a"), "RS256", headers={"kid": "one"})
    is_refused(token.encode(), public(rsa_key("a")))


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"a",
        b"a.b",
        b"..",
        b"a.b.c.d",
        b"eyJhbGciOiJSUzI1NiJ9.e30.!",
        b"eyJhbGciOiJSUzI1NiJ9.e30.A A",
        encoded(b"[" * 9_000) + b".e30.AA",
        encoded([]) + b".e30.AA",
        encoded({"alg": ["RS256"]}) + b".e30.AA",
        encoded({"alg": "RS256", "kid": "k" * 257}) + b".e30.AA",
    ],
)
def test_garbage_is_refused(token: bytes) -> None:
    is_refused(token, public(rsa_key("a")))


def test_a_huge_token_is_refused_unread() -> None:
    key = rsa_key("a")
    fits = signed(key, filling="x" * 11_000)
    assert len(fits) <= MAX_TOKEN_BYTES
    assert verified(fits, public(key))["sub"] == "alice"
    is_refused(signed(key, filling="x" * 13_000), public(key))


@given(st.data())
def test_a_changed_token_is_refused(data: st.DataObject) -> None:
    """One character of a token is another one, or is missing. Bits beyond the last byte of a
    signature have no meaning, so the last character is not changed."""
    algorithm = data.draw(st.sampled_from(["RS256", "ES256"]))
    token = bytearray(signed(KEYS[algorithm], algorithm))
    place = data.draw(st.integers(0, len(token) - 2))
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
    other = data.draw(st.sampled_from([None, *alphabet]))
    if other is None:
        del token[place]
    elif token[place] == other:
        return
    else:
        token[place] = other
    with pytest.raises(TokenRefused):
        verified(bytes(token), public(KEYS[algorithm]))


@given(st.binary(max_size=200))
def test_no_bytes_break_it(token: bytes) -> None:
    is_refused(token + b"." + token + b".AAAA", public(rsa_key("a")))
