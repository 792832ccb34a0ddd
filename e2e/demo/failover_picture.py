"""`python -m e2e.demo.failover_picture`: records a failover on the demo's cluster as a picture.

A producer sends orders with acks=all, the topic is described several times a second as `chiplog
topics describe` does, and kubectl deletes the pod of a leader. `docs/images/killed-leader.svg`
shows this in the original timing. At the end kcat reads back every acknowledged order.
"""

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from chiplog_cli.errors import CannotDo
from chiplog_cli.facts import Topic
from chiplog_cli.librdkafka.admin import LibrdkafkaTopics
from chiplog_cli.librdkafka.connecting import Connection
from e2e.cluster import build, layout
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.target import current_target
from e2e.demo import topic
from e2e.demo.animation import Frame, Line, Span, animated
from e2e.demo.checking import LIMIT_S, Broken, check
from e2e.demo.cli import NAMESPACE
from e2e.demo.load import Load
from e2e.demo.topic import TOPIC
from e2e.main import replicas
from e2e.main.broker_cluster import BrokerClusterUnderTest

PICTURE: Final = layout.CHECKOUT / "docs" / "images" / "killed-leader.svg"
TITLE: Final = "a leader dies on Kubernetes"
PARTITION: Final = 0
POLL_EVERY_S: Final = 0.1
BEFORE_S, AFTER_S, STILL_S = 3.0, 2.0, 5.0
"""Recorded seconds before the kill and after all replicas are in sync again; how long the last
frame is shown."""


