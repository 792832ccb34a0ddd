"""Members of groups as programs: our own with two libraries, and Kafka's VerifiableConsumer.

Each object is one process of a member, from its start until it leaves the group or is killed.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.chaos.by_java import OPTIONS
from e2e.chaos.ledger import Ledger
from e2e.chaos.member_lines import JavaLines, MemberLines, OwnLines
from e2e.chaos.producers import REQUEST_LIMIT_MS
from e2e.chaos.program import Program
from e2e.clients.group_member import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from e2e.kafka.java import java

LEAVE_LIMIT_S = 20
# VerifiableConsumer commits after each poll. So polls are made rare, each with many records.
RARE_POLLS = {
    "fetch.min.bytes": 2**20,
    "fetch.max.wait.ms": 1_000,
    "max.poll.records": 5_000,
    "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
    "request.timeout.ms": REQUEST_LIMIT_MS,
}


class Member(Program):
    """One member of a group, in its own process."""

    kind: type[MemberLines] = OwnLines

    def __init__(
        self, library: str, group: str, name: str, bootstrap: str, ledger: Ledger, directory: Path
    ) -> None:
        self.name, self.library, self.group = name, library, group
        self.lines = self.kind(group, name, ledger)
        super().__init__(bootstrap, ledger, directory)

    def command(self) -> list[str]:
        return worker_command(self.library, self.bootstrap, self.ledger.topic, self.group)

    def line(self, text: str) -> None:
        self.lines.take(json.loads(text))

    def read(self) -> None:
        """Read the program's lines until it ends; then its unanswered commit is noted as such."""
        super().read()
        self.lines.end()

    def crash(self) -> None:
        """Kill the process (SIGKILL), without leaving the group; an earlier end is noted as an
        error."""
        self.must_run()
        self.kill()

    def leave(self) -> None:
        """Let the member leave the group and end; it is killed if that takes too long."""
        self.ask_to_stop()
        self.wait_left()

    def wait_left(self) -> None:
        """Wait until the process ended; after `LEAVE_LIMIT_S` it is killed.

        While brokers are unavailable, leaving can take longer.
        """
        if not self.ended.wait(LEAVE_LIMIT_S):
            self.ledger.disturbances.append(f"{self.name} did not leave")
        self.kill()


class JavaMember(Member):
    """Kafka's VerifiableConsumer."""

    kind = JavaLines

    def command(self) -> list[str]:
        """Write the config file; returns the call of VerifiableConsumer as a group member."""
        config = self.directory / "group-member.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in RARE_POLLS.items()))
        return [
            *java("org.apache.kafka.tools.VerifiableConsumer", OPTIONS),
            *("--bootstrap-server", self.bootstrap, "--topic", self.ledger.topic),
            *("--group-id", self.group, "--reset-policy", "earliest"),
            *("--session-timeout", str(SESSION_TIMEOUT_MS), "--command-config", str(config)),
        ]


class Crowd(Program):
    """Members of several groups in one process, all with librdkafka."""

    name = "crowd"

    def __init__(self, groups: list[str], bootstrap: str, ledger: Ledger, directory: Path) -> None:
        """One member for each entry of `groups`; a group with several members appears several
        times."""
        super().__init__(bootstrap, ledger, directory)
        self.groups = groups
        self.lines = [OwnLines(one, f"{one}.{n}", ledger) for n, one in enumerate(groups)]

    def command(self) -> list[str]:
        return worker_command("librdkafka", self.bootstrap, self.ledger.topic, *self.groups)

    def line(self, text: str) -> None:
        """Pass a printed line to the reader of the member that it names (by its number)."""
        line = json.loads(text)
        self.lines[line["member"]].take(line)

    def read(self) -> None:
        """Read the program's lines until it ends; then each member's unanswered commit is noted."""
        super().read()
        for one in self.lines:
            one.end()


def worker_command(library: str, bootstrap: str, topic: str, *groups: str) -> list[str]:
    """The command of `group_worker` with one member for each entry of `groups`."""
    return [sys.executable, "-m", "e2e.chaos.group_worker", library, bootstrap, topic, *groups]


KINDS: Mapping[str, type[Member]] = {
    "librdkafka": Member,
    "kafka-python": Member,
    "java": JavaMember,
}
