"""A CA is replaced while kubelets are slow and brokers restart, and nobody is locked out.

The model has brokers whose mounted files may be of any age, that may restart with them, be down, or
report late. Users and clients read what is published at least every `PUBLISHED_FOR`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.certificates.authority import (
    PUBLISHED_FOR,
    Authority,
    CaCertificate,
    Issued,
    Request,
    Step,
    kept,
    next_step,
)
from chiplog_core.certificates.reports import Reporters
from chiplog_core.certificates.servers import why_issued
from chiplog_core.ids import BrokerId, Incarnation
from chiplog_core.model.broker import Broker
from chiplog_core.model.listener import INTERNAL_LISTENER_NAME as INTERNAL
from chiplog_core.model.listener_certificate import ListenerCertificate
from tests.certificates.reporting import broker, fingerprint, shows
from tests.certificates.test_authority import NOW, TERM, certificate, issued

IDS = (1, 2, 3)
FOLLOWS = ("it reads the files", "it reports")
Published = tuple[CaCertificate, ...]


@dataclass
class Process:
    """A broker. `files` is what its kubelet mounted last, `memory` what it uses."""

    files: Any
    memory: Any
    reported: Any
    is_down: bool = False
    is_starting: bool = False

    def object(self, number: int, made_of: Any) -> Broker:
        """Its object; `made_of` turns what it uses into a report."""
        found = broker(number, made_of(self.reported), fenced=self.is_down)
        if not self.is_starting:
            return found
        started = replace(
            found.status,
            incarnation=Incarnation("b" * 32),
            listener_certificates=(replace(made_of(self.reported), fingerprint=None, trusted=()),),
        )
        return replace(found, status=started)


@dataclass
class World:
    """A CA, and the brokers. Subclasses say what brokers mount."""

    now: Any = NOW
    authority: Authority = field(default_factory=Authority)
    keys: int = 0
    brokers: dict[int, Process] = field(default_factory=dict)
    history: list[tuple[Any, Any]] = field(default_factory=list)

    def published(self, number: int) -> Any:
        """What the Secret that this broker mounts has now."""
        raise NotImplementedError

    def read(self) -> Any:
        """What users and clients read now."""
        raise NotImplementedError

    def round(self) -> None:
        """The operator's round, by another process each time: it remembers nothing."""
        raise NotImplementedError

    def start(self) -> None:
        self.round()
        for number in IDS:
            found = self.published(number)
            self.brokers[number] = Process(files=found, memory=found, reported=found)
        self.round()

    def steps(self, leaves: list[Issued], checked_by: Reporters) -> None:
        """All steps of the CA that are due."""
        for _ in range(8):
            step, done = next_step(self.authority, leaves, TERM, self.now, checked_by)
            if step is Step.NOTHING:
                return
            if step is Step.MAKE_KEY:
                self.keys += 1
                self.authority = replace(self.authority, key_id=f"key {self.keys}")
            else:
                published = kept(self.authority, step, self.now)
                if step is Step.SIGN:
                    own = certificate(
                        self.authority.key_id,
                        at=self.now,
                        fingerprint=fingerprint(f"{self.authority.key_id} {self.now:%d%H%M%S}"),
                    )
                    published = (own, *published)
                self.authority = replace(self.authority, certificates=published)
            self.authority = replace(self.authority, requests=self.authority.requests - done)
        raise AssertionError("the steps do not end")

    def note(self) -> None:
        self.history.append((self.now, self.read()))

    def known(self) -> Iterator[Any]:
        """What somebody may have read last."""
        since = self.now - PUBLISHED_FOR
        before = [entry for entry in self.history if entry[0] <= since][-1:]
        after = [entry for entry in self.history if entry[0] > since]
        for _, found in (*before, *after):
            yield found

    def happen(self, event: str, number: int) -> None:  # noqa: C901, PLR0912 - a table
        """Something happens, mostly to one broker."""
        process = self.brokers[number]
        match event:
            case "the kubelet updates the files":
                process.files = self.published(number)
            case "it reads the files" if not process.is_down:
                process.memory = process.files
            case "it reports" if not process.is_down:
                process.reported, process.is_starting = process.memory, False
            case "its process restarts":
                process.memory = process.files
                process.is_starting, process.is_down = True, False
            case "it gets another pod":
                process.memory = process.files = self.published(number)
                process.is_starting, process.is_down = True, False
            case "the others follow":
                for other in set(IDS) - {number}:
                    for step in ("the kubelet updates the files", *FOLLOWS):
                        self.happen(step, other)
            case "it follows":
                for step in ("it gets another pod", *FOLLOWS):
                    self.happen(step, number)
            case "it is down":
                process.is_down = True
            case "the operator looks":
                self.round()
            case "its key is lost":
                self.authority = replace(self.authority, key_id="")
            case "a while passes":
                self.now += timedelta(seconds=40)
                self.round()  # it looks every 30 seconds
            case "minutes pass":
                self.now += PUBLISHED_FOR
                self.round()
            case _ if event in list(Request):
                asked = self.authority.requests | {Request(event)}
                self.authority = replace(self.authority, requests=asked)