@dataclass
class Recording:
    """The cluster, and the frames recorded of it."""

    cluster: BrokerClusterUnderTest
    load: Load
    began_s: float = 0.0
    """The moment of the first frame."""
    frames: list[Frame] = field(default_factory=list)
    head: tuple[Line, ...] = ()
    foot: tuple[Line, ...] = ()
    """Lines above and below the table."""
    last: Topic | None = None
    """The last answer of a broker."""

    def __post_init__(self) -> None:
        connection = Connection(bootstrap_servers=self.cluster.bootstrap, timeout_s=2.0)
        self.admin = LibrdkafkaTopics(connection)

    @property
    def now_s(self) -> float:
        return time.monotonic() - self.began_s

    def observe(self) -> Topic | None:
        """Record a frame if anything changed, and return the topic as it is now.

        While no broker answers, that is the last answer.
        """
        before = self.last
        with suppress(CannotDo):
            (self.last,) = self.admin.describe_topics([TOPIC])
        producer = (
            Span("producer, acks=all: ", "dim"),
            Span(f"{len(self.load.acknowledged):,} orders acknowledged", "good"),
            Span(f", {len(self.load.refused)} refused", "dim"),
        )
        lines = (*self.head, *described(self.last, before), (), producer, (), *self.foot)
        if not self.frames:
            self.began_s = time.monotonic()
        if not self.frames or self.frames[-1].lines != lines:
            self.frames.append(Frame(self.now_s, lines))
        time.sleep(POLL_EVERY_S)
        return self.last

    def observe_for(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.observe()


def described(found: Topic | None, before: Topic | None) -> Sequence[Line]:
    """The topic as a table; `before` is the answer before, if any.

    Leaders are highlighted if they have just changed or are not the preferred ones. A replica that
    is not in the ISR is a red dot.
    """
    if found is None:
        return ()
    lines: list[Line] = [(Span("PARTITION  LEADER  REPLICAS  IN SYNC", "dim"),)]
    for number, one in enumerate(found.partitions):
        was = before.partitions[number].leader if before else one.leader
        leader = "none" if one.leader is None else str(one.leader)
        style = "bad" if one.leader is None else "new" if one.leader != one.replicas[0] else ""
        isr = [
            Span(f"{broker} ", "" if broker in one.isr else "bad")
            if broker in one.isr
            else Span("· ", "bad")
            for broker in sorted(one.replicas)
        ]
        lines.append(
            (
                Span(f"{TOPIC}-{one.partition}".ljust(11)),
                Span(leader.ljust(8), "new" if was != one.leader else style),
                Span(",".join(map(str, one.replicas)).ljust(10), "dim"),
                *isr,
            )
        )
    return lines


def prompt(command: str) -> Line:
    """A line with a shell prompt and a command."""
    return (Span("$ ", "prompt"), Span(command, "prompt"))


def plain(text: str, style: str = "") -> tuple[Line, ...]:
    """A printed text as lines of one style."""
    return tuple((Span(line.rstrip(), style),) for line in text.strip().splitlines())


def is_whole(found: Topic | None) -> bool:
    """Whether the topic is known and all its replicas are in sync."""
    return found is not None and not any(one.is_under_replicated for one in found.partitions)


def main() -> None:
    """Record a failover and write the picture into the docs."""
    target = current_target()
    cluster = BrokerClusterUnderTest(Kubectl(target.kubeconfig, NAMESPACE))
    replicas.wait_preferred(cluster, LIMIT_S)
    before = topic.end_offsets(cluster.bootstrap)
    with Load(cluster.bootstrap, first_number=0) as load:
        recorded, gap_s = record(Recording(cluster, load))
    check(not load.refused, expected="every order is acknowledged", found=load.refused[:1])
    texts = [one.text for one in load.acknowledged]
    topic.check_texts(cluster.bootstrap, before, texts)
    recorded.foot += (
        (
            Span(
                f"{len(texts):,} orders acknowledged, {len(texts):,} read back: none lost. ", "good"
            ),
        ),
        (Span(f"The longest pause of {TOPIC}-{PARTITION}: {gap_s:.2f} s", "good"),),
    )
    recorded.observe()
    end_s = recorded.frames[-1].at_s + STILL_S
    PICTURE.write_text(animated(recorded.frames, end_s, TITLE))
    size_kb = PICTURE.stat().st_size / 1000
    print(f"{PICTURE.relative_to(layout.CHECKOUT)}: {end_s:.0f} s, {size_kb:.0f} kB")


def record(recording: Recording) -> tuple[Recording, float]:
    """Delete the pod of a leader, and record until all replicas are in sync again.

    Also returns the longest time without an acknowledgement for the partition, in seconds.
    """
    cluster = recording.cluster
    shown = cluster.kubectl("get", "brokerclusters.chiplog.dev")
    recording.head = (
        *(prompt("kubectl get brokerclusters"), *plain(columns(shown)), ()),
        prompt(f"watch chiplog topics describe {TOPIC}"),
    )
    recording.observe_for(BEFORE_S)
    leader = replicas.leader_of(cluster, TOPIC, PARTITION)
    pod = replicas.pod_of(cluster, leader)
    recording.foot = (prompt(f"kubectl delete pod {pod} --force    # leads {TOPIC}-{PARTITION}"),)
    recording.observe_for(1.0)
    killed_s = time.monotonic()
    arguments = ("delete", "pod", pod, "--force", "--wait=false")
    program = (str(build.program("kubectl")), f"--kubeconfig={cluster.kubectl.kubeconfig}")
    child = subprocess.Popen(
        [*program, f"--namespace={cluster.kubectl.namespace}", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    # Until a replica is missing, the table is still that of before the deletion.
    printed, was_broken = "", False
    while time.monotonic() < killed_s + LIMIT_S:
        found = recording.observe()
        if not printed and child.poll() is not None:
            assert child.stdout is not None, "its output is a pipe"
            printed = child.stdout.read()
            recording.foot += plain(printed)
        was_broken = was_broken or not is_whole(found)
        if was_broken and is_whole(found):
            break
    else:
        raise Broken(
            expected=f"all replicas in sync again within {LIMIT_S:.0f} s",
            found="some are not in sync",
        )
    seconds = time.monotonic() - killed_s
    recording.foot += ((Span(f"broker {leader} is back, all in sync: {seconds:.0f} s", "dim"),),)
    recording.observe_for(AFTER_S)
    recording.load.ending.set()
    return recording, recording.load.gap_s(PARTITION, killed_s)


def columns(table: str) -> str:
    """kubectl's table without the columns after READY, so that it is no wider than the rest."""
    header, *rows = table.strip().splitlines()
    end = header.index("READY   REASON") + len("READY")
    return "\n".join(line[:end].rstrip() for line in (header, *rows))


if __name__ == "__main__":
    main()
