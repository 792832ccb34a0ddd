"""A signature fits one message only, to one process, for a short time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import Incarnation
from chiplog_core.signature import (
    INCARNATION_HEADER,
    SIGNATURE_HEADER,
    TIME_HEADER,
    WINDOW_MS,
    Message,
    Verdict,
    answer_signature,
    is_answer,
    judge,
    message_of,
    request_headers,
    request_signature,
)

SECRET = "correct horse"  # noqa: S105 - of this test
HERE = Incarnation("0" * 32)
NOW_MS = 1_800_000_000_000

one_line = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=20)
messages = st.builds(
    Message,
    method=st.sampled_from(["GET", "POST"]),
    path=one_line,
    incarnation=st.text("0123456789abcdef", min_size=32, max_size=32).map(Incarnation),
    time_ms=st.integers(0, 10**15 - 1),
    body=st.binary(max_size=50),
)


def message(body: bytes = b"{}") -> Message:
    return Message(method="POST", path="/a", incarnation=HERE, time_ms=NOW_MS, body=body)


def verdict(
    asked: Message,
    signature: str,
    *,
    secrets: tuple[str, ...] = (SECRET,),
    incarnation: Incarnation = HERE,
    now_ms: int = NOW_MS,
) -> Verdict:
    return judge(secrets, asked, signature, incarnation=incarnation, now_ms=now_ms)[0]


@given(messages)
def test_what_is_signed_is_found_again_in_its_headers_and_accepted(sent: Message) -> None:
    found = message_of(sent.method, sent.path, request_headers(SECRET, sent), sent.body)

    assert found is not None
    assert found[0] == sent
    judged = judge([SECRET], *found, incarnation=sent.incarnation, now_ms=sent.time_ms)
    assert judged == (Verdict.ACCEPTED, SECRET)


@given(messages, messages)
def test_no_two_messages_share_a_signature(one: Message, other: Message) -> None:
    signatures_agree = request_signature(SECRET, one) == request_signature(SECRET, other)

    assert signatures_agree == (one == other)


@given(messages, st.data())
def test_what_moves_from_one_part_to_the_next_is_another_message(
    one: Message, data: st.DataObject
) -> None:
    """Parts that were joined without a border between them would be signed alike."""
    cut = data.draw(st.integers(0, len(one.path)))
    other = replace(one, path=one.path[:cut], body=one.path[cut:].encode() + one.body)

    agree = request_signature(SECRET, one) == request_signature(SECRET, other)
    assert agree == (one == other)


@given(messages, st.data())
def test_a_message_altered_anywhere_is_forged(sent: Message, data: st.DataObject) -> None:
    signature = request_signature(SECRET, sent)
    field = data.draw(st.sampled_from(["method", "path", "incarnation", "time_ms", "body"]))
    other = data.draw(messages.map(lambda one: getattr(one, field)))
    if other == getattr(sent, field):
        return
    altered = replace(sent, **{field: other})

    judged = verdict(altered, signature, incarnation=altered.incarnation, now_ms=altered.time_ms)
    assert judged is Verdict.FORGED


@given(st.integers(0, 63), st.sampled_from("0123456789abcdef"))
def test_a_signature_altered_in_any_digit_is_forged(place: int, digit: str) -> None:
    signature = request_signature(SECRET, message())
    altered = signature[:place] + digit + signature[place + 1 :]

    expected = Verdict.ACCEPTED if altered == signature else Verdict.FORGED
    assert verdict(message(), altered) is expected


def test_another_secret_is_forged_and_the_one_before_counts_while_it_is_named() -> None:
    signature = request_signature("before", message())

    assert verdict(message(), signature) is Verdict.FORGED
    assert verdict(message(), signature, secrets=(SECRET, "before")) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("late_ms", "expected"),
    [
        (0, Verdict.ACCEPTED),
        (WINDOW_MS, Verdict.ACCEPTED),
        (-WINDOW_MS, Verdict.ACCEPTED),
        (WINDOW_MS + 1, Verdict.UNTIMELY),
        (-WINDOW_MS - 1, Verdict.UNTIMELY),
    ],
)
def test_a_request_is_good_for_a_short_time(late_ms: int, expected: Verdict) -> None:
    signature = request_signature(SECRET, message())

    assert verdict(message(), signature, now_ms=NOW_MS + late_ms) is expected


def test_a_request_for_another_process_says_so_only_to_who_can_sign() -> None:
    there = Incarnation("f" * 32)
    signature = request_signature(SECRET, message())

    assert verdict(message(), signature, incarnation=there) is Verdict.FOR_ANOTHER
    assert verdict(message(), "0" * 64, incarnation=there) is Verdict.FORGED


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (INCARNATION_HEADER, "0" * 31),
        (INCARNATION_HEADER, "0" * 32 + "\n"),
        (TIME_HEADER, "-1"),
        (TIME_HEADER, "1e3"),
        (TIME_HEADER, "\u0661"),  # a digit to Python's int, of no number that we write
        (SIGNATURE_HEADER, "0" * 63 + "g"),
        (SIGNATURE_HEADER, ""),
    ],
)
def test_a_header_that_is_none_of_ours_makes_no_request(header: str, text: str) -> None:
    headers = {**request_headers(SECRET, message()), header: text}

    assert message_of("POST", "/a", headers, b"{}") is None


def test_a_header_that_is_missing_makes_no_request() -> None:
    for missing in (INCARNATION_HEADER, TIME_HEADER, SIGNATURE_HEADER):
        headers = request_headers(SECRET, message())
        del headers[missing]

        assert message_of("POST", "/a", headers, b"{}") is None


def test_an_answer_belongs_to_its_request_its_status_and_its_body() -> None:
    request = request_signature(SECRET, message())
    other_request = request_signature(SECRET, message(b"[]"))
    signature = answer_signature(SECRET, request, 200, b"ok")

    assert is_answer(SECRET, request, 200, b"ok", signature)
    assert not is_answer(SECRET, other_request, 200, b"ok", signature)
    assert not is_answer(SECRET, request, 409, b"ok", signature)
    assert not is_answer(SECRET, request, 200, b"no", signature)
    assert not is_answer("another", request, 200, b"ok", signature)
    assert not is_answer(SECRET, request, 200, b"ok", "é")


def test_nothing_is_signed_with_an_empty_secret() -> None:
    with pytest.raises(ValueError, match="empty secret"):
        request_signature("", message())


def test_a_part_with_a_lines_end_is_not_signed() -> None:
    with pytest.raises(ValueError, match="line break"):
        request_signature(SECRET, replace(message(), path="/a\nx"))


def test_headers_of_ours_make_the_request_that_was_signed() -> None:
    headers = request_headers(SECRET, message())

    found = message_of("POST", "/a", headers, b"{}")

    assert found == (message(), request_signature(SECRET, message()))
