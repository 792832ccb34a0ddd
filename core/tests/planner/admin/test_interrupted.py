"""An operator killed anywhere, and clients of several brokers at once: done once, answered once."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.admin.codes import Code
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import ConfigureTopic, CreateTopic, DeleteTopic, GrowTopic
from chiplog_core.model.topic import Topic

if TYPE_CHECKING:
    from tests.planner.admin.conftest import Kubernetes

NAMES = ("orders", "a.b", "a_b")


def operator(kubernetes: "Kubernetes", steps: int) -> bool:
    """One plan, of which so many steps are done. Whether the operator lived to its end."""
    plan = kubernetes.plan()
    for write in plan.writes:
        if steps == 0:
            kubernetes.results.clear()
            return False
        kubernetes.carry_out(write)
        steps -= 1
    # Each Broker is a write of its own.
    for broker_id, answers in plan.answers.items():
        if steps == 0:
            kubernetes.results.clear()
            return False
        kubernetes.publish({broker_id: answers})
        steps -= 1
    return True


@given(
    kills=st.lists(st.integers(0, 6), max_size=8),
    askers=st.lists(st.integers(1, 3), min_size=1, max_size=4),
)
def test_a_topic_is_made_once_whoever_asks_and_wherever_the_operator_dies(
    new_kubernetes: "type[Kubernetes]", kills: list[int], askers: list[int]
) -> None:
    kubernetes = new_kubernetes()
    asked = [kubernetes.ask(CreateTopic(name="orders"), asker) for asker in askers]
    published: dict[str, object] = {}
    for steps in kills:
        operator(kubernetes, steps)
        now = kubernetes.answers()
        assert {name: now[name] for name in published} == published
        published = dict(now)
    kubernetes.settle()

    assert kubernetes.created == ["orders"]
    answers = kubernetes.answers()
    assert set(answers) == set(asked)
    assert Counter(verdict.code for verdict in answers.values()) == Counter(
        [Code.NONE, *[Code.TOPIC_ALREADY_EXISTS] * (len(asked) - 1)]
    )


def test_two_brokers_asked_for_one_name_at_once(kubernetes: "Kubernetes") -> None:
    kubernetes.ask(CreateTopic(name="orders", partitions=1), 1)
    kubernetes.ask(CreateTopic(name="orders", partitions=2), 2)
    assert len(kubernetes.plan().writes) == 1
    kubernetes.settle()
    assert sorted(verdict.code for verdict in kubernetes.answers().values()) == [
        Code.NONE,
        Code.TOPIC_ALREADY_EXISTS,
    ]


def test_names_that_collide_are_not_both_made(kubernetes: "Kubernetes") -> None:
    kubernetes.ask(CreateTopic(name="a.b"), 1)
    kubernetes.ask(CreateTopic(name="a_b"), 2)
    kubernetes.settle()
    assert kubernetes.created == ["a.b"]


def set_retention(value: str) -> ConfigureTopic:
    return ConfigureTopic(name="orders", changes=(ConfigChange(Change.SET, "retention.ms", value),))


def test_a_second_change_does_not_hide_a_first_that_nobody_was_told_of(
    kubernetes: "Kubernetes",
) -> None:
    first = kubernetes.ask(CreateTopic(name="orders"), wait_s=1)
    operator(kubernetes, 1)
    second = kubernetes.ask(GrowTopic(name="orders", partitions=9))
    operator(kubernetes, 1)
    kubernetes.settle()
    answers = kubernetes.answers()
    assert (answers[first].code, answers[second].code) == (Code.NONE, Code.NONE)


def test_a_change_that_changes_nothing_keeps_its_place(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", config={"retention.ms": 1})
    kubernetes.ask(set_retention("1"), wait_s=1)
    kubernetes.ask(set_retention("2"))
    operator(kubernetes, 1)
    kubernetes.settle()
    (manifest,) = kubernetes.topics.values()
    assert manifest["spec"]["config"] == {"retention.ms": "2"}


def test_brokers_may_call_their_requests_alike(kubernetes: "Kubernetes") -> None:
    kubernetes.ask(CreateTopic(name="orders"), 1)
    kubernetes.settle()
    kubernetes.ask(CreateTopic(name="other"), 2)
    (request,) = kubernetes.requests(2)
    kubernetes.set_requests(2, (replace(request, id=kubernetes.requests(1)[0].id),))
    kubernetes.settle()
    assert kubernetes.created == ["orders", "other"]


OPERATIONS = st.one_of(
    st.builds(CreateTopic, name=st.sampled_from(NAMES)),
    st.builds(DeleteTopic, name=st.sampled_from(NAMES)),
    st.builds(GrowTopic, name=st.sampled_from(NAMES), partitions=st.integers(3, 9)),
    st.builds(
        ConfigureTopic,
        name=st.sampled_from(NAMES),
        changes=st.builds(
            ConfigChange, st.just(Change.SET), st.just("retention.ms"), st.sampled_from("12")
        ).map(lambda change: (change,)),
    ),
)


def finish(kubernetes: "Kubernetes") -> None:
    """What the planner does about Topics, and brokers about answers they have seen."""
    for identity, manifest in list(kubernetes.topics.items()):
        topic = Topic.from_manifest(manifest)
        if topic.metadata.deletion_timestamp is not None:
            del kubernetes.topics[identity]
            kubernetes.maps.pop(topic.topic_name, None)
        elif topic.topic_name not in kubernetes.maps:
            kubernetes.adopt(topic)
    for broker_id, one in list(kubernetes.brokers.items()):
        seen = {answer.id for answer in one.spec.answers}
        left = tuple(request for request in one.status.requests if request.id not in seen)
        kubernetes.set_requests(broker_id, left)


@settings(deadline=None)
@given(
    events=st.lists(
        st.one_of(
            st.tuples(st.integers(1, 3), OPERATIONS),
            st.integers(0, 8),
            st.none(),
        ),
        max_size=30,
    )
)
def test_as_many_topics_are_made_and_deleted_as_clients_are_told(
    new_kubernetes: "type[Kubernetes]",
    events: "list[tuple[int, CreateTopic | DeleteTopic] | int | None]",
) -> None:
    """The book of what clients were told and that of the API server agree."""
    kubernetes = new_kubernetes()
    asked: dict[str, object] = {}
    told: dict[str, Code] = {}
    for event in (*events, *[9, None] * 12):
        match event:
            case int():
                operator(kubernetes, event)
            case None:
                finish(kubernetes)
            case (broker_id, operation):
                if isinstance(operation, DeleteTopic):
                    # A broker passes on what it knows.
                    known = kubernetes.maps.get(operation.name)
                    if known is None:
                        continue
                    operation = replace(operation, topic_id=known.spec.current)
                asked[kubernetes.ask(operation, broker_id)] = operation
        for request_id, verdict in kubernetes.answers().items():
            assert told.setdefault(request_id, verdict.code) is verdict.code

    for _round in range(20 + 2 * len(asked)):
        operator(kubernetes, 99)
        told.update({name: one.code for name, one in kubernetes.answers().items()})
        finish(kubernetes)
    assert told.keys() == asked.keys()
    made = sum(
        isinstance(asked[name], CreateTopic) and code is Code.NONE for name, code in told.items()
    )
    assert made == len(kubernetes.created)
    assert len({Topic.from_manifest(one).topic_name for one in kubernetes.topics.values()}) == len(
        kubernetes.topics
    )
