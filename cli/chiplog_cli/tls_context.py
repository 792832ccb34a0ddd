"""TLS of connections that this program makes itself."""

import ssl

from chiplog_cli.errors import NotLetIn
from chiplog_cli.security import Tls
from chiplog_kube.pem_file import pem_file


def tls_context(tls: Tls) -> ssl.SSLContext:
    """What Python's TLS needs. Raises `NotLetIn` if a certificate or key cannot be used."""
    try:
        context = ssl.create_default_context(cadata=tls.authorities)
    except ssl.SSLError as error:
        raise NotLetIn(
            "the certificates of the CAs cannot be parsed", "correct the truststore"
        ) from error
    # As librdkafka: since Python 3.13 the default refuses CAs without key identifiers.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = tls.checks_host
    if tls.certificate is not None:
        given = tls.certificate
        with pem_file((given.chain + given.key).encode()) as path:
            try:
                context.load_cert_chain(path, password=given.key_password or "")
            except ssl.SSLError as error:
                raise NotLetIn(
                    "the client's certificate and key cannot be used together",
                    "check both, and the password of the key",
                ) from error
    return context
