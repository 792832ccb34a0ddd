"""What clients of others leave behind fails no test of ours; what our own code loses does."""

import gc
import socket
import warnings

import pytest

from e2e.kafka.ports import LOOPBACK, free_ports

TCP = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)


def test_the_socket_of_a_refused_connection() -> None:
    """As kafka-python loses it: it calls `connect` again, and drops the socket when that fails."""
    lost = socket.socket(*TCP)
    with pytest.raises(ConnectionRefusedError):
        lost.connect((LOOPBACK, *free_ports(1)))
    del lost
    gc.collect()


def test_a_socket_that_listens() -> None:
    with socket.create_server((LOOPBACK, 0)) as one, pytest.raises(ResourceWarning):
        warnings.warn(f"unclosed {one!r}", ResourceWarning, stacklevel=1)
