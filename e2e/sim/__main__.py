"""`python -m e2e.sim`."""

import sys

from e2e.sim.run import main

if __name__ == "__main__":
    sys.exit(main())
