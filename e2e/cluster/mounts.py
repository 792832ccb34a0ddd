"""The mount points and loop devices of this machine, and how those in one directory are
unmounted."""

import json
from pathlib import Path

from e2e.cluster.shell import run


def points() -> list[str]:
    """The paths of all mount points that this process sees, in the order they were mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # Field 4 is the mount point; the kernel writes blanks in it as octal escapes, like \040.
    return [line.split()[4].encode().decode("unicode_escape") for line in lines]


def below(directory: Path) -> list[str]:
    """The mount points in a directory, the last mounted first: the order in which to unmount
    them."""
    return [point for point in reversed(points()) if Path(point).is_relative_to(directory)]


def unmount_below(directory: Path) -> None:
    """Unmount everything in a directory.

    `--lazy` detaches a file system that a process still uses, too, instead of failing.
    """
    for point in below(directory):
        run("umount", "--lazy", point)


def loop_devices(directory: Path) -> list[str]:
    """Device names, like /dev/loop3, of the loop devices whose backing file is in a directory.

    Files that were removed since are included: the kernel still reports their former path.
    """
    listing = run("losetup", "--list", "--json", "--output", "NAME,BACK-FILE").strip()
    devices = json.loads(listing)["loopdevices"] if listing else []
    return [
        one["name"]
        for one in devices
        if one["back-file"] and Path(one["back-file"]).is_relative_to(directory)
    ]
