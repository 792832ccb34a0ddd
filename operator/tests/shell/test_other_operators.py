"""Two releases that look after the same namespaces: the one that was there first goes on."""

import asyncio
from typing import Any

import pytest

from chiplog_core.naming import labels
from chiplog_core.naming.names import OPERATOR_LEASE
from chiplog_core.operator_lease.acquiring import Place
from chiplog_core.operator_lease.lease import Claim
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, Unavailable
from chiplog_operator import other_leases
from chiplog_operator.http import Health
from chiplog_operator.leadership import Leadership
from chiplog_operator.other_leases import GONE_S, OtherLeases, in_common
from chiplog_operator.other_operators import LIST_AGAIN_S, OtherOperators
from chiplog_operator.standby import TELL_AGAIN_S, ConflictReporter, Pod

ACCOUNT = "chiplog-operator"
TENANTS = ("tenant",)
"""Namespaces whose accounts have no rights of an operator."""
RULERS = ("ruled",)
"""Namespaces whose owner has all rights there, and gives them to accounts there."""


class Release:
    """One process of an operator's release."""

    def __init__(
        self, bench: Any, namespace: str, watches: str, name: str = "pod", api: Any = None
    ) -> None:
        self.health = Health()
        aside = ConflictReporter(bench.api, self.health, Pod(name, namespace, f"uid-of-{name}"))
        others = OtherLeases(namespace, Claim(watches=watches, account=ACCOUNT))
        asked: Any = api or Judging(bench)
        other_operators = OtherOperators(asked, bench.clock, others, aside)
        me = f"{namespace}/{name}"
        self.lead = Leadership(
            bench.api, bench.clock, namespace, me, other_operators=other_operators
        )
        self.task = asyncio.create_task(self._live())

    async def _live(self) -> None:
        await self.lead.acquire()
        self.health.is_leader = True
        await self.lead.keep()

    def acts(self) -> bool:
        """Whether it is past the election, and may write."""
        return self.health.is_leader and self.lead.is_held()

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})

    async def end(self) -> None:
        await self.kill()
        await self.lead.release()


class Judging:
    """An API server that knows which accounts are operators', and whose lists may arrive late."""

    def __init__(self, bench: Any, delay_s: float = 0.0, error: ApiError | None = None) -> None:
        self._bench, self._delay_s, self._error = bench, delay_s, error
        self.asked = 0

    async def list_(self, *given: Any, **more: Any) -> Any:
        found = await self._bench.api.list_(*given, **more)
        if self._delay_s:
            await self._bench.clock.sleep(self._delay_s)
        return found

    async def create(self, kind: Any, asked: Any, *, field_manager: str) -> Any:
        assert (kind, field_manager) == (kinds.ACCESS_REVIEWS, labels.OPERATOR)
        self.asked += 1
        if self._error is not None:
            raise self._error
        spec = asked["spec"]
        attributes = spec["resourceAttributes"]
        what = attributes["resource"], attributes["verb"], attributes["namespace"]
        _, _, namespace, account = spec["user"].split(":")
        if namespace in RULERS:
            allowed = what == ("partitionmaps", "update", namespace)
        else:
            assert what[:2] in {("partitionmaps", "update"), ("nodes", "list")}
            allowed = namespace not in TENANTS
        return {**asked, "status": {"allowed": allowed and account == ACCOUNT}}


