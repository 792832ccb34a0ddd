"""Signatures of the documents between operator and driver, with a key that only these two have.

Request, executors' pod template and result are in ConfigMaps, which more users may write than may
read Secrets. A forged result could make brokers replace undamaged replicas; a forged request could
make the driver read from other servers and report damage there; a forged template could make it
create any pod. The operator creates a key for each run, in a Secret that only the driver mounts.
Both accept only documents with a valid signature (HMAC-SHA256, RFC 2104). The signed text begins
with the kind of the document and the name of the application, each on its own line; neither can
contain a line break.
"""

import hmac
from collections.abc import Mapping
from typing import Final

KEY_FOLDER: Final = "/etc/chiplog/result-key"
"""The directory where the driver mounts the Secret with the key."""

KEY_NAME: Final = "key"
"""The entry of the Secret with the key, and so the name of the file in `KEY_FOLDER`."""

SIGNATURE_KEY: Final = "result.signature"
"""The entry with the signature in the ConfigMap with the result."""

_RESULT: Final = "result"


def signature(key: str, application: str, text: str, what: str = _RESULT) -> str:
    """The signature of a text: 64 hex digits. `what` is the kind of document: "result", or the
    name of the file. Raises `ValueError` if the key is empty."""
    if not key:
        raise ValueError("the key is empty")
    message = f"chiplog-{what}-1\n{application}\n{text}"
    return hmac.new(key.encode(), message.encode(errors="surrogatepass"), "sha256").hexdigest()


def is_signed(
    key: str, application: str, text: str, given_signature: str, what: str = _RESULT
) -> bool:
    """Whether the text was signed with this key, for this application and as this kind of document.
    False if the key is empty."""
    try:
        return hmac.compare_digest(
            signature(key, application, text, what).encode(), given_signature.encode()
        )
    except ValueError:
        return False


def signature_of(file: str) -> str:
    """The name of the file with the signature of this file."""
    return f"{file}.signature"


def signed(key: str, application: str, files: Mapping[str, str]) -> dict[str, str]:
    """The files of a ConfigMap (name to text), and a signature file for each; if the key is empty,
    only the files."""
    if not key:
        return dict(files)
    signatures = {
        signature_of(name): signature(key, application, text, name) for name, text in files.items()
    }
    return {**files, **signatures}
