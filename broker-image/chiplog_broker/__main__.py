"""`python -m chiplog_broker`."""

import signal
import sys

# Python's default does not handle SIGTERM, and the first process of a container ignores signals
# without a handler. A pod may be deleted while this module is still importing; without this it
# would run until the end of its grace period.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

from chiplog_broker.main import main  # noqa: E402 - takes a while

main()
