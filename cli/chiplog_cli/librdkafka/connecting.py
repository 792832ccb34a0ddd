"""Whether a broker lets us in, and the settings of every librdkafka client."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chiplog_cli.broker_socket import CLIENT_ID, check_without_login, connected
from chiplog_cli.errors import CannotDo, NotLetIn
from chiplog_cli.librdkafka.renewing import TokenRenewal
from chiplog_cli.security import PLAINTEXT, Security, TokenLogin
from chiplog_cli.target import addresses
from chiplog_cli.tokens import current_token

OTHERS_WAIT_S = 5.0
"""How long an address may take to answer before the next one is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Brokers that were reached, and how long to wait for what is asked of them."""

    bootstrap_servers: str
    timeout_s: float
    security: Security = PLAINTEXT

    def settings(self) -> dict[str, Any]:
        """The settings of a new client, which contain secrets. Errors are passed to us, so
        librdkafka must not print them. Raises `CannotDo` if there is no token for the login."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": CLIENT_ID,
            "log_level": 0,
            "socket.connection.setup.timeout.ms": max(1000, int(self.timeout_s * 1000)),
            **_security_settings(self.security, self.timeout_s),
        }


def connect(
    bootstrap_servers: str, given_by: str, timeout_s: float, security: Security = PLAINTEXT
) -> Connection:
    """Check that a broker at one of the addresses lets us in. Raises `CannotDo` with the reasons if
    none does. `given_by` is the option or variable with the addresses.

    librdkafka would try until the timeout, and then report neither the address nor the reason. The
    connection that is made is closed again.
    """
    try:
        places = addresses(bootstrap_servers)
    except ValueError as error:
        raise CannotDo(f"{given_by}: {error}") from error
    if isinstance(security.login, TokenLogin):
        current_token(security.login, timeout_s)  # an issuer may take longer than a broker below
    reasons, remedies = [], []
    for host, port in places:
        try:
            limit_s = min(timeout_s, OTHERS_WAIT_S) if (host, port) != places[-1] else timeout_s
            with connected((host, port), security, limit_s) as broker:
                if security.login is None:
                    check_without_login(broker)
                return Connection(
                    bootstrap_servers=bootstrap_servers, timeout_s=timeout_s, security=security
                )
        except NotLetIn as error:
            reasons.append(f"{host}:{port}: {error.message}")
            remedies.append(error.remedy)
        except (OSError, ValueError) as error:
            reasons.append(f"{host}:{port}: {_reason(error)}")
    why = "; ".join(reasons)
    if remedies:
        raise CannotDo(f"{given_by}: no broker lets this client in ({why})", remedies[0])
    raise CannotDo(
        f"{given_by}: no broker can be reached ({why})",
        "check the address, and whether a broker listens there",
    )


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _security_settings(security: Security, timeout_s: float) -> Mapping[str, Any]:
    """librdkafka's settings for TLS and the login:
    https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"""
    found: dict[str, Any] = {}
    if security.tls is not None or security.login is not None:
        found["security.protocol"] = security.protocol.value
    if (tls := security.tls) is not None:
        found |= (
            {"ssl.ca.location": "probe"}
            if tls.authorities is None
            else {"ssl.ca.pem": tls.authorities}
        )
        found["ssl.endpoint.identification.algorithm"] = "https" if tls.checks_host else "none"
        if (own := tls.certificate) is not None:
            found |= {"ssl.certificate.pem": own.chain, "ssl.key.pem": own.key}
            found |= {} if own.key_password is None else {"ssl.key.password": own.key_password}
    if (login := security.login) is not None:
        found["sasl.mechanism"] = login.mechanism.value
        if isinstance(login, TokenLogin):
            found["oauth_cb"] = TokenRenewal(login, timeout_s)
        else:
            found |= {"sasl.username": login.username, "sasl.password": login.password}
    return found
