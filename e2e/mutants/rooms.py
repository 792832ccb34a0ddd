"""The rooms (mutated modules), their unit tests, and the mix of faults for their survivors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TOPS: Final = ("core", "broker-image", "wire")
"""Directories of the repository that are on Python's path; module names begin below them."""


@dataclass(frozen=True, slots=True)
class Room:
    """One module whose every function is mutated."""

    name: str
    path: str
    tests: tuple[str, ...]
    """Files with unit tests that may cover it. A run measures which tests do."""
    mix: str
    """The mix in `seeds.MIXES` for simulations of survivors; empty for no simulations."""

    @property
    def module(self) -> str:
        """The module's dotted name."""
        path = self.path.removesuffix(".py")
        for top in TOPS:
            path = path.removeprefix(f"{top}/")
        return path.replace("/", ".")

    @property
    def source(self) -> str:
        return (ROOT / self.path).read_text()


def _in_storage(name: str, *tests: str, mix: str, file: str = "") -> Room:
    """A module of the broker's storage; `file` is its path there if it differs from `name`."""
    path = f"broker-image/chiplog_broker/storage/{file or name}.py"
    return Room(name, path, tuple(f"broker-image/tests/storage/{one}.py" for one in tests), mix)


def _on_leadership(name: str, *tests: str, mix: str, file: str = "") -> Room:
    """A module of `planner/leadership`; `file` is its name if it differs from the room's."""
    path = f"core/chiplog_core/planner/leadership/{file or name}.py"
    paths = tuple(f"core/tests/planner/leadership/{one}.py" for one in tests)
    return Room(name, path, paths, mix)


_BROKER: Final = "broker-image/chiplog_broker"
_TESTS: Final = "broker-image/tests"

ROOMS: Final = (
    _in_storage(
        "recovery",
        "test_recovery",
        "test_unclean_start",
        "test_damage",
        "test_gaps",
        "test_retries",
        mix="torn",
    ),
    _in_storage("producers", "test_producers", "test_refused_batches", mix="disks"),
    _in_storage(
        "durability",
        "test_durability",
        "test_log_append",
        "test_log_surgery",
        "test_group_commit",
        "test_recovery",
        "test_full_disk",
        mix="disks",
    ),
    _in_storage(
        "log_surgery",
        "test_log_surgery",
        "test_log_read",
        "test_producers",
        "test_free_space",
        "test_full_disk",
        mix="disks",
    ),
    _in_storage("retention", "test_retention", "test_log_surgery", mix="disks"),
    _in_storage(
        "rewrite", "test_rewrite", "test_compaction", mix="disks", file="compaction/rewrite"
    ),
    Room(
        "attestation",
        f"{_BROKER}/metadata/kubernetes/attestation.py",
        (f"{_TESTS}/metadata/kubernetes/test_rules.py",),
        "disks",
    ),
    Room(
        "follow_steps",
        f"{_BROKER}/partitions/follow_steps.py",
        (f"{_TESTS}/partitions/test_follow_steps.py",),
        "leaders",
    ),
    Room("isr", f"{_BROKER}/partitions/isr.py", (f"{_TESTS}/partitions/test_isr.py",), "leaders"),
    Room(
        "promises",
        f"{_BROKER}/partitions/proposals.py",
        (f"{_TESTS}/partitions/test_proposals.py",),
        "leaders",
    ),
    _on_leadership("proposals", "test_proposals", mix="leaders"),
    _on_leadership("elections", "test_elections", "test_replication", mix="leaders"),
    Room(
        "sessions",
        "core/chiplog_core/observed/sessions.py",
        ("core/tests/planner/brokers/test_sessions.py",),
        "leaders",
    ),
    _on_leadership("comparison", "test_comparison", "test_questions", mix="leaders"),
    _on_leadership(
        "regression", "test_settling", "test_regression", "test_questions", mix="leaders"
    ),
    Room(
        "forgetting",
        f"{_BROKER}/groups/forgetting.py",
        (f"{_TESTS}/groups/test_forgetting.py",),
        "groups",
    ),
    Room(
        "offset_value",
        f"{_BROKER}/groups/offset_value.py",
        (f"{_TESTS}/groups/test_values.py",),
        "groups",
    ),
    Room(
        "file_sending",
        f"{_BROKER}/server/file_sending.py",
        (f"{_TESTS}/server/test_file_sender.py", f"{_TESTS}/server/test_file_sending.py"),
        "",  # the simulator has no sockets
    ),
)


def named(name: str) -> Room:
    """The room of this name. Raises `ValueError` if there is none."""
    for room in ROOMS:
        if room.name == name:
            return room
    raise ValueError(
        f"no room is named {name!r}; use one of {', '.join(one.name for one in ROOMS)}"
    )
