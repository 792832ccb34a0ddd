"""Cache keys: what was made from the same content is never made twice."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def content_key(paths: Iterable[Path], *also: str) -> str:
    """16 hex digits over the names and contents of files (directories: all below) and `also`.

    The key does not depend on where the checkout lies, on times or on owners.
    """
    digest = hashlib.sha256("\0".join(also).encode())
    for root in paths:
        files = sorted(root.rglob("*")) if root.is_dir() else [root]
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root.parent)}\0".encode())
                digest.update(path.read_bytes())
                digest.update(b"\x01" if path.stat().st_mode & 0o100 else b"\x00")
    return digest.hexdigest()[:16]
