"""How long groups commit nothing after their coordinator was killed.

The same wherever the brokers are: the caller gives the bootstrap servers, a topic that
somebody writes to all the time, and a function that kills a broker. All groups have one
coordinator, so that all of them lose theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient

from chiplog_core.groups.placement import partition_of
from chiplog_core.topic_name import CONSUMER_OFFSETS
from e2e.chaos.committed import wait_caught_up
from e2e.chaos.controls import missed_of_groups
from e2e.chaos.group_checkers import check_groups
from e2e.chaos.group_history import NEVER_S, GroupHistory, Place
from e2e.chaos.group_members import Crowd
from e2e.chaos.last_reader import read_everything
from e2e.chaos.ledger import Ledger
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import end_offsets
from e2e.cluster.processes import wait_until
from e2e.sim.history import History

GROUPS, MEMBERS_EACH = 5, 4
ASK_LIMIT_S = 10
WARM_LIMIT_S = 90


def one_coordinators_groups(bootstrap: str, prefix: str) -> tuple[int, list[str]]:
    """A broker, and names of groups which it coordinates."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    known = admin.list_topics(CONSUMER_OFFSETS, timeout=ASK_LIMIT_S).topics[CONSUMER_OFFSETS]
    leaders = {number: int(one.leader) for number, one in known.partitions.items()}

    def coordinator(group: str) -> int:
        return leaders[partition_of(group, len(leaders))]

    names = [f"{prefix}-{number}" for number in range(len(leaders) * GROUPS)]
    chosen = coordinator(names[0])
    return chosen, [*islice((one for one in names if coordinator(one) == chosen), GROUPS)]


def back_s(groups: GroupHistory, wanted: Mapping[Place, int], killed_s: float) -> float | None:
    """When more than `wanted` was committed in each of these partitions; None where it was not.

    `killed_s` and what is returned are moments of the history. A commit counts where it was asked
    for after the kill: what the dead broker acknowledged does not.
    """
    first_s: dict[Place, float] = {}
    for one in groups.commits.copy():
        if one.asked_s >= killed_s and one.offset > wanted.get(one.place, one.offset):
            first_s[one.place] = min(one.answered_s, first_s.get(one.place, NEVER_S))
    last_s = max((first_s.get(one, NEVER_S) for one in wanted), default=NEVER_S)
    return None if last_s == NEVER_S else last_s


class CoordinatorFailover:
    """Five groups of four members each, at work within the block."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.ledger = Ledger(topic, partitions)
        self.broker, self.groups = one_coordinators_groups(bootstrap, topic)
        everyone = [group for group in self.groups for _ in range(MEMBERS_EACH)]
        self.crowd = Crowd(everyone, bootstrap, self.ledger, directory)

    def __enter__(self) -> Self:
        self.crowd.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.crowd.kill()

    def back_s(self, ends: Sequence[int], killed_s: float) -> dict[str, float | None]:
        """For each group, when it had committed what was written after these end offsets."""
        by_label = dict(zip(self.ledger.labels, ends, strict=True))
        found: dict[str, float | None] = {}
        for group in self.groups:
            wanted = {Place(group, label): end for label, end in by_label.items()}
            found[group] = back_s(self.ledger.groups, wanted, killed_s)
        return found

    def kill_coordinator(self, kill: Callable[[int], object], limit_s: float) -> dict[str, float]:
        """Kill it once everybody commits; group -> seconds from just before the kill until it
        had committed, in every partition, records that were written after that.

        `kill` does kill -9 of the broker with this id, and returns when the process is gone.
        Raises `TimeoutError` where a group has not come back within `limit_s`.
        """
        numbers = range(self.ledger.partitions)
        self.wait_committed("all groups commit", [0 for _ in numbers], 0.0, WARM_LIMIT_S)
        ends = end_offsets(self.bootstrap, self.ledger.topic, numbers)
        killed_s = self.ledger.now_s()
        kill(self.broker)
        found = self.wait_committed("all groups commit again", ends, killed_s, limit_s)
        return {group: at_s - killed_s for group, at_s in found.items()}

    def wait_committed(
        self, what: str, ends: Sequence[int], since_s: float, limit_s: float
    ) -> dict[str, float]:
        """Until every group has committed what was written after `ends`, and when each had."""
        try:
            wait_until(what, lambda: None not in self.back_s(ends, since_s).values(), limit_s)
        except TimeoutError as late:
            problems = self.ledger.groups.problems.most_common(5)
            raise TimeoutError(f"{late}: {self.back_s(ends, since_s)}, {problems}") from late
        found = self.back_s(ends, since_s)
        return {group: at_s for group, at_s in found.items() if at_s is not None}

    def check(self) -> None:
        """Raise `AssertionError` where a commit was lost or a record skipped.

        To be called when nobody writes any more and the members are still at work.
        """
        records = History()
        read_everything(self.bootstrap, self.ledger, records)
        ends = [records.ends[label] for label in self.ledger.labels]
        wait_caught_up(self.bootstrap, self.groups, self.ledger, ends)
        self.crowd.ask_to_stop()
        self.crowd.wait_stopped()
        known = self.ledger.groups
        assert not self.ledger.errors, self.ledger.errors
        assert records.final.keys() == {*self.ledger.labels}, "not everything could be read"
        assert not (found := check_groups(known, records)), found[:5]
        assert not (unseen := missed_of_groups(known, records)), f"nobody reports {unseen}"
