"""Ports for brokers: different ones, free, and out of the way of connections."""

import socket
from pathlib import Path

from e2e.kafka.ports import LOOPBACK, RANGE, free_ports, is_free


def test_different_and_free() -> None:
    found = free_ports(50)
    assert len(set(found)) == 50
    assert all(port in RANGE for port in found)


def test_a_taken_port_is_not_free() -> None:
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)
    assert is_free(port)


def test_the_kernel_gives_none_of_them_to_connections() -> None:
    lowest = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]
    assert RANGE.stop <= int(lowest)
