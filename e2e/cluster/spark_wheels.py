"""The wheels of the Spark image, one of which is on no index: PySpark comes as source only.

Its source, jars and all, is checked against the lock's hash and packed into a wheel here. What the
image installs is a lock in which that wheel's own hash stands in the place of the source's.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import images, layout
from e2e.cluster.cached import cached
from e2e.cluster.console import Refused
from e2e.cluster.content import content_key
from e2e.cluster.shell import run

SOURCE_ONLY = "pyspark"
REQUIREMENTS = "requirements.txt"
"""In the directory of the wheels: what is to be installed of them, with their hashes."""


def wheels(lock: Path) -> Path:
    """A directory with the wheels that a lock names, and `REQUIREMENTS`."""
    directory = layout.cache() / "wheels" / f"{lock.stem}-{content_key([lock, Path(__file__)])}"
    return cached(directory, lambda making: fill(making, entries(lock.read_text())))


def fill(directory: Path, locked: Mapping[str, str]) -> None:
    """Download and make the wheels."""
    requirements = directory / REQUIREMENTS
    requirements.write_text("".join(text for name, text in locked.items() if name != SOURCE_ONLY))
    images.download_wheels(requirements, directory)
    source = directory / "source.txt"
    source.write_text(locked[SOURCE_ONLY])
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--require-hashes", "--no-deps"),
        # By the setuptools of our own lock, not by whichever is the newest today.
        *("--no-build-isolation", "--wheel-dir", str(directory), "--requirement", str(source)),
        timeout_s=900,
    )
    source.unlink()
    (made,) = directory.glob(f"{SOURCE_ONLY}-*.whl")
    with requirements.open("a") as file:
        file.write(with_hash(locked[SOURCE_ONLY], sha256(made)))


def entries(lock: str) -> dict[str, str]:
    """A lock's requirements by name, each with its hashes as it stands there."""
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if begun := re.match(r"([a-z0-9][a-z0-9._-]*)==", line):
            name = begun[1]
            found[name] = ""
        if name and line.strip() and not line.lstrip().startswith("#"):
            found[name] += line
    if SOURCE_ONLY not in found:
        raise Refused(f"the lock of the Spark image does not name {SOURCE_ONLY}: `make lock`")
    return found


def with_hash(entry: str, digest: str) -> str:
    """The requirement with this hash and no other."""
    requirement = entry.split(maxsplit=1)[0]
    return f"{requirement} --hash=sha256:{digest}\n"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
