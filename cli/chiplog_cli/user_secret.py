"""What a User's Secret has for clients."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any

from chiplog_cli import keystores
from chiplog_cli.errors import CannotDo
from chiplog_cli.jaas import parse_jaas
from chiplog_cli.security import ClientCertificate, Login, SaslMechanism


def credentials_in(secret: Mapping[str, Any], user: str) -> Login | ClientCertificate:
    """The credentials in the Secret of this User. Raises `CannotDo`, without anything of the
    Secret."""
    try:
        entries = {
            key: b64decode(value, validate=True).decode()
            for key, value in (secret.get("data") or {}).items()
            if key in {"sasl.jaas.config", "user.crt", "user.key"}
        }
        if "sasl.jaas.config" in entries:
            options = parse_jaas(entries["sasl.jaas.config"]).options
            return Login(
                mechanism=SaslMechanism.SCRAM_SHA_512,
                username=options["username"],
                password=options["password"],
            )
        if "user.crt" in entries:
            return keystores.client_certificate(
                entries["user.crt"], entries.get("user.key", ""), None
            )
    except (Base64Error, UnicodeDecodeError, ValueError, KeyError):
        raise CannotDo(
            f"--user: the Secret '{user}' cannot be used",
            "delete it: the operator creates it again",
        ) from None
    raise CannotDo(
        f"--user: the Secret '{user}' has neither a password nor a certificate",
        f"use a User with authentication.type tls or scram-sha-512, and see `kubectl describe "
        f"users.chiplog.dev {user}`",
    )
