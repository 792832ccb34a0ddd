"""Signed questions over real HTTP: who is answered, what is bounded, who is not kept waiting."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog_broker.server import inquiries as limits
from chiplog_broker.server.health import Health
from chiplog_broker.server.http import serve_health
from chiplog_broker.server.inquiries import Inquiry, InquiryServer
from chiplog_core.ids import Incarnation
from chiplog_core.model.group_exchange import (
    MAX_REQUEST_BYTES,
    GroupRetention,
    RetentionAnswer,
    RetentionRequest,
    RetentionStored,
    to_body,
)
from chiplog_core.signature import (
    INCARNATION_HEADER,
    SIGNATURE_HEADER,
    TIME_HEADER,
    WINDOW_MS,
    request_headers,
)
from tests.server.inquiry_kit import HOST, Asker, inquiry_server, run, served

PATH = "/groups/retention"
ASKED = RetentionRequest(groups=(GroupRetention(group_id="g", retention_ms=5),))
BODY = to_body(ASKED)
ANSWER = RetentionAnswer(groups=(RetentionStored(group_id="g"),))


async def at_once(_asked: RetentionRequest) -> RetentionAnswer:
    return ANSWER


def opened(answer: Callable[[Any], Awaitable[object]] = at_once) -> InquiryServer:
    server = inquiry_server()
    server.open({PATH: Inquiry(RetentionRequest, answer)})
    return server


def test_what_is_signed_is_answered_and_the_answer_is_signed() -> None:
    async def scenario() -> None:
        seen = []

        async def answer(asked: RetentionRequest) -> RetentionAnswer:
            seen.append(asked)
            return ANSWER

        async with served(opened(answer)) as asker:
            assert await asker.ask(PATH, ASKED, RetentionAnswer) == ANSWER
        assert seen == [ASKED]

    run(scenario)


def test_an_unauthenticated_request_gets_no_details() -> None:
    async def scenario() -> None:
        async def nobody_asks(_asked: object) -> object:
            raise AssertionError("asked by a stranger")

        there = Incarnation("f" * 32)
        async with served(opened(nobody_asks)) as asker:
            late = replace(asker, clock_ms=lambda: asker.clock_ms() - WINDOW_MS - 5_000)
            early = replace(asker, clock_ms=lambda: asker.clock_ms() + WINDOW_MS + 5_000)
            stranger = replace(asker, secret="a guess")  # noqa: S106
            lost = replace(stranger, incarnation=there)
            for who in (late, early, stranger, lost):
                status, _, is_signed = await who.post(PATH, BODY)
                assert (status, is_signed) == (403, False)
            assert (await asker.post(PATH, BODY, {}))[0] == 403
            status, _, is_signed = await replace(asker, incarnation=there).post(PATH, BODY)
            assert (status, is_signed) == (409, False)

    run(scenario)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_request_altered_on_the_way_is_not_answered(data: st.DataObject) -> None:
    altered = data.draw(
        st.sampled_from(["path", "body", INCARNATION_HEADER, TIME_HEADER, SIGNATURE_HEADER])
    )
    place = data.draw(st.integers(0, 10**6))
    digit = data.draw(st.sampled_from("0123456789"))

    async def scenario() -> None:
        async with served(opened()) as asker:
            headers = request_headers(asker.secret, asker.message(PATH, BODY))
            path, body = PATH, BODY
            if altered == "path":
                path = f"{PATH}?{digit}"
            elif altered == "body":
                at = place % len(BODY)
                body = BODY[:at] + b" " + BODY[at:]
            else:
                text = headers[altered]
                at = place % len(text)
                if text[at] == digit:
                    return
                headers[altered] = text[:at] + digit + text[at + 1 :]
            status, _, is_signed = await asker.post(path, body, headers)
            assert (status, is_signed) == (403, False)

    run(scenario)


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/groups/other", BODY, 404, b"unknown path"),
        (PATH, b"{", 400, b"body is no JSON"),
        (PATH, b'{"groups":[{"groupId":7}]}', 400, b"body.groups[0].groupId is the number 7"),
        (PATH, b'{"groups":[],"newer":1}', 400, b"body.newer is not a field"),
    ],
)
def test_what_is_not_understood_is_said_and_signed(
    path: str, body: bytes, status: int, text: bytes
) -> None:
    async def scenario() -> None:
        async with served(opened()) as asker:
            found, told, is_signed = await asker.post(path, body)
            assert (found, is_signed) == (status, True)
            assert text in told

    run(scenario)


def test_before_it_serves_and_after_it_answers_with_a_retriable_error() -> None:
    async def scenario() -> None:
        server = inquiry_server()
        async with served(server) as asker:
            assert (await asker.post(PATH, BODY))[::2] == (503, True)
            server.open({PATH: Inquiry(RetentionRequest, at_once)})
            assert (await asker.post(PATH, BODY))[0] == 200
            server.close()
            assert (await asker.post(PATH, BODY))[0] == 503

    run(scenario)


def test_a_fault_of_ours_is_logged_and_reported_as_one(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def fails(_asked: object) -> object:
            raise LookupError("a bug")

        async with served(opened(fails)) as asker:
            status, body, is_signed = await asker.post(PATH, BODY)
            assert (status, is_signed) == (500, True)
            assert b"a bug" not in body

    run(scenario)
    assert [one.message for one in caplog.records] == ["inquiry_failed"]


def test_a_body_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with served(opened()) as asker:
            headers = request_headers(asker.secret, asker.message(PATH, BODY))
            large = b" " * (MAX_REQUEST_BYTES + 1)
            assert (await asker.post(PATH, chunked(large), headers))[0] == 413
            assert b" 413 " in await first_line(asker, len(large), b"")
            packed = gzip.compress(BODY)
            with_encoding = {**headers, "Content-Encoding": "gzip"}
            assert (await asker.post(PATH, packed, with_encoding))[0] == 415
            monkeypatch.setattr(limits, "BODY_TIMEOUT_S", 0.05)
            assert b" 408 " in await first_line(asker, 9, b"{")

    run(scenario)


async def first_line(asker: Asker, promised_bytes: int, sent: bytes) -> bytes:
    """Of the answer to a body that stops on the way."""
    reader, writer = await asyncio.open_connection(HOST, asker.port)
    head = f"POST {PATH} HTTP/1.1\r\nHost: b\r\nContent-Length: {promised_bytes}\r\n\r\n"
    writer.write(head.encode() + sent)
    line = await reader.readline()
    writer.close()
    return line


async def chunked(body: bytes) -> Any:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


def test_probes_are_answered_while_inquiries_wait_and_too_many_are_sent_away() -> None:
    async def scenario() -> None:
        begun: list[object] = []
        may_end = asyncio.Event()

        async def waits(asked: object) -> object:
            begun.append(asked)
            await may_end.wait()
            return ANSWER

        async with served(opened(waits)) as asker:
            loop = asyncio.get_running_loop()
            posts = [
                loop.create_task(asker.post(PATH, BODY)) for _ in range(limits.MAX_WAITING + 4)
            ]
            while sum(one.done() for one in posts) < 4:  # noqa: ASYNC110 - the server's own
                await asyncio.sleep(0.001)
            assert {one.result()[0] for one in posts if one.done()} == {503}
            assert len(begun) == limits.MAX_ANSWERING
            async with asker.session.get(f"http://{HOST}:{asker.port}/livez") as probe:
                assert probe.status == 200
            may_end.set()
            statuses = [(await one)[0] for one in posts]
            assert statuses.count(200) == limits.MAX_WAITING

    run(scenario)


def test_one_that_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "ANSWER_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        async def hangs(_asked: object) -> object:
            await asyncio.Event().wait()
            return ANSWER

        async with served(opened(hangs)) as asker:
            assert (await asker.post(PATH, BODY))[::2] == (503, True)

    run(scenario)
    assert [one.message for one in caplog.records] == ["inquiry_not_answered_in_time"]


def test_strangers_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with served(opened()) as asker:
            for _ in range(5):
                await asker.post(PATH, BODY, {})

    run(scenario)
    assert [one.message for one in caplog.records] == ["inquiry_refused"]


def test_a_standalone_broker_gets_no_inquiries() -> None:
    async def scenario() -> None:
        runner = await serve_health(Health(), HOST, 0)
        try:
            async with aiohttp.ClientSession() as session:
                asker = Asker(session, int(runner.addresses[0][1]))
                assert (await asker.post(PATH, BODY))[0] == 404
        finally:
            await runner.cleanup()

    run(scenario)
