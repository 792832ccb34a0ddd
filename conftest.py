"""What holds for all tests: none is timed, a busy machine proves nothing."""

import signal

from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script's background job ignores Ctrl-C, and so would the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
