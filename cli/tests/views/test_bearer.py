"""Tokens, and what is no token."""

import json
from base64 import b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Any

import pytest

from chiplog_cli.bearer import request_to, token_in, token_in_answer
from chiplog_cli.first_messages import bearer_message
from chiplog_cli.security import TokenEndpoint

NOW_S = 1_800_000_000.0
SECRET = "not-to-be-seen"  # noqa: S105 - of a test


def part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def token(**claims: Any) -> str:
    return f"{part({'alg': 'RS256'})}.{part(claims)}.c2ln"


@pytest.mark.parametrize("subject", ["a", "ab", "abc", "abcd"])  # of any length, without padding
def test_a_token_is_renewed_when_most_of_its_time_is_over(subject: str) -> None:
    text = token(sub=subject, exp=NOW_S + 100)
    found = token_in(f" {text}\n", NOW_S)
    assert (found.text, found.expires_s, found.renewed_s) == (text, NOW_S + 100, NOW_S + 80)
    assert text not in repr(found)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "there is no signed token"),
        (SECRET, "there is no signed token"),
        (f"{token(exp=NOW_S + 1)} {token(exp=NOW_S + 1)}", "there is no signed token"),
        (f"{token(exp=NOW_S + 1)}\x01auth=x", "there is no signed token"),
        ("e30.e30.e30", "does not say when it expires"),
        (f"e30.{part([1])}.e30", "does not say when it expires"),
        (f"e30.{part(1)}.e30", "does not say when it expires"),
        ("e30.a.e30", "does not say when it expires"),
        ("e30.____.e30", "does not say when it expires"),
        (token(exp=True), "is no number"),
        (token(exp="1"), "is no number"),
        (token(exp=None), "is no number"),
        (token(exp=NOW_S), "has expired"),
        (token(exp=float("nan")), "has expired"),
        (token(exp=float("inf")), "has expired"),
        (token(exp=10**400), "has expired"),
    ],
)
def test_what_is_no_token(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what) as refused:
        token_in(text, NOW_S)
    assert SECRET not in str(refused.value)


def test_the_request_to_an_issuer() -> None:
    secret = '+/"\\ä'  # noqa: S105 - of a test
    endpoint = TokenEndpoint(url="https://a/b", client_id="an id", client_secret=secret)
    body, headers = request_to(endpoint)
    assert body == b"grant_type=client_credentials"
    scheme, _, basic = headers["Authorization"].partition(" ")
    assert (scheme, b64decode(basic, validate=True).decode()) == ("Basic", 'an id:+/"\\ä')
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    encoded = replace(endpoint, scope="x y", encodes_header=True)
    body, headers = request_to(encoded)
    assert body == b"grant_type=client_credentials&scope=x+y"
    basic = headers["Authorization"].removeprefix("Basic ")
    assert b64decode(basic, validate=True) == b"an+id:%2B%2F%22%5C%C3%A4"
    assert "ä" not in repr(encoded)


@pytest.mark.parametrize("name", ["access_token", "id_token"])
def test_an_answer_with_a_token(name: str) -> None:
    text = token(exp=NOW_S + 10)
    body = json.dumps({name: text, "expires_in": 5}).encode()
    assert token_in_answer(200, body, NOW_S).text == text


@pytest.mark.parametrize(
    ("status", "body", "what"),
    [
        (200, b"{}", "there is no token in the answer"),
        (200, b"[]", "there is no token in the answer"),
        (200, b"<html>", "there is no token in the answer"),
        (200, b"\xff", "there is no token in the answer"),
        (200, b"[" * 60_000, "there is no token in the answer"),
        (200, b'{"access_token": 1}', "there is no token in the answer"),
        (200, f'{{"access_token": "{SECRET}"}}'.encode(), "there is no signed token"),
        (302, b"", "the answer is 302$"),
        (400, b'{"error": "invalid_scope"}', "the answer is 400 invalid_scope$"),
        (400, f'{{"error": "\\n{SECRET}"}}'.encode(), "the answer is 400$"),
        (500, f'{{"error": "a", "error_description": "{SECRET}"}}'.encode(), "the answer is 500 a"),
    ],
)
def test_an_answer_without_a_token(status: int, body: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what) as refused:
        token_in_answer(status, body, NOW_S)
    assert SECRET not in str(refused.value)


def test_the_message_with_a_token() -> None:
    """As in RFC 7628, section 4.1, but for the identity to act as, which is left out."""
    assert bearer_message("vF9d.ft4q.mT", []) == b"n,,\x01auth=Bearer vF9d.ft4q.mT\x01\x01"
    assert bearer_message("t", [("host", "a"), ("port", "1")]) == (
        b"n,,\x01auth=Bearer t\x01host=a\x01port=1\x01\x01"
    )
