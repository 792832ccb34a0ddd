"""How a broker divides its memory, its file descriptors and its connections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.broker_shares import (
    KIB,
    MIB,
    connection_shares,
    descriptor_shares,
    memory_shares,
)

SMALLEST_POD_BYTES = 256 * MIB


@given(st.integers(SMALLEST_POD_BYTES, 64 * 1024 * MIB))
def test_all_shares_together_leave_a_quarter_to_the_process_itself(memory_bytes: int) -> None:
    found = memory_shares(memory_bytes)
    connections_bytes = found.connections * 22 * KIB  # each in the middle of a small request
    together = (
        found.clients_bytes
        + found.brokers_bytes
        + connections_bytes
        + found.session_partitions * 350
        + found.compaction_bytes
        + found.freed_bytes
    )

    assert together <= memory_bytes * 3 // 4


def test_the_shares_of_the_smallest_pod() -> None:
    found = memory_shares(SMALLEST_POD_BYTES)

    assert (found.clients_bytes, found.answer_bytes) == (64 * MIB, 4 * MIB)
    assert found.brokers_bytes == SMALLEST_POD_BYTES // 12
    assert (found.connections, found.session_partitions) == (1024, 23_967)
    assert (found.compaction_bytes, found.freed_bytes) == (32 * MIB, 16 * MIB)


def test_with_hardly_any_memory_a_broker_still_answers() -> None:
    found = memory_shares(1)

    assert (found.clients_bytes, found.brokers_bytes) == (8 * MIB, 16 * MIB)
    assert (found.connections, found.compaction_bytes) == (128, 8 * MIB)
    assert found.freed_bytes == 4 * MIB


def test_with_much_memory_the_shares_for_requests_stop_growing() -> None:
    found = memory_shares(1024 * 1024 * MIB)

    assert (found.clients_bytes, found.brokers_bytes) == (1024 * MIB, 256 * MIB)
    assert (found.session_partitions, found.freed_bytes) == (400_000, 64 * MIB)


@pytest.mark.parametrize("limit", [64, 256, 1024, 20_000, 2**20])
def test_clients_leave_descriptors_to_brokers_and_both_leave_some_to_files(limit: int) -> None:
    found = descriptor_shares(limit)
    assert 0 < found.clients_below < found.brokers_below < found.files_below < limit


def test_a_high_limit_reserves_no_more_than_files_need() -> None:
    found = descriptor_shares(2**20)

    assert 2**20 - found.clients_below == 4096


@pytest.mark.parametrize(
    ("memory_bytes", "clients_below", "in_all", "of_one_address"),
    [
        (SMALLEST_POD_BYTES, 100_000, 1024, 768),  # bounded by memory
        (SMALLEST_POD_BYTES, 264, 200, 150),  # bounded by descriptors
        (SMALLEST_POD_BYTES, 2, 1, 1),  # never none
    ],
)
def test_memory_and_descriptors_bound_the_connections(
    memory_bytes: int, clients_below: int, in_all: int, of_one_address: int
) -> None:
    found = connection_shares(memory_shares(memory_bytes), clients_below)

    assert (found.in_all, found.of_one_address) == (in_all, of_one_address)


def test_connections_with_tls_count_twice() -> None:
    """Each keeps a buffer of 256 KiB: together they stay within three quarters of a small pod."""
    memory = memory_shares(256 * MIB)
    found = connection_shares(memory, 1_000_000, have_tls=True)
    assert found.in_all == memory.connections // 2
    assert found.in_all * (256 * KIB + 40 * KIB) <= 256 * MIB * 3 // 4
