"""The search finds a secret in each form that a program might write it in. Needs no cluster."""

import base64
import json
import logging
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_operator.users.verifiers import Verifier
from e2e.kafka.certificates import Authority
from e2e.security.canary import Canary, merged, of_key, of_password, of_verifier, search

VALUE = "p4ss/word+of=mine~and more"
SECRET = Canary("Secret a, password", VALUE.encode())
KEY = Authority.create().client("alice").key
NUMBER = of_key("Secret a, user.key", KEY, frozenset())

SECRETS = st.text(st.characters(codec="utf-8"), min_size=8, max_size=40)
AROUND = st.binary(max_size=7)


@pytest.mark.parametrize(
    "text",
    [
        f"refused: {VALUE}.",
        json.dumps({"password": VALUE}),
        f"data: {base64.b64encode(VALUE.encode()).decode()}",
        f"data: {base64.urlsafe_b64encode(VALUE.encode()).decode()}",
        f"http://user:{quote(VALUE, safe='')}@host",
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        f"Basic {base64.b64encode(b'user:' + VALUE.encode()).decode()}",
    ],
)
def test_it_is_found(text: str) -> None:
    assert SECRET.found_in(text)


@given(SECRETS, AROUND, AROUND)
def test_it_is_found_wherever_it_lies_in_base64(value: str, before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + value.encode() + after).decode()
    assert Canary("s", value.encode()).found_in(f"x: {encoded}\n")


@given(st.binary(min_size=16, max_size=40))
def test_bytes_are_found_as_they_are_shown(value: bytes) -> None:
    canary = Canary("s", value)
    assert canary.found_in(f"made {[value]!r}")
    assert canary.found_in(json.dumps({"key": base64.b64encode(value).decode()}))


@pytest.mark.parametrize(
    "text",
    [
        KEY.decode(),
        "  key: |\n" + "".join(f"    {line}\n" for line in KEY.decode().splitlines()),
        json.dumps({"key": KEY.decode()}),
        repr(KEY),
        base64.b64encode(NUMBER.value).decode(),
        NUMBER.value.hex(),
    ],
    ids=("pem", "indented", "json", "repr", "base64", "hex"),
)
def test_a_key_is_found_in_each_of_its_encodings(text: str) -> None:
    assert NUMBER.found_in(text)


def test_a_certificate_is_not_taken_for_its_key() -> None:
    assert NUMBER.found_in(Authority.create().client("alice").certificate.decode()) is None


def test_what_follows_from_a_password_is_found() -> None:
    verifier = Verifier.of(VALUE).text().encode()
    stored = list(of_verifier("alice", verifier, frozenset({"home"})))
    derived = list(of_password("alice", VALUE, verifier))
    assert [one.name for one in (*stored, *derived)] == [
        "alice, storedKey of SCRAM-SHA-512",
        "alice, serverKey of SCRAM-SHA-512",
        "alice, salted for SCRAM-SHA-512",
        "alice, client key of SCRAM-SHA-512",
    ]
    _, found = search([*stored, *derived], [("home", verifier.decode())])
    assert found == []
    _, found = search([*stored, *derived], [("elsewhere", verifier.decode())])
    assert len(found) == 2
    _, found = search(derived, [("home", derived[0].value.hex())])
    assert len(found) == 1


@pytest.mark.parametrize("text", ["", "p4ss word of mine", VALUE[:-1], VALUE.upper()])
def test_something_else_is_not_taken_for_it(text: str) -> None:
    assert SECRET.found_in(text) is None


def test_findings_are_reported_without_the_value() -> None:
    searched, found = search([SECRET], [("a log", f"x {VALUE}"), ("another", "nothing")])
    assert searched == ["a log", "another"]
    assert found == ["Secret a, password stands in a log (as it is)"]
    assert VALUE not in repr(SECRET)


def test_a_value_of_two_secrets_is_at_home_in_both() -> None:
    one = Canary("one", b"the value", frozenset({"a"}))
    two = Canary("two", b"the value", frozenset({"b"}))
    (both,) = merged([one, two, one])
    assert both == Canary("one", b"the value", frozenset({"a", "b"}))


def test_a_short_value_is_refused_and_not_left_out() -> None:
    with pytest.raises(AssertionError, match="too short"):
        Canary("Secret a, pin", b"1234")


def test_a_line_of_a_log_is_read_as_it_is_written(caplog: pytest.LogCaptureFixture) -> None:
    """The way a secret would really get out: as a part of an object that is logged."""
    with caplog.at_level(logging.INFO):
        logging.getLogger("canary").info("applied %s", {"data": {"password": VALUE}})
    assert SECRET.found_in(caplog.text)
