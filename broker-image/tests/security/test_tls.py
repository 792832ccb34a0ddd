"""The files of a listener with TLS, and what becomes of changes."""

import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from chiplog_broker.errors import CannotStart
from chiplog_broker.security import tls
from chiplog_broker.security.alerts import send_alert
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.security.tls import TlsFiles
from e2e.kafka.certificates import Authority, Issued


class Clock:
    """Advances only when the test says so."""

    def __init__(self) -> None:
        self.s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return self.s

    async def sleep(self, seconds: float) -> None:
        self.s += seconds


CA = Authority.create()


def secret(directory: Path, issued: Issued | None = None) -> TlsSettings:
    return TlsSettings((issued or CA.server()).write(directory / "server"), None)


def test_one_file_may_have_both(tmp_path: Path) -> None:
    issued = CA.server()
    secret(tmp_path, issued)
    file = tmp_path / "both.pem"
    file.write_bytes(issued.both)
    one, other = (
        TlsFiles(TlsSettings(location, None), Clock()).current()
        for location in (file, tmp_path / "server")
    )
    assert one.fingerprint == other.fingerprint
    assert len(one.fingerprint) == 64
    assert one.not_after_s == other.not_after_s
    assert one.trusted == ()


def test_a_change_is_seen_after_a_second(tmp_path: Path) -> None:
    clock = Clock()
    settings = secret(tmp_path)
    files = TlsFiles(settings, clock)
    first = files.current()
    secret(tmp_path)
    clock.s = 0.9
    assert files.current() is first
    clock.s = 1.0
    second = files.current()
    assert second.fingerprint != first.fingerprint
    assert second.context is not first.context
    clock.s = 2.0
    assert files.current() is second


@pytest.mark.parametrize("damage", ["another key", "no key", "half a certificate", "no directory"])
def test_files_that_cannot_be_used_change_nothing(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    files = TlsFiles(secret(tmp_path), clock)
    first = files.current()
    directory, complete = tmp_path / "server", CA.server()
    complete.write(directory)
    match damage:
        case "another key":
            (directory / "tls.key").write_bytes(CA.server().key)
        case "no key":
            (directory / "tls.key").unlink()
        case "half a certificate":
            half = complete.certificate[: len(complete.certificate) // 2]
            (directory / "tls.crt").write_bytes(half)
        case _:
            directory.rename(tmp_path / "elsewhere")
    for failures in range(1, 4):
        clock.s += 1
        assert files.current() is first
        # The first time, the files may just be being replaced.
        assert bool(files.problem) is (failures > 1)
    complete.write(directory)
    clock.s += 1
    assert files.current().fingerprint != first.fingerprint
    assert not files.problem
    assert [one.message for one in caplog.records] == [
        "certificate_unreadable",
        "certificate_changed",
    ]


def test_the_cas_of_clients_change_with_their_file(tmp_path: Path) -> None:
    clock = Clock()
    keystore = secret(tmp_path).keystore
    others = [Authority.create("one"), Authority.create("two")]
    truststore = others[0].write(tmp_path / "cas", others[1])
    files = TlsFiles(TlsSettings(keystore, truststore, ClientAuth.REQUIRED), clock)
    both = files.current().trusted
    assert len(both) == 2
    assert both == tuple(sorted(both))
    others[1].write(truststore)
    clock.s = 1
    (left,) = files.current().trusted
    assert left in both
    (truststore / "ca.crt").write_bytes(b"none at all")
    clock.s = 2
    assert files.current().trusted == (left,)


def test_a_removed_ca_is_not_trusted_although_the_key_is_broken_then(tmp_path: Path) -> None:
    clock = Clock()
    settings = secret(tmp_path)
    others = [Authority.create("one"), Authority.create("two")]
    truststore = others[0].write(tmp_path / "cas", others[1])
    files = TlsFiles(TlsSettings(settings.keystore, truststore, ClientAuth.REQUIRED), clock)
    first = files.current()
    (settings.keystore / "tls.key").write_bytes(b"broken")
    others[1].write(truststore)
    clock.s = 1
    second = files.current()
    assert len(second.trusted) == 1
    assert len(second.context.get_ca_certs()) == 1
    assert second.fingerprint == first.fingerprint
    clock.s = 2
    assert files.current() is second
    # The key that is in use is still the old one, and it is still complete.
    (settings.keystore / "tls.crt").unlink()
    others[0].write(truststore)
    clock.s = 3
    third = files.current()
    assert third.trusted != second.trusted
    assert third.fingerprint == first.fingerprint


def encrypted_key(directory: Path) -> None:
    key = serialization.load_pem_private_key((directory / "tls.key").read_bytes(), None)
    (directory / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


def test_the_first_read_names_key_and_remedy(tmp_path: Path) -> None:
    settings = secret(tmp_path)
    encrypted_key(settings.keystore)
    for keystore in (settings.keystore, tmp_path / "nothing"):
        with pytest.raises(
            CannotStart,
            match=r"server\.properties\[ssl\.keystore\.location\] .* cannot be used \(.*a PEM file",
        ):
            TlsFiles(TlsSettings(keystore, None), Clock())
    good = secret(tmp_path).keystore
    with pytest.raises(CannotStart, match=r"cas.*; ssl\.truststore\.location .*ca\.crt"):
        TlsFiles(TlsSettings(good, tmp_path / "cas", ClientAuth.REQUIRED), Clock())


def test_nothing_weak_is_offered(tmp_path: Path) -> None:
    context = TlsFiles(secret(tmp_path), Clock()).current().context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.num_tickets == 0
    for cipher in context.get_ciphers():
        assert cipher["aead"], cipher["name"]
        assert cipher["protocol"] == "TLSv1.3" or cipher["kea"] == "kx-ecdhe"


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_context_does_not_collect_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_broken: bool
) -> None:
    """OpenSSL would keep 20,480 of them."""
    monkeypatch.setattr(tls, "MAX_CACHED_SESSIONS", 3)
    clock = Clock()
    files = TlsFiles(secret(tmp_path), clock)
    if is_broken:
        (tmp_path / "server" / "tls.key").write_bytes(b"broken")
        clock.s = 1
    first = files.current()
    for _ in range(3):
        assert files.current() is first
        in_memory_handshake(first.context)
    second = files.current()
    assert second.context is not first.context
    assert second.fingerprint == first.fingerprint


def in_memory_handshake(server: ssl.SSLContext) -> None:
    """One handshake of TLS 1.2 without sockets."""
    client = ssl.create_default_context(cadata=CA.pem.decode())
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    from_client, from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    send_alert.set(lambda alert: None)
    ends = [
        client.wrap_bio(from_server, from_client, server_hostname="127.0.0.1"),
        server.wrap_bio(from_client, from_server, server_side=True),
    ]
    for step in [ssl.SSLObject.do_handshake] * 3 + [ssl.SSLObject.unwrap] * 2:
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                step(end)
    assert ends[0].version() == "TLSv1.2"
