"""The tree of files that all images stand on: a minimal Debian with Python.

Kept apart from what packs it: the base image is named by the content of this file, and a
change here makes it again.
"""

import shutil
from pathlib import Path

from e2e.cluster.console import Refused
from e2e.cluster.shell import run

RELEASE = "bookworm"
# Python for our programs, CA certificates for TLS, and what a person in a shell expects.
PACKAGES = ("ca-certificates", "procps", "python3", "python3-venv", "tini")
# A user that owns nothing else, the same number in every image (Spark's differs).
UID = 10001


def make_tree(directory: Path) -> None:
    """A minimal Debian with Python, without what a container never reads."""
    directory.mkdir(parents=True)
    run(
        *("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
        *(RELEASE, str(directory), mirror()),
        timeout_s=1200,
    )
    for unused in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(directory / unused, ignore_errors=True)
    for unused in ("usr/share/locale", "usr/share/info", "var/log"):
        shutil.rmtree(directory / unused, ignore_errors=True)
        (directory / unused).mkdir()
    # The machine's own package source is none of the image's business.
    (directory / "etc/apt/sources.list").write_text("")
    with (directory / "etc/passwd").open("a") as users:
        users.write(f"chiplog:x:{UID}:{UID}:chiplog:/nonexistent:/usr/sbin/nologin\n")
    with (directory / "etc/group").open("a") as groups:
        groups.write(f"chiplog:x:{UID}:\n")


def mirror() -> str:
    """The Debian mirror this machine installs from."""
    lines = run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages")
    for line in lines.splitlines():
        site, _, release = line.partition(" ")
        if release == RELEASE:
            return site
    raise Refused(f"apt knows no mirror of Debian {RELEASE}: run `apt-get update` on Debian 12")
