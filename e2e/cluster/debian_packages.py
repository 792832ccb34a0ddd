"""Debian packages for images, downloaded on this machine so that no build needs a network."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.cluster.console import Refused
from e2e.cluster.shell import CommandFailed, run

INSTALLED = "var/lib/dpkg/status"
"""Where a Debian tree says which packages are installed in it."""


def download(package: str, installed: str, directory: Path) -> None:
    """Put a package, and what it needs beside what is installed already, into a directory.

    `installed` is the text of the tree's `INSTALLED`. apt checks what it downloads against the
    mirror's signature. Raises `Refused` where it cannot.
    """
    with TemporaryDirectory() as work:
        status = Path(work, "status")
        status.write_text(installed)
        archives = Path(work, "archives")
        (archives / "partial").mkdir(parents=True)
        settings = {
            "Dir::State::status": status,
            "Dir::Cache::archives": archives,
            # Without the caches, which are of what this machine has installed.
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "Debug::NoLocking": "true",
            "APT::Sandbox::User": "root",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        try:
            run(
                *("apt-get", "install", "-qq", "-y", "--download-only", "--no-install-recommends"),
                *(*options, package),
                timeout_s=600,
            )
        except CommandFailed as failed:
            raise Refused(f"apt-get cannot download {package}: {failed}") from failed
        directory.mkdir(parents=True)
        for archive in archives.glob("*.deb"):
            shutil.move(archive, directory / archive.name)
