"""What holds a secret does not show it: not as text, not in a line of a log, not in an error.

There is no filter behind the loggers that could recognize a secret. Instead, whatever
holds one leaves it out where it is printed, and errors say what is wrong without the value.
"""

import io
import json
import logging
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.credentials import REREAD_AFTER_S, Credentials, FileCredentials
from chiplog_core.telemetry.log_lines import JsonFormatter
from chiplog_kube.connection import Connection, Identity, Token
from chiplog_operator.apply import _Known
from chiplog_operator.resources.settings import BuildSettings
from chiplog_wire.scram import Mechanism, derived_keys
from e2e.security.canary import Canary

PASSWORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=12, max_size=43)
BAD = st.sampled_from(["", "\x00", "\x07", "\n", "é", "ß", "\u200b", "💧"])


def holders(secret: str) -> list[object]:
    """Everything that has a secret in it, as the programs make it."""
    keys = derived_keys(Mechanism.SCRAM_SHA_512, secret.encode())
    return [
        BuildSettings(broker_image="b", internal_password=secret),
        Credentials("chiplog", secret),
        keys,
        Token(secret),
        Connection(server="https://a", credentials=Token(secret)),
        Identity(headers={"Authorization": secret}, pem=secret.encode()),
        _Known(password=secret, wanted=[{"data": {"password": secret}}]),
    ]


def logged(message: str, *arguments: object, **extra: object) -> str:
    """A line as operator and brokers write it."""
    record = logging.LogRecord("x", logging.INFO, "x", 1, message, arguments, None)
    vars(record).update(extra)
    return JsonFormatter().format(record)


# A password that is a field's name, like "certificates", would be found in every text.
@settings(max_examples=25, deadline=None)
@given(PASSWORDS.map(lambda password: f"q7-{password}"))
def test_nothing_that_holds_a_secret_shows_it(secret: str) -> None:
    canary = Canary("the password", secret.encode())
    for holder in holders(secret):
        for text in (
            repr(holder),
            f"{holder}",
            logged("made %s", holder),
            logged("made", what=holder),
            logged("made", what=[{"of": holder}]),
        ):
            assert canary.found_in(text) is None, type(holder).__name__
    assert canary.found_in(logged("made", what=secret)), "a line is searched as it is written"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(PASSWORDS, BAD, st.booleans())
def test_a_password_that_cannot_be_used_is_refused_without_saying_it(
    tmp_path: Path, secret: str, bad: str, is_first: bool
) -> None:
    (tmp_path / "username").write_text("chiplog")
    (tmp_path / "password").write_text(f"{bad}{secret}" if is_first else f"{secret}{bad}x")
    try:
        read = FileCredentials(tmp_path, SystemClock())
    except CannotStart as problem:
        said = str(problem) + str(problem.__cause__) + logged("x", reason=str(problem))
        assert Canary("the password", secret.encode()).found_in(said) is None
    else:
        assert secret in read.accepted()[0].password


class Later:
    """A clock on which every check is due."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        self._now_s += 2 * REREAD_AFTER_S
        return self._now_s

    def wall_ms(self) -> int:
        return 0


def test_an_unreadable_new_password_is_reported_without_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonFormatter())
    (tmp_path / "username").write_text("chiplog")
    (tmp_path / "password").write_text("a-good-old-password")
    source = FileCredentials(tmp_path, Later())  # type: ignore[arg-type] # what it asks of a clock
    logger = logging.getLogger("chiplog_broker.security.credentials")
    monkeypatch.setattr(logger, "handlers", [handler])
    # Only setLevel forgets what an earlier test found out about the level.
    caplog.set_level(logging.INFO, logger.name)
    for password in ("a-new-pässword-of-mine", "a-good-new-password"):
        (tmp_path / "password").write_text(password)
        source.accepted()
        source.accepted()
    events = [json.loads(line)["event"] for line in lines.getvalue().splitlines()]
    assert events == ["credentials_unreadable", "credentials_changed"]
    for secret in ("a-good-old-password", "a-new-p", "ssword-of-mine", "a-good-new-password"):
        assert secret not in lines.getvalue()
