"""`python -m e2e.kafka DIRECTORY` puts Kafka's tools there, as the scripts users type."""

import sys
from pathlib import Path

from e2e.cluster.console import Refused, console
from e2e.kafka.tools import scripts


def main() -> None:
    (directory,) = map(Path, sys.argv[1:])
    try:
        for script in scripts(directory):
            console.print(str(script))
    except Refused as refused:
        console.print(f"kafka: {refused}", markup=False)
        sys.exit(2)


if __name__ == "__main__":
    main()
