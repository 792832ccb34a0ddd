"""`python -m e2e.mutants`."""

import sys

from e2e.mutants.run import main

if __name__ == "__main__":
    sys.exit(main())
