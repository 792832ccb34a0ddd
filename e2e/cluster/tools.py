"""The programs that `make tools` puts into `.tools/bin` for people to use.

kubectl and helm are the cluster's own builds. promtool, which tests alert rules, comes out of
Debian's package: building it takes minutes and shares nothing with the rest.
"""

import shutil
import tempfile
from pathlib import Path

from e2e.cluster import build, layout
from e2e.cluster.cached import cached
from e2e.cluster.console import Refused, step
from e2e.cluster.packages import apt_alone, present
from e2e.cluster.shell import CommandFailed, run

PROMTOOL_PACKAGE = "prometheus"
NAMES = ("kubectl", "helm", "promtool")


def program(name: str) -> Path:
    """The path of a tool of `NAMES`, which is fetched first where it is missing."""
    return promtool() if name == "promtool" else build.program(name)


def make_all() -> None:
    """Make every tool that is not there yet."""
    for name in NAMES:
        program(name)


def link_all(directory: Path) -> list[Path]:
    """Put every tool into a directory, as a link; returns the links."""
    directory.mkdir(parents=True, exist_ok=True)
    links = [directory / name for name in NAMES]
    for link in links:
        target = program(link.name)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return links


def promtool() -> Path:
    """The path of promtool, out of Debian's package prometheus.

    The package is unpacked and not installed, since installing it would start its service.
    """
    if not (present("apt-get") and present("dpkg-deb")):
        raise Refused(
            "promtool is taken from Debian's package prometheus, which needs the programs "
            "apt-get and dpkg-deb: run this on Debian"
        )
    directory = layout.cache() / "tools" / f"promtool-{package_digest()[:16]}"
    return cached(directory, unpack) / "promtool"


def package_digest() -> str:
    """SHA-256 of the package version that apt would install, as the package index has it.

    If apt does not know the package yet, the index is updated once.
    """
    for attempt in ("as it is", "updated"):
        if attempt == "updated":
            with apt_alone():
                run("apt-get", "update", "-qq", timeout_s=300)
        shown = run("apt-cache", "show", "--no-all-versions", PROMTOOL_PACKAGE, check=False)
        for line in shown.splitlines():
            if line.startswith("SHA256: "):
                return line.removeprefix("SHA256: ")
    raise Refused(
        f"apt knows no package {PROMTOOL_PACKAGE}, which contains promtool: add Debian's section "
        "main to apt's sources"
    )


def unpack(directory: Path) -> None:
    """Download the package and put promtool, the only program needed of it, into a directory."""
    with step("fetching promtool (Debian)"), tempfile.TemporaryDirectory() as work:
        download(Path(work))
        (package,) = Path(work).glob("*.deb")
        run("dpkg-deb", "--extract", str(package), f"{work}/tree")
        shutil.move(f"{work}/tree/usr/bin/promtool", directory / "promtool")


def download(directory: Path) -> None:
    """Download the package into a directory.

    A failure may mean that apt's index is older than the archive: update it and try once more.
    """
    command = ("apt-get", "download", "-qq", PROMTOOL_PACKAGE)
    try:
        run(*command, cwd=directory, timeout_s=300)
    except CommandFailed:
        run("apt-get", "update", "-qq", timeout_s=300)
        run(*command, cwd=directory, timeout_s=300)
