"""`python -m chiplog_broker`."""

import signal
import sys

# The first process of a container is not ended by a signal that it does not handle, and a pod
# may be deleted while this one is still importing: then it would only end with its grace period.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

from chiplog_broker.main import main  # noqa: E402 - takes a while

main()
