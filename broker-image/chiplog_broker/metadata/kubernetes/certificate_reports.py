"""What the status reports of the certificates at listeners with TLS.

The operator waits for these reports before it takes the next step in the replacement of a CA. So a
listener is in the first status of a process already, without a certificate: the operator then knows
that the broker will report one.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.tls import TlsFiles
from chiplog_core.limits import MAX_FILE_PROBLEM_LENGTH
from chiplog_core.model.listener_certificate import ListenerCertificate, as_reported

LOOK_S: Final = 2.0
"""How often the files are looked at, also if no client connects."""


class CertificateReports:
    """Keeps the reports of all listeners."""

    def __init__(
        self, files: Mapping[str, TlsFiles | None], clock: Clock, changed: Callable[[], None]
    ) -> None:
        """`files` has all listeners with TLS; `changed` is called when the reports differ."""
        self._files = files
        self._clock = clock
        self._changed = changed
        self.reports = self._look()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(LOOK_S)
            found = self._look()
            if found != self.reports:
                self.reports = found
                self._changed()

    def _look(self) -> tuple[ListenerCertificate, ...]:
        return tuple(_report(name, files) for name, files in sorted(self._files.items()))


def _report(listener: str, files: TlsFiles | None) -> ListenerCertificate:
    """What one listener shows, and whom it trusts; nothing of that before it is bound."""
    if files is None:
        return ListenerCertificate(listener=listener)
    used = files.current()
    trusted, digest = as_reported(used.trusted)
    return ListenerCertificate(
        listener=listener,
        fingerprint=used.fingerprint,
        not_after=datetime.fromtimestamp(used.not_after_s, UTC),
        trusted=trusted,
        trusted_digest=digest,
        problem=files.problem[:MAX_FILE_PROBLEM_LENGTH],
    )
