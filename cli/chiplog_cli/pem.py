"""Blocks of PEM text (RFC 7468), as files and properties of Kafka's clients have them."""

import re
from textwrap import wrap
from typing import Final

CERTIFICATE: Final = "CERTIFICATE"
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE_LENGTH: Final = 64


def certificates_in(text: str) -> str:
    """All certificates, one after the other; empty if there is none."""
    return "".join(block for label, block in _blocks(text) if label == CERTIFICATE)


def private_key_in(text: str) -> str:
    """The first private key; empty if there is none."""
    keys = (block for label, block in _blocks(text) if label.endswith("PRIVATE KEY"))
    return next(keys, "")


def is_encrypted(key: str) -> bool:
    """Whether a private key needs a password."""
    return "ENCRYPTED" in key


def _blocks(text: str) -> list[tuple[str, str]]:
    """Each block with its label. In a property, blanks may stand for the ends of lines, as Kafka
    allows; blocks with headers (RFC 1421) keep their lines."""
    found = []
    for label, body in _BLOCK.findall(text):
        base64 = "".join(body.split())
        lines = body.strip() if ":" in body else "\n".join(wrap(base64, _LINE_LENGTH))
        found.append((label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"))
    return found
