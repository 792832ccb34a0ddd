"""Who wrote the documents between operator and driver: each signs them with a key that both have.

Request, executors' pod template and result lie in ConfigMaps, which many may write who may read no
Secret. A forged result could have brokers put sound replicas aside; a forged request has the driver
find that where there are no brokers of ours; a forged template has it make any pod. The operator
makes a key for each run, in a Secret that is mounted into the driver alone, and each believes what
is signed with it (HMAC-SHA256, RFC 2104). What it is and the name of the application are signed as
well, each on a line of its own: they cannot hold a line's end.
"""

import hmac
from collections.abc import Mapping
from typing import Final

KEY_FOLDER: Final = "/etc/chiplog/result-key"
"""Where the driver has its key."""

KEY_NAME: Final = "key"
"""Of the Secret, and of the file in `KEY_FOLDER`."""

SIGNATURE_KEY: Final = "result.signature"
"""Of the ConfigMap with the result."""

_RESULT: Final = "result"


def signature(key: str, application: str, text: str, what: str = _RESULT) -> str:
    """The signature of a result, or of the file `what`: 64 hex digits. Raises `ValueError`
    without a key."""
    if not key:
        raise ValueError("the key is empty")
    message = f"chiplog-{what}-1\n{application}\n{text}"
    return hmac.new(key.encode(), message.encode(errors="surrogatepass"), "sha256").hexdigest()


def is_signed(
    key: str, application: str, text: str, given_signature: str, what: str = _RESULT
) -> bool:
    """Whether somebody with the application's key signed this text for it."""
    try:
        return hmac.compare_digest(
            signature(key, application, text, what).encode(), given_signature.encode()
        )
    except ValueError:
        return False


def signature_of(file: str) -> str:
    """The name of the file with another file's signature."""
    return f"{file}.signature"


def signed(key: str, application: str, files: Mapping[str, str]) -> dict[str, str]:
    """The files of a ConfigMap and their signatures; without a key only the files."""
    if not key:
        return dict(files)
    signatures = {
        signature_of(name): signature(key, application, text, name) for name, text in files.items()
    }
    return {**files, **signatures}
