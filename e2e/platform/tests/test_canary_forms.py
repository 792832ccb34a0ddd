"""The search finds a secret in each form that a program might write it in. Needs no cluster."""

import base64
import json
import logging
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.platform.canary import Canary, search

VALUE = "p4ss/word+of=mine~and more"
SECRET = Canary("Secret a, password", VALUE)

SECRETS = st.text(st.characters(codec="utf-8"), min_size=8, max_size=40)
AROUND = st.binary(max_size=7)


@pytest.mark.parametrize(
    "text",
    [
        f"refused: {VALUE}.",
        json.dumps({"password": VALUE}),
        f"data: {base64.b64encode(VALUE.encode()).decode()}",
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
    assert Canary("s", value).found_in(f"x: {encoded}\n")


@pytest.mark.parametrize("text", ["", "p4ss word of mine", VALUE[:-1], VALUE.upper()])
def test_something_else_is_not_taken_for_it(text: str) -> None:
    assert SECRET.found_in(text) is None


def test_findings_are_reported_without_the_value() -> None:
    searched, found = search([SECRET], [("a log", f"x {VALUE}"), ("another", "nothing")])
    assert searched == ["a log", "another"]
    assert found == ["Secret a, password stands in a log (as it is)"]
    assert VALUE not in repr(SECRET)


def test_a_short_value_is_refused_and_not_left_out() -> None:
    with pytest.raises(AssertionError, match="too short"):
        Canary("Secret a, pin", "1234")


def test_a_line_of_a_log_is_read_as_it_is_written(caplog: pytest.LogCaptureFixture) -> None:
    """The way a secret would really get out: as a part of an object that is logged."""
    with caplog.at_level(logging.INFO):
        logging.getLogger("canary").info("applied %s", {"data": {"password": VALUE}})
    assert SECRET.found_in(caplog.text)
