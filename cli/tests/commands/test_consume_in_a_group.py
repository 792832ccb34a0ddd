"""`chiplog consume --group` as a program of a Deployment: it ends on SIGTERM, others take over."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog

PROGRAM = (sys.executable, "-m", "chiplog_cli")
ENDED_BY_SIGTERM = 128 + signal.SIGTERM
LIMIT_S = 60
RECORDS = 400
PADDING = "x" * 1000
"""With it a pipe that nobody reads is full after a few dozen records."""


class Member:
    """A process in the group that is named as its topic; `lines` grows from `read` on."""

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self.child = child
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self.child.stdout is not None
        self.lines.extend(self.child.stdout)

    def read_one(self) -> None:
        assert self.child.stdout is not None
        self.lines.append(self.child.stdout.readline())

    def read(self) -> None:
        self.reader.start()

    def end(self) -> None:
        """By SIGTERM, which it obeys without a word."""
        self.child.terminate()
        status = self.child.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        assert self.child.stderr is not None
        said = self.child.stderr.read()
        assert (status, said) == (ENDED_BY_SIGTERM, ""), said


@contextmanager
def consuming(broker: StandaloneBroker, topic: str) -> Iterator[Member]:
    where = ("--group", topic, "--from-beginning", "--bootstrap-server", broker.bootstrap)
    with subprocess.Popen(
        [*PROGRAM, "consume", topic, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield Member(child)
        finally:
            child.kill()


def group(chiplog: Chiplog, name: str) -> dict[str, Any]:
    (told,) = json.loads(chiplog("groups", "describe", name, "-o", "json").stdout)
    assert isinstance(told, dict)
    return told


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_sigterm_commits_what_was_printed_and_leaves(
    broker: StandaloneBroker, chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic()
    chiplog("produce", name, stdin="one\ntwo\n")
    with consuming(broker, name) as member:
        member.read_one()
        member.read_one()
        member.read()
        member.end()
    assert [line.split("\t")[-1] for line in member.lines] == ["one\n", "two\n"]
    told = group(chiplog, name)
    assert (told["state"], told["members"]) == ("Empty", [])
    (partition,) = told["partitions"]
    # The last one may have been on its way out at that moment.
    assert partition["currentOffset"] in {1, 2}


def test_what_a_member_still_prints_when_another_joins_is_printed_once(
    broker: StandaloneBroker, chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic(4)
    keyed = "".join(f"{number}:{PADDING}\n" for number in range(RECORDS))
    chiplog("produce", name, "--key-separator", ":", stdin=keyed)
    with consuming(broker, name) as first:
        # It has all partitions, and stands still with more than its pipe holds.
        first.read_one()
        with consuming(broker, name) as second:
            second.read()
            wait_until(lambda: len(group(chiplog, name)["members"]) == 2)
            first.read()
            wait_until(lambda: len(first.lines) + len(second.lines) >= RECORDS)
            second.end()
        first.end()
    places = [tuple(line.split("\t")[:2]) for line in (*first.lines, *second.lines)]
    assert len(places) == len(set(places)) == RECORDS
