"""Free ports of 127.0.0.1 for brokers that are stopped and started again.

They are taken from below the range out of which the kernel gives ports to
connections: a client of thousands of connections then cannot sit on the port of a
broker that is just down. They lie beside those of the local cluster (`e2e.cluster`).
"""

import random
import socket
from itertools import islice

LOOPBACK = "127.0.0.1"
RANGE = range(24_000, 30_000)


def free_ports(count: int) -> list[int]:
    """Ports on which nothing listens now."""
    shuffled = random.sample(RANGE, len(RANGE))
    found = list(islice((port for port in shuffled if is_free(port)), count))
    if len(found) < count:
        raise OSError(f"no {count} free ports between {RANGE.start} and {RANGE.stop}")
    return found


def is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
