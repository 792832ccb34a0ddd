"""Members of groups as programs: our own with two libraries, and Kafka's VerifiableConsumer.

Each object is one life of a member, from its start to its end by leaving or by kill -9, and turns
what that says into the history of the groups.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from e2e.chaos.by_java import OPTIONS
from e2e.chaos.group_history import NEVER_S, Committed, Found, Place, Processed
from e2e.chaos.ledger import Ledger
from e2e.chaos.producers import REQUEST_LIMIT_MS
from e2e.chaos.program import Program
from e2e.clients.group_member import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from e2e.kafka.java import java

LEAVE_LIMIT_S = 20
MS = 0.001
# It commits what each poll brought, so polls are made to bring much.
RARE_POLLS = {
    "fetch.min.bytes": 2**20,
    "fetch.max.wait.ms": 1_000,
    "max.poll.records": 5_000,
    "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
    "request.timeout.ms": REQUEST_LIMIT_MS,
}


class Member(Program):
    """One process in a group."""

    def __init__(self, group: str, name: str, bootstrap: str, ledger: Ledger, folder: Path) -> None:
        self.name = name
        self.group, self.history = group, ledger.groups
        self.pending: dict[int, Committed] = {}
        """Partition -> a commit that has no answer yet."""
        super().__init__(bootstrap, ledger, folder)

    def place(self, partition: int) -> Place:
        return Place(self.group, self.ledger.labels[partition])

    def asked_to_commit(self, at_s: float, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            one = Committed(at_s, NEVER_S, self.place(partition), offset, self.name)
            self.pending[partition] = one

    def acknowledged(self, at_s: float) -> None:
        """All that it asked for last."""
        self.history.commits += [one._replace(answered_s=at_s) for one in self.take_pending()]

    def refused(self, why: str) -> None:
        """Nobody knows what is committed of what it asked for last."""
        self.history.commits += self.take_pending()
        self.history.problems[why] += 1

    def take_pending(self) -> list[Committed]:
        found = [*self.pending.values()]
        self.pending.clear()
        return found

    def began(self, since_s: float, partition: int, offset: int) -> None:
        self.history.found.append(Found(since_s, self.place(partition), offset, self.name))

    def processed(self, partition: int, first: int, last: int) -> None:
        self.history.processed.append(Processed(self.place(partition), first, last, self.name))

    def read(self) -> None:
        super().read()
        self.history.commits += self.take_pending()

    def crash(self) -> None:
        """kill -9."""
        self.must_run()
        self.kill()

    def leave(self) -> None:
        """Have it leave the group."""
        self.ask_to_stop()
        self.wait_left()

    def wait_left(self) -> None:
        """Killed where it takes long, as while brokers are away."""
        if not self.ended.wait(LEAVE_LIMIT_S):
            self.ledger.disturbances.append(f"{self.name} did not leave")
        self.kill()


class OwnMember(Member):
    """Of `group_worker`."""

    library: str

    def command(self) -> list[str]:
        words = (self.library, self.bootstrap, self.group, self.ledger.topic)
        return [sys.executable, "-m", "e2e.chaos.group_worker", *words]

    def line(self, text: str) -> None:
        told = json.loads(text)
        at_s = float(told["t"]) - self.ledger.began_s
        match told["event"]:
            case "began":
                since_s = float(told["since"]) - self.ledger.began_s
                self.began(since_s, told["partition"], told["offset"])
            case "processed":
                for first, last in told["runs"]:
                    self.processed(told["partition"], first, last)
            case "commit":
                offsets = {int(number): offset for number, offset in told["offsets"].items()}
                self.asked_to_commit(at_s, offsets)
            case "committed":
                self.acknowledged(at_s)
            case "refused" | "problem":
                self.refused(f"{self.library}: {told['what']}")
            case _:
                pass


class LibrdkafkaMember(OwnMember):
    library = "librdkafka"


class KafkaPythonMember(OwnMember):
    library = "kafka-python"


class JavaMember(Member):
    """It commits after each poll what that brought, and says both."""

    def __init__(self, group: str, name: str, bootstrap: str, ledger: Ledger, folder: Path) -> None:
        super().__init__(group, name, bootstrap, ledger, folder)
        self.given_s: dict[int, float] = {}
        """Partitions it was given and has read nothing of, with the moment."""
        self.monotonic_s = time.monotonic() - time.time() - ledger.began_s
        """What makes a moment of the run of one by the wall clock."""

    def command(self) -> list[str]:
        config = self.folder / "group-member.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in RARE_POLLS.items()))
        return [
            *java("org.apache.kafka.tools.VerifiableConsumer", OPTIONS),
            *("--bootstrap-server", self.bootstrap, "--topic", self.ledger.topic),
            *("--group-id", self.group, "--reset-policy", "earliest"),
            *("--session-timeout", str(SESSION_TIMEOUT_MS), "--command-config", str(config)),
        ]

    def line(self, text: str) -> None:
        told = json.loads(text)
        at_s = float(told["timestamp"]) * MS + self.monotonic_s
        match told["name"]:
            case "partitions_assigned":
                self.given_s |= {int(one["partition"]): at_s for one in told["partitions"]}
            case "partitions_revoked":
                self.given_s.clear()
            case "records_consumed":
                self.consumed(at_s, told["partitions"])
            case "offsets_committed" if told["success"]:
                # Its moments are cut to milliseconds, and it says so afterwards.
                self.acknowledged(at_s + MS)
            case "offsets_committed":
                self.refused(f"java: {told.get('error')}")
            case _:
                pass

    def consumed(self, at_s: float, partitions: list[dict[str, Any]]) -> None:
        """What a poll brought, which it commits next."""
        for one in partitions:
            number, first, last = (
                int(one[name]) for name in ("partition", "minOffset", "maxOffset")
            )
            if (since_s := self.given_s.pop(number, None)) is not None:
                self.began(since_s, number, first)
            if int(one["count"]) == last - first + 1:
                self.processed(number, first, last)
            else:  # it was not given all in between
                self.processed(number, first, first)
                self.processed(number, last, last)
        self.asked_to_commit(
            at_s, {int(one["partition"]): int(one["maxOffset"]) + 1 for one in partitions}
        )


MakeMember = Callable[[str, str, str, Ledger, Path], Member]
KINDS: Mapping[str, MakeMember] = {
    "librdkafka": LibrdkafkaMember,
    "kafka-python": KafkaPythonMember,
    "java": JavaMember,
}
