"""`python -m e2e.hostile`."""

import sys

from e2e.hostile.run import main

if __name__ == "__main__":
    sys.exit(main())
