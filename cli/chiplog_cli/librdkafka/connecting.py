"""Whether anybody listens at an address, and the settings of every librdkafka client."""

import socket
from dataclasses import dataclass

from chiplog_cli.errors import CannotDo
from chiplog_cli.target import addresses

CLIENT_ID = "chiplog-cli"
CONNECT_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Brokers that were reached, and how long to wait for what is asked of them."""

    bootstrap_servers: str
    timeout_s: float

    def settings(self) -> dict[str, str | int | float | bool]:
        """The settings of every client. Errors are passed to us, so librdkafka must not print
        them."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": CLIENT_ID,
            "log_level": 0,
            "socket.connection.setup.timeout.ms": max(1000, int(self.timeout_s * 1000)),
        }


def connect(bootstrap_servers: str, given_by: str, timeout_s: float) -> Connection:
    """Check that one of the addresses accepts connections. Raises `CannotDo` with the reasons if
    none does. `given_by` is the option or variable with the addresses.

    librdkafka would try until the timeout, and then report neither the address nor the reason. The
    connection that is made costs one round trip and is closed again.
    """
    try:
        places = addresses(bootstrap_servers)
    except ValueError as error:
        raise CannotDo(f"{given_by}: {error}") from error
    reasons = []
    for host, port in places:
        try:
            with socket.create_connection((host, port), min(timeout_s, CONNECT_LIMIT_S)):
                return Connection(bootstrap_servers=bootstrap_servers, timeout_s=timeout_s)
        except OSError as error:
            reasons.append(f"{host}:{port}: {_reason(error)}")
    raise CannotDo(
        f"{given_by}: no broker can be reached ({'; '.join(reasons)})",
        "check the address, and whether a broker listens there",
    )


def _reason(error: OSError) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