def events(bench: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bench.api.all_of(kinds.EVENTS)
    return found


@pytest.mark.parametrize(
    ("mine", "theirs", "shared"),
    [
        ("*", "*", "*"),
        ("*", "demo,shop", "demo,shop"),
        ("demo", "*", "demo"),
        ("demo,shop", "billing,shop", "shop"),
        ("demo", "shop", ""),
        ("*", "", ""),
        ("demo", "", ""),
    ],
)
def test_what_two_operators_have_in_common(mine: str, theirs: str, shared: str) -> None:
    assert in_common(mine, theirs) == shared


def test_no_names_are_all_namespaces() -> None:
    assert other_leases.as_watches(()) == "*"
    assert other_leases.as_watches(("shop", "demo")) == "demo,shop"


@pytest.mark.parametrize(("first", "second"), [("*", "demo"), ("demo", "*"), ("*", "*")])
def test_a_second_one_for_the_same_namespaces_stays_unready_and_says_why(
    bench: Any, first: str, second: str
) -> None:
    async def scenario() -> None:
        one = Release(bench, "chiplog-system", first)
        await bench.clock.advance(5)
        assert one.acts()
        other = Release(bench, "team-a", second, api=Judging(bench, 1.0))
        await bench.clock.advance(0.9)
        assert other.health.ready() == (False, "starting"), "nor is it for a moment"
        await bench.clock.advance(TELL_AGAIN_S - LIST_AGAIN_S)
        assert one.acts()
        assert not other.acts()
        ready, why = other.health.ready()
        assert not ready
        assert "the operator in namespace chiplog-system also watches" in why
        assert one.health.ready() == (True, "active")
        (event,) = events(bench)
        assert (event["type"], event["reason"]) == ("Warning", "AnotherOperator")
        assert event["involvedObject"]["uid"] == "uid-of-pod"
        assert event["message"] == why
        await bench.clock.advance(2 * LIST_AGAIN_S)
        assert len(events(bench)) == 2, "told again before it is forgotten"
        held = [lease["metadata"]["namespace"] for lease in bench.api.all_of(kinds.LEASES)]
        assert held == ["chiplog-system"], "it writes nothing"
        await one.kill()
        await other.kill()

    bench.run(scenario())


def test_two_with_namespaces_of_their_own_do_not_care(bench: Any) -> None:
    async def scenario() -> None:
        releases = [Release(bench, "system-a", "a,b"), Release(bench, "system-b", "c")]
        await bench.clock.advance(5)
        assert all(one.acts() for one in releases)
        for one in releases:
            await one.kill()

    bench.run(scenario())


def test_when_the_first_one_is_gone_the_second_begins_by_itself(bench: Any) -> None:
    async def scenario() -> None:
        one = Release(bench, "chiplog-system", "*")
        await bench.clock.advance(5)
        other = Release(bench, "team-a", "demo")
        await bench.clock.advance(5)
        await one.end()
        await bench.clock.advance(GONE_S - 5)
        assert not other.acts()
        await bench.clock.advance(5 + 2 * LIST_AGAIN_S)
        assert other.acts()
        assert other.health.ready() == (True, "active")
        late = Release(bench, "chiplog-system", "*", "late")
        await bench.clock.advance(60)
        assert other.acts()
        assert not late.acts()
        await other.kill()
        await late.kill()

    bench.run(scenario())


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_release_that_hands_over_to_its_next_pod_loses_nothing(
    bench: Any, is_killed: bool
) -> None:
    async def scenario() -> None:
        one = Release(bench, "chiplog-system", "*")
        await bench.clock.advance(5)
        other = Release(bench, "team-a", "demo")
        standby = Release(bench, "chiplog-system", "*", "standby")
        await bench.clock.advance(5)
        assert standby.health.ready() == (True, "standby")
        await (one.kill() if is_killed else one.end())
        for _ in range(150):
            await bench.clock.advance(0.1)
            assert not other.acts()
        assert standby.acts()
        await standby.kill()
        await other.kill()

    bench.run(scenario())


@pytest.mark.parametrize("delays_s", [(0.2, 0.2), (0.2, 0.3), (0.3, 0.2), (1.0, 0.2), (0.2, 1.0)])
def test_of_two_that_begin_at_once_one_goes(bench: Any, delays_s: tuple[float, float]) -> None:
    async def scenario() -> None:
        both = [
            Release(bench, namespace, "*", api=Judging(bench, delay_s))
            for namespace, delay_s in zip(("b", "a"), delays_s, strict=True)
        ]
        for _ in range(600):
            await bench.clock.advance(0.1)
            assert sum(one.acts() for one in both) <= 1
        leases = [one["metadata"] for one in bench.api.all_of(kinds.LEASES)]
        assert len(leases) == 2, "each held its own before it saw the other"
        assert [one.health.ready()[0] for one in both] == [one.acts() for one in both]
        assert sum(one.acts() for one in both) == 1
        for one in both:
            await one.kill()

    bench.run(scenario())


def test_the_older_of_two_leases_that_are_held_goes_first_for_a_while() -> None:
    def lease(namespace: str, created: str) -> dict[str, Any]:
        about = {"namespace": namespace, "name": OPERATOR_LEASE, "creationTimestamp": created}
        notes = {"annotations": {labels.WATCHES: "*", labels.WATCHES_AS: ACCOUNT}}
        return {"metadata": {**about, **notes}, "spec": {"holderIdentity": namespace}}

    both = [lease("a", "2026-01-01T00:00:02Z"), lease("b", "2026-01-01T00:00:01Z")]
    found = {}
    for namespace in ("a", "b"):
        others = OtherLeases(namespace, Claim(watches="*", account=ACCOUNT))
        others.observe(both, 0.0)
        found[namespace] = [
            others.place(at_s, {"a", "b"}, holds_lease=True)[0] for at_s in (0.0, 5.0, 10.0)
        ]
    aside, first = Place.ASIDE, Place.FIRST
    assert found == {"a": [aside, aside, aside], "b": [first, first, aside]}


async def claimed(bench: Any, namespace: str, account: str, watches: str = "*") -> None:
    """A Lease as anybody may write it who may write Leases in that namespace."""
    about = {"namespace": namespace, "name": OPERATOR_LEASE}
    notes = {labels.WATCHES: watches, labels.WATCHES_AS: account}
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 8}
    lease = {"metadata": {**about, "annotations": notes}, "spec": spec}
    await bench.api.create(kinds.LEASES, lease, field_manager="tenant")


