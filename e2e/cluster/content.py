"""Cache keys from file contents: what was made from the same content is not built again."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def content_key(paths: Iterable[Path], *also: str) -> str:
    """A key of 16 hex digits for these files, or directories with all files in them, and `also`.

    It depends on their names, contents and execute permissions, but not on the path of the
    checkout, on times or on owners.
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
