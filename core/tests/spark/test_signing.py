"""What operator and driver sign for each other, and what they do not believe."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.spark.signing import is_signed, signature, signature_of, signed

KEY, APPLICATION, TEXT = "of this run", "nightly-1", '{"state": "Succeeded"}'


def test_a_signature_is_an_hmac_over_what_it_is_the_application_and_the_text() -> None:
    message = f"chiplog-result-1\n{APPLICATION}\n{TEXT}".encode()
    expected = hmac.new(KEY.encode(), message, hashlib.sha256).hexdigest()

    assert signature(KEY, APPLICATION, TEXT) == expected


def test_what_was_signed_with_the_key_is_believed() -> None:
    assert is_signed(KEY, APPLICATION, TEXT, signature(KEY, APPLICATION, TEXT))
    assert is_signed(KEY, APPLICATION, TEXT, signature(KEY, APPLICATION, TEXT, "x"), "x")


@pytest.mark.parametrize(
    ("key", "application", "text", "what"),
    [
        ("of another run", APPLICATION, TEXT, "result"),
        (KEY, "nightly-2", TEXT, "result"),
        (KEY, APPLICATION, "{}", "result"),
        (KEY, APPLICATION, TEXT, "request"),
    ],
)
def test_a_signature_is_for_one_key_application_text_and_file(
    key: str, application: str, text: str, what: str
) -> None:
    given_signature = signature(KEY, APPLICATION, TEXT)

    assert not is_signed(key, application, text, given_signature, what)


@pytest.mark.parametrize("given_signature", ["", "é", "\udc80", "0" * 64])
def test_a_signature_of_any_form_is_only_compared(given_signature: str) -> None:
    assert not is_signed(KEY, APPLICATION, TEXT, given_signature)


def test_without_a_key_nothing_is_signed_and_nothing_is_believed() -> None:
    with pytest.raises(ValueError, match="the key is empty"):
        signature("", APPLICATION, TEXT)
    assert not is_signed("", APPLICATION, TEXT, "")
    assert signed("", APPLICATION, {"request.json": TEXT}) == {"request.json": TEXT}


def test_each_file_gets_a_signature_of_its_own() -> None:
    files = signed(KEY, APPLICATION, {"request.json": TEXT, "pod.yaml": TEXT})

    assert files.keys() == {
        "request.json",
        "pod.yaml",
        "request.json.signature",
        "pod.yaml.signature",
    }
    for name in ("request.json", "pod.yaml"):
        assert files[name] == TEXT
        assert is_signed(KEY, APPLICATION, TEXT, files[signature_of(name)], name)
    assert files["request.json.signature"] != files["pod.yaml.signature"]


@given(st.text(st.characters(codec=None)))
def test_every_text_that_python_can_hold_can_be_signed(text: str) -> None:
    assert is_signed(KEY, APPLICATION, text, signature(KEY, APPLICATION, text))
