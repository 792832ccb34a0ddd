"""What a broker's status says of the certificates at its listeners."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.kubernetes import certificate_reports
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.security import tls
from chiplog_broker.security.listener_security import ClientAuth
from chiplog_core.limits import MAX_TRUSTED_CAS
from chiplog_core.model.listener_certificate import ListenerCertificate, digest_of
from e2e.kafka.certificates import Authority
from tests.server.tls_kit import Pki

if TYPE_CHECKING:
    from tests.metadata.kubernetes.conftest import MemberKit


@pytest.fixture
def pki(member: "MemberKit", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pki:
    """The files of a listener whose clients need certificates, beside one in plain text."""
    monkeypatch.setattr(certificate_reports, "LOOK_S", 0.02)
    monkeypatch.setattr(tls, "REREAD_AFTER_S", 0.0)
    found = Pki(tmp_path / "pki")
    settings = found.settings(ClientAuth.REQUIRED)
    member.more_listeners = [Listener("tls", "127.0.0.1", 0, "127.0.0.1", 0, tls=settings)]
    return found


def report(member: "MemberKit") -> ListenerCertificate:
    (found,) = member.operator.status.listener_certificates
    return found


def test_a_process_announces_its_listeners_before_it_is_admitted(
    member: "MemberKit", pki: Pki
) -> None:
    async def scenario() -> None:
        async with member.starting():
            assert report(member) == ListenerCertificate(listener="tls")
        async with member.admitted(1):
            await member.eventually(lambda: report(member).fingerprint is not None)
        async with member.starting():
            # What the last process showed says nothing of this one.
            assert report(member) == ListenerCertificate(listener="tls")

    member.run(scenario)


def test_what_is_shown_and_trusted_follows_the_files(member: "MemberKit", pki: Pki) -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: report(member).fingerprint is not None)
            first = report(member)
            assert first.problem == ""
            assert first.not_after is not None
            (old,) = first.trusted
            new = Authority.create("new")
            new.write(pki.truststore, pki.clients)
            await member.eventually(lambda: len(report(member).trusted) == 2)
            assert old in report(member).trusted
            assert report(member).fingerprint == first.fingerprint
            pki.servers.server().write(pki.keystore)
            await member.eventually(lambda: report(member).fingerprint != first.fingerprint)
            new.write(pki.truststore)
            await member.eventually(lambda: len(report(member).trusted) == 1)
            assert old not in report(member).trusted

    member.run(scenario)


def test_files_that_cannot_be_used_are_reported_until_they_can(
    member: "MemberKit", pki: Pki
) -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: report(member).fingerprint is not None)
            first = report(member)
            key = (pki.keystore / "tls.key").read_bytes()
            (pki.keystore / "tls.key").write_bytes(b"broken")
            await member.eventually(lambda: report(member).problem)
            assert report(member).fingerprint == first.fingerprint
            (pki.keystore / "tls.key").write_bytes(key)
            await member.eventually(lambda: not report(member).problem)
            assert report(member) == first

    member.run(scenario)


def test_of_many_cas_there_is_a_digest(member: "MemberKit", pki: Pki) -> None:
    others = [Authority.create(f"ca {number}") for number in range(MAX_TRUSTED_CAS)]
    pki.clients.write(pki.truststore, *others, pki.clients)
    count = len(tls.certificates_of((pki.truststore / "ca.crt").read_bytes()))
    assert count == MAX_TRUSTED_CAS + 2

    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: report(member).fingerprint is not None)
            content = (pki.truststore / "ca.crt").read_bytes()
            fingerprints = map(tls.fingerprint, tls.certificates_of(content))
            assert report(member).trusted == ()
            assert report(member).trusted_digest == digest_of(fingerprints)

    member.run(scenario)


def test_a_quiet_broker_writes_nothing(member: "MemberKit", pki: Pki) -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            await member.eventually(lambda: report(member).fingerprint is not None)

            def writes() -> list[Any]:
                return [one for kind, one in member.api.patches if kind == "brokers"]

            before = len(writes())
            await asyncio.sleep(20 * certificate_reports.LOOK_S)
            assert not [one for one in writes()[before:] if "listenerCertificates" in one["status"]]

    member.run(scenario)
