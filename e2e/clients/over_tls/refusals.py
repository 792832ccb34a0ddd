"""In which words clients say that they cannot connect: those of OpenSSL, or else those of Java."""

from typing import Final

from e2e.clients.over_tls.client import OverTls, Tls

UNTRUSTED: Final = ("certificate verify failed", "pkix path building failed")
OTHER_NAME: Final = ("certificate verify failed", "name matching localhost found")
NO_CERTIFICATE: Final = ("certificate required",)
OLD_VERSION: Final = ("protocol version",)
ATTEMPTS: Final = 10
"""A client gives up before it has asked a broker where the machine is busy."""


def check_refused(client: OverTls, tls: Tls, words: tuple[str, ...]) -> None:
    """Raise `AssertionError` if the client can connect, or cannot for another reason."""
    said = []
    for _ in range(ATTEMPTS):
        refusal = client.refusal(tls)
        assert refusal, f"{client.name} can connect to {tls}"
        said.append(refusal.lower().replace("_", " "))
        if any(one in said[-1] for one in words):
            return
    raise AssertionError(f"{client.name} has not said {' or '.join(words)}, but: {said}")
