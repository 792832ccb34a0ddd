"""What is mounted where, and undoing it below one directory."""

import json
from pathlib import Path

from e2e.cluster.shell import run


def points() -> list[str]:
    """All mount points of the machine, in the order they were mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # The kernel writes blanks and the like as octal escapes.
    return [line.split()[4].encode().decode("unicode_escape") for line in lines]


def below(directory: Path) -> list[str]:
    """Mount points in a directory, the last mounted first."""
    return [point for point in reversed(points()) if Path(point).is_relative_to(directory)]


def unmount_below(directory: Path) -> None:
    """Unmount everything in a directory, also what is still in use somewhere."""
    for point in below(directory):
        run("umount", "--lazy", point)


def loop_devices(directory: Path) -> list[str]:
    """Loop devices whose file lies (or lay, before it was removed) in a directory."""
    listing = run("losetup", "--list", "--json", "--output", "NAME,BACK-FILE").strip()
    devices = json.loads(listing)["loopdevices"] if listing else []
    return [
        one["name"]
        for one in devices
        if one["back-file"] and Path(one["back-file"]).is_relative_to(directory)
    ]
