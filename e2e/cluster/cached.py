"""What is made once and kept by content: by one process at a time, whole or not at all."""

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cached(directory: Path, make: Callable[[Path], object]) -> Path:
    """`directory`, which `make` fills first where it is not there yet.

    `make` gets an empty directory beside it, which gets the final name once it is whole. Others
    that want the same wait for it and do not make it a second time. What a process that was ended
    left behind is in nobody's way.
    """
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            making = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", dir=directory.parent))
            try:
                make(making)
                making.chmod(0o755)  # mkdtemp keeps others out, a kept directory does not
                making.rename(directory)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return directory
