from e2e.bench.memory import free_bytes

MEMINFO = """\
MemTotal:       24684348 kB
MemFree:        18391204 kB
MemAvailable:   23000000 kB
"""


def test_free_memory_is_what_nobody_has() -> None:
    assert free_bytes(MEMINFO) == 18391204 * 1024


def test_a_machine_that_does_not_say_has_none() -> None:
    assert free_bytes("Inactive: 1 kB\n") == 0
