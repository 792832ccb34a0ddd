"""Measures how long groups cannot commit after their coordinator was killed.

It works wherever the brokers run: the caller gives the bootstrap servers, a topic that is written
to all the time, and a function that kills a broker. All groups have the same coordinator, so that
the one kill affects all of them.
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
    """The id of a broker, and `GROUPS` group names whose coordinator it is."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    topic = admin.list_topics(CONSUMER_OFFSETS, timeout=ASK_LIMIT_S).topics[CONSUMER_OFFSETS]
    leaders = {number: int(one.leader) for number, one in topic.partitions.items()}

    def coordinator(group: str) -> int:
        return leaders[partition_of(group, len(leaders))]

    names = [f"{prefix}-{number}" for number in range(len(leaders) * GROUPS)]
    chosen = coordinator(names[0])
    return chosen, [*islice((one for one in names if coordinator(one) == chosen), GROUPS)]


def back_s(groups: GroupHistory, wanted: Mapping[Place, int], killed_s: float) -> float | None:
    """When the last of these partitions had a commit above its offset in `wanted`.

    None if one of them has no such commit yet. `killed_s` and the result are in seconds since the
    run began. Only commits requested after the kill count, as the killed broker may have
    acknowledged earlier ones.
    """
    first_s: dict[Place, float] = {}
    for one in groups.commits.copy():
        if one.asked_s >= killed_s and one.offset > wanted.get(one.place, one.offset):
            first_s[one.place] = min(one.answered_s, first_s.get(one.place, NEVER_S))
    last_s = max((first_s.get(one, NEVER_S) for one in wanted), default=NEVER_S)
    return None if last_s == NEVER_S else last_s


class CoordinatorFailover:
    """Five groups of four members each, which read and commit while the block runs."""

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
        """For each group, when it had committed more than these end offsets in every partition.

        None for a group that has not yet; see `back_s` above.
        """
        by_label = dict(zip(self.ledger.labels, ends, strict=True))
        found: dict[str, float | None] = {}
        for group in self.groups:
            wanted = {Place(group, label): end for label, end in by_label.items()}
            found[group] = back_s(self.ledger.groups, wanted, killed_s)
        return found

    def kill_coordinator(self, kill: Callable[[int], object], limit_s: float) -> dict[str, float]:
        """Kill the coordinator once all groups commit, and return each group's outage in seconds.

        The outage begins just before the kill, and ends when the group has committed, in every
        partition, a record that was written after the kill. `kill` kills (SIGKILL) the broker with
        this id, and returns when its process is gone. Raises `TimeoutError` if a group has not
        committed again within `limit_s`.
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
        """Wait until every group has committed more than `ends`; returns when each had.

        `what` says in a `TimeoutError` what was waited for.
        """
        try:
            wait_until(what, lambda: None not in self.back_s(ends, since_s).values(), limit_s)
        except TimeoutError as late:
            problems = self.ledger.groups.problems.most_common(5)
            raise TimeoutError(f"{late}: {self.back_s(ends, since_s)}, {problems}") from late
        found = self.back_s(ends, since_s)
        return {group: at_s for group, at_s in found.items() if at_s is not None}

    def check(self) -> None:
        """Raise `AssertionError` if a commit was lost or a record skipped.

        Must be called when no records are written any more and the members still run.
        """
        records = History()
        read_everything(self.bootstrap, self.ledger, records)
        ends = [records.ends[label] for label in self.ledger.labels]
        wait_caught_up(self.bootstrap, self.groups, self.ledger, ends)
        self.crowd.ask_to_stop()
        self.crowd.wait_stopped()
        known = self.ledger.groups
        assert not self.ledger.errors, self.ledger.errors
        assert records.final.keys() == {*self.ledger.labels}, (
            "some partitions could not be read to their end"
        )
        assert not (found := check_groups(known, records)), found[:5]
        assert not (unseen := missed_of_groups(known, records)), (
            f"the checkers do not report the planted {unseen}"
        )
