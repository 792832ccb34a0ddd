"""`python -m e2e.release DIRECTORY`."""

import sys
from pathlib import Path

from e2e.cluster.console import Refused, console
from e2e.cluster.shell import CommandFailed
from e2e.release import build


def main() -> None:
    """Build a release into a directory.

    Exit status 2 where this machine cannot (no Go toolchain for helm), 1 where a part does not
    build; either is said in words.
    """
    directory = Path(sys.argv[1])
    try:
        files = build.release(directory)
    except Refused as refused:
        console.print(f"dist: {refused}", markup=False)
        sys.exit(2)
    except CommandFailed as failed:
        console.print(f"dist: {failed}", markup=False, style="red")
        sys.exit(1)
    for path in files:
        console.print(f"{path.stat().st_size / 1024:9,.0f} KiB  {path}", markup=False)


main()
