"""Real sockets on the loopback: which answers to a signed question count."""

import asyncio
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from chiplog_core.certificates.authority import Term
from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.naming import ports
from chiplog_core.naming.peers import broker_host, operator_host
from chiplog_core.observed.processes import Identity
from chiplog_core.signature import (
    SIGNATURE_HEADER,
    Verdict,
    answer_signature,
    judge,
    message_of,
)
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates.issuing import Owner, Usage
from chiplog_operator.certificates.material import CaMaterial, LeafMaterial
from chiplog_operator.certificates.own import OwnCertificate, OwnCertificates
from chiplog_operator.clock import SystemClock
from chiplog_operator.groups import port as groups_port
from chiplog_operator.groups.port import Access, HttpGroupsPort, NoAnswer, WrongSecret

HOST, SECRET = "127.0.0.1", "of the cluster"
KEY = ClusterKey("shop", "demo")
ME = Incarnation("0123456789abcdef" * 2)
WHOM = Identity(broker_id=BrokerId(1), incarnation=ME, pod_uid="u", address=HOST)
PATH = "/groups/facts"


async def honest(request: web.Request) -> web.Response:
    """As a broker answers."""
    body = await request.read()
    found = message_of(request.method, request.raw_path, request.headers, body)
    assert found is not None
    message, signature = found
    now_ms = int(SystemClock().now().timestamp() * 1000)
    verdict, secret = judge([SECRET], message, signature, incarnation=ME, now_ms=now_ms)
    if verdict is not Verdict.ACCEPTED:
        return web.Response(status=409 if verdict is Verdict.FOR_ANOTHER else 403)
    said = b'{"asked":' + body + b"}"
    signed = answer_signature(secret, signature, 200, said)
    return web.Response(body=said, headers={SIGNATURE_HEADER: signed})


async def forged(request: web.Request) -> web.Response:
    """By somebody who does not know the secret."""
    made = await honest(request)
    return web.Response(body=b'{"asked":2}', headers=made.headers)


async def unsigned(_: web.Request) -> web.Response:
    return web.Response(body=b"{}")


async def failing(request: web.Request) -> web.Response:
    """Signed, and no answer."""
    signature = request.headers[SIGNATURE_HEADER]
    signed = answer_signature(SECRET, signature, 503, b"no")
    return web.Response(status=503, body=b"no", headers={SIGNATURE_HEADER: signed})


async def elsewhere(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})


async def hanging(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(10_000):
        await answer.write(b"x" * 1024)
    return answer


def asked(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    secret: str = SECRET,
    whom: Identity = WHOM,
    own: ssl.SSLContext | None = None,
    served: ssl.SSLContext | None = None,
) -> bytes:
    """The answer to one question; `own` is the operator's TLS, `served` the broker's."""

    async def scenario() -> bytes:
        app = web.Application()
        app.router.add_post(PATH, handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        listening = socket.create_server((HOST, 0))
        name = "HEALTH" if served is None else "OPERATOR"
        monkeypatch.setattr(ports, name, listening.getsockname()[1])
        await web.SockSite(runner, listening, ssl_context=served).start()
        try:
            async with HttpGroupsPort(SystemClock()) as port:
                access = Access(cluster=KEY, secret=secret, tls=own)
                return await port.ask(whom, access, PATH, b"1")
        finally:
            await runner.cleanup()

    return asyncio.run(asyncio.wait_for(scenario(), timeout=60))


def test_an_answer_of_the_process_that_was_asked_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(honest, monkeypatch) == b'{"asked":1}'


@pytest.mark.parametrize("handler", [forged, unsigned, failing, elsewhere, endless])
def test_no_other_answer_counts(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups_port, "MAX_ANSWER_BYTES", 100_000)
    with pytest.raises(NoAnswer):
        asked(handler, monkeypatch)


def test_another_process_there_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Identity(
        broker_id=BrokerId(1), incarnation=Incarnation("f" * 32), pod_uid="u", address=HOST
    )
    with pytest.raises(NoAnswer, match="status 409"):
        asked(honest, monkeypatch, whom=other)


def test_another_secret_is_known_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongSecret):
        asked(honest, monkeypatch, secret="of another cluster")  # noqa: S106


def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_port, "ANSWER_WITHIN_S", 0.05)
    with pytest.raises(NoAnswer, match="no answer within"):
        asked(hanging, monkeypatch)


def test_where_nobody_listens_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> Any:
        with socket.create_server((HOST, 0)) as listening:
            monkeypatch.setattr(ports, "HEALTH", listening.getsockname()[1])
        async with HttpGroupsPort(SystemClock()) as port:
            return await port.ask(WHOM, Access(cluster=KEY, secret=SECRET), PATH, b"1")

    with pytest.raises(NoAnswer):
        asyncio.run(asyncio.wait_for(scenario(), timeout=60))


# -- with TLS

TERM = Term(validity=timedelta(days=9), renewal=timedelta(days=1))
SECURED = replace(WHOM, uses_tls=True)


def made() -> CaMaterial:
    return CaMaterial().advanced("demo cluster-ca", (), TERM, datetime.now(UTC))


def issued(ca: CaMaterial, host: str, usage: Usage) -> LeafMaterial:
    return LeafMaterial.issue(ca, Owner.process("demo", [host], usage), TERM, datetime.now(UTC))


def of_operator(ca: CaMaterial) -> ssl.SSLContext:
    own = OwnCertificates()
    leaf = issued(ca, operator_host("demo", "shop"), Usage.CLIENT)
    own.show(KEY, OwnCertificate.of(leaf, ca.pems))
    context = own.of(KEY)
    assert context is not None
    own.show(KEY, OwnCertificate.of(leaf, ca.pems))
    assert own.of(KEY) is context, "nothing has changed"
    return context


def of_broker(folder: Path, ca: CaMaterial, number: int = 1) -> ssl.SSLContext:
    """That of a broker, which asks for certificates of the CA."""
    leaf = issued(ca, broker_host("demo", "shop", BrokerId(number)), Usage.BOTH)
    file = folder / "broker.pem"
    file.write_text(leaf.certificate + leaf.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.load_verify_locations(cadata="".join(ca.pems))
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_a_broker_with_a_certificate_is_asked_with_tls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ca = made()
    assert (
        asked(
            honest, monkeypatch, whom=SECURED, own=of_operator(ca), served=of_broker(tmp_path, ca)
        )
        == b'{"asked":1}'
    )


def test_another_broker_or_ca_at_its_address_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ca = made()
    for served in (of_broker(tmp_path, ca, 2), of_broker(tmp_path, made())):
        with pytest.raises(NoAnswer, match="ertificate"):
            asked(honest, monkeypatch, whom=SECURED, own=of_operator(ca), served=served)


def test_without_a_certificate_of_its_own_the_operator_asks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nobody_asks(_: web.Request) -> web.Response:
        raise AssertionError("in plain text")

    with pytest.raises(NoAnswer, match="no certificate of the cluster CA yet"):
        asked(nobody_asks, monkeypatch, whom=SECURED)


def test_its_key_is_written_to_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert of_operator(made()).get_ca_certs()


def test_a_certificate_is_forgotten_with_its_cluster() -> None:
    own, ca = OwnCertificates(), made()
    own.show(KEY, OwnCertificate.of(issued(ca, "operator", Usage.CLIENT), ca.pems))
    own.show(KEY, None)
    assert own.of(KEY) is None
