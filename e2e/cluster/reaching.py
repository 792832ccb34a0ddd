"""Checks from inside a pod whether it can connect to an address."""

from e2e.cluster.kubectl import Kubectl

CONNECT = """
import socket
try:
    socket.create_connection(('%s', %d), 1).close()
    print('open')
except OSError:
    print('closed')
"""


def reaches(kubectl: Kubectl, pod: str, address: str, port: int) -> bool:
    """Whether the pod can open a TCP connection to this address within one second.

    The pod's image must contain Python.
    """
    output = kubectl.execute(pod, "python3", "-c", CONNECT % (address, port)).strip()
    assert output in {"open", "closed"}, output
    return output == "open"