class ClientsCa(World):
    """Brokers mount the published certificates; two users have certificates."""

    users: tuple[Issued, ...] = ()

    def published(self, number: int) -> Published:
        return self.authority.certificates

    def read(self) -> tuple[Issued, ...]:
        return self.users

    def reporters(self) -> Reporters:
        objects = {
            BrokerId(number): process.object(
                number, lambda used: shows(trusted=[one.fingerprint for one in used])
            )
            for number, process in self.brokers.items()
        }
        return Reporters.of(objects, wanted=[BrokerId(one) for one in self.brokers])

    def round(self) -> None:
        reporters = self.reporters()
        self.steps(list(self.users), reporters)
        found = []
        for user in self.users or (None, None):
            current = self.authority.current(self.now)
            if why_issued(user, frozenset(), self.authority, TERM, self.now, reporters):
                assert current is not None
                user = issued(current.key_id, at=self.now)  # noqa: PLW2901 - it gets this one
            assert user is not None
            found.append(user)
        self.users = tuple(found)
        self.note()

    def check(self) -> None:
        """Every broker lets in every user, with each certificate that the user may still have."""
        for users in self.known():
            for user in users:
                for process in self.brokers.values():
                    trusted = {one.key_id for one in process.memory}
                    assert user.issuer in trusted or process.is_down


class ClusterCa(World):
    """Brokers mount their own certificates and those of the CA, which clients read, too. The
    operator has a certificate."""

    leaves: tuple[Issued, ...] = ()
    operator: Issued | None = None

    def published(self, number: int) -> tuple[Issued, Published]:
        return self.leaves[number - 1], self.authority.certificates

    def read(self) -> Published:
        return self.authority.certificates

    def round(self) -> None:
        objects = {
            BrokerId(number): process.object(number, as_peer)
            for number, process in self.brokers.items()
        }
        reporters = Reporters.of(objects, wanted=[BrokerId(one) for one in self.brokers])
        reported = [
            replace(
                leaf,
                is_shown=reporters.serving(BrokerId(number), leaf.fingerprint, {INTERNAL}).is_so,
            )
            for number, leaf in enumerate(self.leaves, 1)
        ]
        own = () if self.operator is None else (replace(self.operator, is_shown=True),)
        self.steps([*reported, *own], reporters.as_peers())
        checked_by = reporters.as_peers()
        if why_issued(self.operator, frozenset(), self.authority, TERM, self.now, checked_by):
            self.operator = issued(self.authority.key_id, at=self.now)
        checked_by = reporters.as_peers(are_with_clients=True)
        found = []
        for number, leaf in enumerate(self.leaves or (None, None, None), 1):
            current = self.authority.current(self.now)
            if why_issued(leaf, frozenset(), self.authority, TERM, self.now, checked_by):
                assert current is not None
                leaf = replace(  # noqa: PLW2901 - it gets this one
                    issued(current.key_id, at=self.now),
                    fingerprint=fingerprint(f"{number} {current.key_id} {self.now:%d%H%M%S}"),
                )
            assert leaf is not None
            found.append(leaf)
        self.leaves = tuple(found)
        self.note()

    def check(self) -> None:
        """Every client trusts what every broker shows, and brokers, which are up, trust each other
        and the operator."""
        for published in self.known():
            for process in self.brokers.values():
                assert process.memory[0].issuer in {one.key_id for one in published}
        assert self.operator is not None
        running = [process.memory for process in self.brokers.values() if not process.is_down]
        for _, trusted in running:
            keys = {one.key_id for one in trusted}
            assert {self.operator.issuer, *(leaf.issuer for leaf, _ in running)} <= keys


def as_peer(used: tuple[Issued, Published]) -> ListenerCertificate:
    """What a broker reports of its own listener."""
    leaf, trusted = used
    return shows(leaf.fingerprint, trusted=[one.fingerprint for one in trusted], listener=INTERNAL)


EVENTS = st.sampled_from(
    [
        "the kubelet updates the files",
        "it reads the files",
        "it reports",
        "its process restarts",
        "it gets another pod",
        "it is down",
        "it follows",
        "the others follow",
        "the others follow",
        "the operator looks",
        "its key is lost",
        "a while passes",
        "minutes pass",
        "minutes pass",
        Request.REPLACE.value,
        Request.REMOVE_OLD.value,
        Request.REMOVE_OLD.value,
        Request.RENEW.value,
    ]
)
WALKS = st.lists(st.tuples(EVENTS, st.sampled_from(IDS)), max_size=60)


@settings(max_examples=200, deadline=None)
@given(WALKS)
def test_users_are_let_in_however_slow_kubelets_are(walk: list[tuple[str, int]]) -> None:
    world = ClientsCa()
    world.start()
    for event, number in walk:
        world.happen(event, number)
        world.check()
    settle(world)
    assert {one.issuer for one in world.users} == {world.authority.key_id}


@settings(max_examples=200, deadline=None)
@given(WALKS)
def test_brokers_are_trusted_however_slow_kubelets_are(walk: list[tuple[str, int]]) -> None:
    world = ClusterCa()
    world.start()
    for event, number in walk:
        world.happen(event, number)
        world.check()
    settle(world)
    assert {one.issuer for one in world.leaves} == {world.authority.key_id}


def settle(world: ClientsCa | ClusterCa) -> None:
    """When everything works again, the replacement ends."""
    for _ in range(3):
        for number in IDS:
            for event in ("it gets another pod", "it reports"):
                world.happen(event, number)
        world.happen(Request.REMOVE_OLD.value, 1)
        world.happen("minutes pass", 1)
        world.check()
    assert len(world.authority.certificates) == 1
    assert world.authority.requests <= {Request.REMOVE_OLD}
