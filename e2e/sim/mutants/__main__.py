"""`python -m e2e.sim.mutants`."""

import sys

from e2e.sim.mutants.run import main

if __name__ == "__main__":
    sys.exit(main())
