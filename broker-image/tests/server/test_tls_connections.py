"""Listeners with TLS: who is let in, and with which certificates and CAs."""

import asyncio
import gc
import os
import ssl
import weakref
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.security.listener_security import ClientAuth
from e2e.kafka.certificates import Authority
from tests.conftest import Client
from tests.server.exposition_kit import told
from tests.server.tls_kit import (
    OK,
    Pki,
    Run,
    connect,
    files_of,
    only_peer,
    serving,
    shake_hands,
    until,
)

if TYPE_CHECKING:
    from tests.conftest import Kit


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_records_are_produced_and_fetched(
    kit: "Kit", pki: Pki, run: Run, version: ssl.TLSVersion
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            context = pki.context()
            context.minimum_version = context.maximum_version = version
            client = await connect(kit, context)
            await client.metadata()
            assert only_peer(acceptor).principal == "User:ANONYMOUS"
            await client.create("orders")
            value = kit.batch(os.urandom(900_000))
            for _ in range(5):
                (done,) = await client.produce("orders", value)
                assert done.error_code == OK
            topic_id = await client.topic_id("orders")
            ((code, records),) = await client.fetch(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            assert code == OK
            assert records.count(value[21:1000]) == 5
            assert len(records) == 5 * len(value)
            (node,) = (await client.metadata()).brokers
            assert (node.host, node.port) == kit.broker.addresses["tls"]
            name, protocol, _ = client.writer.get_extra_info("cipher")
            assert "GCM" in name or "CHACHA20" in name, (name, protocol)

    run(scenario)


def test_a_client_is_the_subject_of_its_certificate(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            client = await connect(kit, pki.context(pki.clients.client("orders, inc")))
            await client.metadata()
            assert only_peer(acceptor).principal == "User:CN=orders\\, inc"

    run(scenario)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_right_certificate_is_refused(
    kit: "Kit", pki: Pki, run: Run, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            address = kit.broker.addresses["tls"]
            for identity in (None, pki.servers.client("another"), pki.clients.server()):
                context = pki.context(identity)
                context.minimum_version = context.maximum_version = version
                with pytest.raises(ssl.SSLError, match="ALERT"):
                    await asyncio.to_thread(shake_hands, address, context, None)
            await until(lambda: kit.broker.requests.failed_handshakes_total == 3)
            assert not acceptor._connections
            assert acceptor._quota._count == 0

    run(scenario)
    (first, *_) = [one for one in caplog.records if one.message == "tls_handshake_failed"]
    assert first.reason == "peer did not return a certificate"  # type: ignore[attr-defined]
    assert not [one for one in caplog.records if one.exc_info]


def test_a_certificate_may_be_missing_where_it_is_only_requested(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUESTED)) as acceptor:
            client = await connect(kit, pki.context())
            await client.metadata()
            assert only_peer(acceptor).principal == "User:ANONYMOUS"
            await (await connect(kit, pki.context(pki.clients.client("x")))).metadata()
            principals = {one.peer.principal for one in acceptor._connections}
            assert principals == {"User:ANONYMOUS", "User:CN=x"}
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await (await connect(kit, pki.context(pki.servers.client("forged")))).metadata()

    kit.run(scenario)


def test_old_versions_and_other_ciphers_are_refused(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            old = pki.context()
            with pytest.warns(DeprecationWarning, match="TLSv1"):
                old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            cbc = pki.context()
            cbc.maximum_version = ssl.TLSVersion.TLSv1_2
            cbc.set_ciphers("ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA")
            for context, alert in ((old, "PROTOCOL_VERSION"), (cbc, "HANDSHAKE_FAILURE")):
                with pytest.raises(ssl.SSLError, match=f"ALERT_{alert}"):
                    await connect(kit, context)
            wrong_ca = ssl.create_default_context(cadata=pki.clients.pem.decode())
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(kit, wrong_ca)
            await until(lambda: kit.broker.requests.failed_handshakes_total == 3)

    kit.run(scenario)


def test_a_version_that_is_not_enabled_is_refused(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(protocols=("TLSv1.3",))):
            await connect(kit, pki.context())
            old = pki.context()
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
                await connect(kit, old)

    kit.run(scenario)


def test_a_new_certificate_is_served_and_connections_stay(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            old_identity = pki.clients.client("old")
            old = await connect(kit, pki.context(old_identity))
            await old.create("orders")
            before = files_of(acceptor).current().fingerprint
            old_clients, pki.clients = pki.clients, Authority.create("clients")
            pki.clients.write(pki.truststore, old_clients)
            pki.servers.server().write(pki.keystore)
            await until(lambda: files_of(acceptor).current().fingerprint != before)
            new = await connect(kit, pki.context(pki.clients.client("new")))
            await new.metadata()
            assert served(new) != served(old)
            # The old CA is still trusted, until it is removed.
            await (await connect(kit, pki.context(old_identity))).metadata()
            pki.clients.write(pki.truststore)
            await until(lambda: len(files_of(acceptor).current().trusted) == 1)
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await (await connect(kit, pki.context(old_identity))).metadata()
            (done,) = await old.produce("orders", kit.batch(b"x"))
            assert done.error_code == OK

    run(scenario)


def served(client: Client) -> bytes:
    certificate = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert isinstance(certificate, bytes)
    return certificate


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_saved_session_does_not_outlive_its_ca(
    kit: "Kit", pki: Pki, version: ssl.TLSVersion
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            context = pki.context(pki.clients.client("old"))
            context.minimum_version = context.maximum_version = version
            address = kit.broker.addresses["tls"]
            session, reused = await asyncio.to_thread(shake_hands, address, context, None)
            assert not reused
            assert session is None or not session.has_ticket
            Authority.create("clients").write(pki.truststore)
            before = files_of(acceptor).current().trusted
            await until(lambda: files_of(acceptor).current().trusted != before)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(shake_hands, address, context, session)

    kit.run(scenario)


def test_the_expiry_of_what_is_served_is_a_metric(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            samples = await told(kit.broker)
            found = samples["chiplog_broker_certificate_expiry_timestamp_seconds", "tls"]
            assert found == files_of(acceptor).current().not_after_s

    kit.run(scenario)


def test_a_client_whose_certificate_has_expired_cannot_resume_its_session(
    kit: "Kit", pki: Pki, run: Run
) -> None:
    async def scenario() -> None:
        settings = pki.settings(ClientAuth.REQUIRED, protocols=("TLSv1.2",))
        async with serving(kit, settings):
            address = kit.broker.addresses["tls"]
            lifetime_s = 5
            context = pki.context(pki.clients.client("orders", days=lifetime_s / 86_400))
            session, _ = await asyncio.to_thread(shake_hands, address, context, None)
            assert session is not None
            _, was_resumed = await asyncio.to_thread(shake_hands, address, context, session)
            assert was_resumed
            await asyncio.sleep(lifetime_s + 1)
            with pytest.raises(OSError, match=r"EOF|end of the stream|reset"):
                await asyncio.to_thread(shake_hands, address, context, session)

    run(scenario)


def test_who_confuses_tls_and_plain_text_is_understood(
    kit: "Kit", pki: Pki, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            reader, writer = await asyncio.open_connection(*kit.broker.addresses["tls"])
            writer.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
            await reader.read()
            writer.close()
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await asyncio.open_connection(*kit.broker.addresses["PLAINTEXT"], ssl=pki.context())

            def reasons() -> set[str]:
                return {getattr(one, "reason", "").partition(",")[0] for one in caplog.records}

            expected = {"the client uses TLS", "the client does not use TLS"}
            await until(lambda: reasons() >= expected)

    run(scenario)


def test_a_closed_connection_is_freed_without_a_garbage_collection(
    kit: "Kit", pki: Pki, run: Run
) -> None:
    """Its buffers of TLS are large, and clients may come and go quickly."""

    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            gc.collect()
            gc.disable()
            try:
                client = await connect(kit, pki.context())
                await client.metadata()
                (connection,) = acceptor._connections
                is_freed = weakref.ref(connection)
                del connection
                client.writer.close()
                await until(lambda: is_freed() is None)
            finally:
                gc.enable()

    run(scenario)
