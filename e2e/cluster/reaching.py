"""Whether a pod can connect to an address, seen from inside of the pod."""

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
    """Whether a connection is taken within a second; the pod needs Python."""
    said = kubectl.execute(pod, "python3", "-c", CONNECT % (address, port)).strip()
    assert said in {"open", "closed"}, said
    return said == "open"
