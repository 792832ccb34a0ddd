"""What Chiplog decides: value types, validation and (as they are built) its planners.

Everything here is a pure function or a frozen value. Nothing here waits, reads a
clock, touches a file or imports more than the standard library, so that the
operator, the broker, the simulator and the tests all run the same decisions.
"""
