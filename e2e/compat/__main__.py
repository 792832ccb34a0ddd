"""`python -m e2e.compat`."""

import sys

from e2e.compat.run import main

if __name__ == "__main__":
    sys.exit(main())