@pytest.mark.parametrize("account", [ACCOUNT, ""])
def test_a_lease_of_somebody_without_an_operators_rights_stops_nobody(
    bench: Any, account: str
) -> None:
    async def scenario() -> None:
        await claimed(bench, "tenant", account)
        one = Release(bench, "chiplog-system", "*")
        await bench.clock.advance(5)
        assert one.acts()
        await one.kill()

    bench.run(scenario())


def test_who_rules_one_namespace_stops_no_operator_of_all(bench: Any) -> None:
    async def scenario() -> None:
        await claimed(bench, "ruled", ACCOUNT, "ruled")
        one = Release(bench, "chiplog-system", "*")
        await bench.clock.advance(5)
        assert one.acts()
        await one.kill()

    bench.run(scenario())


def test_a_lease_that_names_many_namespaces_costs_few_questions(bench: Any) -> None:
    async def scenario() -> None:
        names = ",".join(f"team-{number}" for number in range(20_000))
        await claimed(bench, "tenant", ACCOUNT, names)
        judging = Judging(bench)
        one = Release(bench, "chiplog-system", "*", api=judging)
        await bench.clock.advance(5)
        assert one.acts()
        assert judging.asked < 20
        await one.kill()

    bench.run(scenario())


@pytest.mark.parametrize("error", [Forbidden("may not ask"), Unavailable("no route")])
def test_where_rights_cannot_be_asked_for_the_lease_is_believed(
    bench: Any, error: ApiError
) -> None:
    async def scenario() -> None:
        await claimed(bench, "other", ACCOUNT)
        one = Release(bench, "chiplog-system", "*", api=Judging(bench, error=error))
        await bench.clock.advance(5)
        assert not one.acts()
        await one.kill()

    bench.run(scenario())


def test_who_waits_looks_seldom(bench: Any) -> None:
    """The list costs the API server more than the rest of the election."""

    async def scenario() -> None:
        one = Release(bench, "chiplog-system", "*")
        standby = Release(bench, "chiplog-system", "*", "standby")
        await bench.clock.advance(5)
        bench.api.calls.clear()
        await bench.clock.advance(100)
        assert sum(call.verb == "list" for call in bench.api.calls) <= 100 / LIST_AGAIN_S + 1
        await one.kill()
        await standby.kill()

    bench.run(scenario())


def test_an_operator_of_an_older_version_says_nothing_and_is_not_waited_for(bench: Any) -> None:
    async def scenario() -> None:
        old = Leadership(bench.api, bench.clock, "chiplog-system", "old")
        await old.acquire()
        lease = bench.one(kinds.LEASES, OPERATOR_LEASE)
        assert labels.WATCHES not in lease["metadata"].get("annotations", {})
        one = Release(bench, "team-a", "demo")
        await bench.clock.advance(5)
        assert one.acts()
        await one.kill()

    bench.run(scenario())


def test_who_may_not_ask_works_as_before_and_who_gets_no_answer_waits(bench: Any) -> None:
    async def scenario() -> None:
        answer: list[ApiError | None] = [Unavailable("no route")]
        bench.api.fault = lambda call: answer[0] if call.verb == "list" else None
        one = Release(bench, "chiplog-system", "*")
        await bench.clock.advance(20)
        assert not one.acts()
        assert not one.health.ready()[0]
        answer[0] = Forbidden("leases are forbidden")
        await bench.clock.advance(5)
        assert one.acts()
        await one.kill()

    bench.run(scenario())
