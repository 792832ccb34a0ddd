"""Where a cluster's own password comes from, and what happens while it changes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.credentials import (
    GRACE_S,
    Credentials,
    FileCredentials,
    FixedCredentials,
    Keyring,
)
from chiplog_wire.scram import (
    AuthenticationFailed,
    Mechanism,
    ScramClient,
    ScramServer,
)

SHA_512 = Mechanism.SCRAM_SHA_512
Logs = Callable[[], list[str]]


class Clock:
    """Goes on when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        raise AssertionError


def write(directory: Path, password: str, username: str = "chiplog") -> None:
    (directory / "username").write_text(username)
    (directory / "password").write_text(password)


def passwords(credentials: FileCredentials) -> list[str]:
    return [one.password for one in credentials.accepted()]


def test_a_changed_password_is_found_and_its_predecessor_accepted_for_a_while(
    tmp_path: Path,
) -> None:
    write(tmp_path, "first\n")
    clock = Clock()
    credentials = FileCredentials(tmp_path, clock)
    assert passwords(credentials) == ["first"]
    write(tmp_path, "second")
    assert passwords(credentials) == ["first"]  # read a moment ago
    clock.now_s = 2.0
    assert passwords(credentials) == ["second", "first"]
    clock.now_s = 2.0 + GRACE_S
    assert passwords(credentials) == ["second"]


def test_a_broken_mount_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "first")
    clock = Clock()
    credentials = FileCredentials(tmp_path, clock)
    (tmp_path / "password").unlink()
    for clock.now_s in (2.0, 4.0):
        assert passwords(credentials) == ["first"]
    assert [one.message for one in caplog.records] == ["credentials_unreadable"]
    write(tmp_path, "second")
    clock.now_s = 6.0
    assert passwords(credentials) == ["second", "first"]


@pytest.mark.parametrize("password", [None, "", "\n", "pässword"])
def test_a_broker_does_not_start_without(tmp_path: Path, password: str | None) -> None:
    (tmp_path / "username").write_text("chiplog")
    if password is not None:
        (tmp_path / "password").write_text(password)
    with pytest.raises(CannotStart, match="username and password") as problem:
        FileCredentials(tmp_path, Clock())
    assert "pässword" not in str(problem.value)


def test_a_password_is_not_printed() -> None:
    assert "hidden" not in repr(Credentials("chiplog", "hidden"))


def logs_in(keyring: Keyring, username: str, password: str) -> bool:
    client = ScramClient(SHA_512, username, password, b"abc")
    server = ScramServer(SHA_512, lambda name: keyring.find(SHA_512, name), b"def")
    try:
        client.verify(server.respond(client.final(server.respond(client.first()))))
    except AuthenticationFailed:
        return False
    return server.authenticated_as == username


def test_who_gets_in_follows_the_files(tmp_path: Path) -> None:
    write(tmp_path, "first")
    clock = Clock()
    keyring = Keyring(FileCredentials(tmp_path, clock), SystemRng())
    assert logs_in(keyring, "chiplog", "first")
    assert not logs_in(keyring, "chiplog", "second")
    assert not logs_in(keyring, "other", "first")
    write(tmp_path, "second")
    clock.now_s = 2.0
    assert logs_in(keyring, "chiplog", "first")
    assert logs_in(keyring, "chiplog", "second")
    clock.now_s = 2.0 + GRACE_S
    assert not logs_in(keyring, "chiplog", "first")
    assert logs_in(keyring, "chiplog", "second")


def test_a_stranger_does_not_learn_which_names_exist() -> None:
    keyring = Keyring(FixedCredentials(Credentials("chiplog", "pw")), SystemRng())
    user, empty_group = keyring.find(SHA_512, "chiplog"), keyring.find(SHA_512, "nobody")
    assert empty_group == keyring.find(SHA_512, "nobody")
    assert user.salt != empty_group.salt
    assert (len(user.salt), user.iterations, len(user.keys)) == (
        len(empty_group.salt),
        empty_group.iterations,
        len(empty_group.keys),
    )


def test_keys_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = Keyring(FixedCredentials(Credentials("chiplog", "pw")), SystemRng())
    first = keyring.find(SHA_512, "chiplog")
    monkeypatch.setattr("chiplog_broker.security.credentials.salted_password", None)
    assert keyring.find(SHA_512, "chiplog") == first
