"""How a job connects to the brokers, as its request says."""

from chiplog_core.spark.requests import Request
from chiplog_spark.source.options import (
    CA_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    MECHANISM,
    PASSWORD_FILE,
    SECURITY_PROTOCOL,
    USERNAME,
)
from chiplog_spark.wire.access import Access, Login, Tls, addresses_of
from chiplog_wire.security_protocol import SecurityProtocol


def access_of(request: Request) -> Access:
    """The access of a request."""
    connection = request.connection
    if connection is None:
        return Access(addresses_of(request.bootstrap))
    login, tls = connection.login, None
    if connection.tls:
        tls = Tls(connection.ca_file, connection.certificate_file, connection.key_file)
    return Access(
        addresses_of(request.bootstrap),
        None if login is None else Login(login.username, login.password_file),
        tls=tls,
    )


def source_options(access: Access) -> dict[str, str]:
    """The options of the data source for the same TLS and login."""
    login, tls = access.login, access.tls
    found: dict[str, str | None] = {}
    if login is not None:
        found |= {
            USERNAME: login.username,
            PASSWORD_FILE: login.password_file,
            MECHANISM: login.mechanism.value,
        }
    if tls is not None:
        protocol = SecurityProtocol.SSL if login is None else SecurityProtocol.SASL_SSL
        found |= {
            SECURITY_PROTOCOL: protocol.value,
            CA_FILE: tls.ca_file,
            CERTIFICATE_FILE: tls.certificate_file,
            KEY_FILE: tls.key_file,
        }
    return {name: value for name, value in found.items() if value is not None}
