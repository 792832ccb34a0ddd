"""Whose a result is: a driver signs it with a key that only it and the operator have.

The result lies in a ConfigMap, which many may write who may read no Secret. A forged one could have
brokers put sound replicas aside. The operator makes a key for each run, in a Secret that is mounted
into the driver alone, and believes what is signed with it (HMAC-SHA256, RFC 2104). The name of the
application is signed as well, and stands on a line of its own: it cannot hold a line's end.
"""

import hmac
from typing import Final

KEY_FOLDER: Final = "/etc/chiplog/result-key"
"""Where the driver has its key."""

KEY_NAME: Final = "key"
"""Of the Secret, and of the file in `KEY_FOLDER`."""

SIGNATURE_KEY: Final = "result.signature"
"""Of the ConfigMap with the result."""

_WHAT: Final = "chiplog-result-1"


def signature(key: str, application: str, text: str) -> str:
    """64 hex digits, of the text of a result. Raises `ValueError` without a key."""
    if not key:
        raise ValueError("an empty key is known to everybody")
    message = f"{_WHAT}\n{application}\n{text}"
    return hmac.new(key.encode(), message.encode(errors="surrogatepass"), "sha256").hexdigest()


def is_signed(key: str, application: str, text: str, said: str) -> bool:
    """Whether the driver of this application wrote this text."""
    try:
        return hmac.compare_digest(signature(key, application, text).encode(), said.encode())
    except ValueError:
        return False
