"""Users name the brokers that go."""

from random import Random

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.planner.brokers.removal_order import staying_ids
from tests.planner.copying import Copying
from tests.planner.objects import partitions_of, topic

ANNOTATION = "metadata.annotations[chiplog.dev/remove-broker-ids]"


def five(replicas: int = 2) -> Copying:
    kubernetes = Copying(5)
    kubernetes.run()
    kubernetes.apply(topic("orders", partitions=10, replicas=replicas))
    kubernetes.settle()
    return kubernetes


def serving(kubernetes: Copying) -> list[int]:
    return sorted(
        one for one, it in kubernetes.brokers.items() if it.spec.intent is BrokerIntent.SERVE
    )


def there(kubernetes: Copying) -> list[int]:
    return sorted(one for one, it in kubernetes.brokers.items() if not it.spec.retired)


def message(kubernetes: Copying, kind: str = "Ready") -> str:
    found = kubernetes.cluster.status.conditions
    return next((one.message for one in found if one.type == kind), "")


def one_plan(kubernetes: Copying) -> None:
    kubernetes.execute(kubernetes.plan().actions)


@pytest.mark.parametrize(
    ("value", "replicas", "left"),
    [
        ("2,5", 3, [1, 3, 4]),
        (" [2, 5] ", 3, [1, 3, 4]),
        ("2", 3, [1, 3, 4]),
        ("2,1,4", 3, [3, 4, 5]),
        ("2,1,4,2", 4, [1, 3, 4, 5]),
        ("", 3, [1, 2, 3]),
    ],
)
def test_the_named_brokers_go_first_in_their_order(
    value: str, replicas: int, left: list[int]
) -> None:
    kubernetes = five()
    kubernetes.annotate(remove_broker_ids=value)
    kubernetes.settle()
    assert serving(kubernetes) == [1, 2, 3, 4, 5], "the annotation alone removes nothing"
    kubernetes.configure(replicas)
    kubernetes.settle()
    assert there(kubernetes) == left
    assert message(kubernetes, "Warning") == ""
    holders = {one for _, _, it in partitions_of(kubernetes.maps.values()) for one in it.holders}
    assert holders <= set(left)


def test_what_was_removed_may_still_be_named() -> None:
    kubernetes = five()
    kubernetes.annotate(remove_broker_ids="2,5")
    kubernetes.configure(3)
    kubernetes.settle()
    kubernetes.configure(5)
    kubernetes.settle()
    assert there(kubernetes) == [1, 3, 4, 6, 7]
    for one in (6, 7):
        kubernetes.start(one)
    kubernetes.settle()
    kubernetes.configure(4)
    kubernetes.settle()
    assert there(kubernetes) == [1, 3, 4, 6]
    assert message(kubernetes, "Warning") == ""


def test_the_old_number_takes_it_back() -> None:
    kubernetes = five()
    kubernetes.annotate(remove_broker_ids="2,5")
    kubernetes.configure(3)
    one_plan(kubernetes)
    assert serving(kubernetes) == [1, 3, 4]
    kubernetes.configure(5)
    kubernetes.settle()
    assert serving(kubernetes) == there(kubernetes) == [1, 2, 3, 4, 5]


def test_one_number_less_takes_the_first_named_and_the_other_stays() -> None:
    kubernetes = five()
    kubernetes.annotate(remove_broker_ids="2,4")
    kubernetes.configure(3)
    one_plan(kubernetes)
    kubernetes.configure(4)
    kubernetes.settle()
    assert there(kubernetes) == [1, 3, 4, 5]


def test_without_the_annotation_those_on_their_way_go_on_and_another_name_changes_it() -> None:
    """If 3 is named, 5 goes with it: it has the higher id of those on their way."""
    for value, left in ((None, [1, 3, 4]), ("3", [1, 2, 4]), ("3,1", [2, 4, 5])):
        kubernetes = five()
        kubernetes.annotate(remove_broker_ids="2,5")
        kubernetes.configure(3)
        one_plan(kubernetes)
        kubernetes.annotate(remove_broker_ids=value)
        one_plan(kubernetes)
        kubernetes.settle()
        assert there(kubernetes) == left, value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("[2,5", "is '[2,5', which is no list of ids"),
        ("two", "is 'two', which is no list of ids: write ids of brokers, like \"2,5\", or"),
        ("2;5", "is '2;5', which"),
        ("-1", "is '-1', which"),
        ("2,", "is '2,', which"),
        ("9", "names broker 9, which never existed: name some of the brokers 1, 2, 3, 4, 5, or"),
        ("0,2", "names broker 0, which never existed"),
    ],
)
def test_nothing_begins_with_a_value_that_is_not_valid(value: str, why: str) -> None:
    kubernetes = five()
    kubernetes.annotate(remove_broker_ids=value)
    kubernetes.settle()
    assert f"{ANNOTATION} {why}" in message(kubernetes, "Warning")
    assert message(kubernetes) == ""
    kubernetes.configure(3)
    kubernetes.settle()
    assert serving(kubernetes) == there(kubernetes) == [1, 2, 3, 4, 5]
    assert f"{ANNOTATION} {why}" in message(kubernetes)

    kubernetes.annotate(remove_broker_ids="1,2")
    kubernetes.settle()
    assert there(kubernetes) == [3, 4, 5]
    assert message(kubernetes) == ""


def test_those_on_their_way_go_on_with_a_value_that_is_not_valid() -> None:
    kubernetes = five()
    kubernetes.annotate(remove_broker_ids="2")
    kubernetes.configure(4)
    one_plan(kubernetes)
    kubernetes.annotate(remove_broker_ids="many")
    one_plan(kubernetes)
    assert ANNOTATION not in message(kubernetes)
    kubernetes.configure(3)
    kubernetes.settle()
    assert there(kubernetes) == [1, 3, 4, 5], "only what had begun"
    assert ANNOTATION in message(kubernetes)


def test_a_topic_that_needs_the_brokers_keeps_them() -> None:
    kubernetes = five(replicas=4)
    kubernetes.annotate(remove_broker_ids="1")
    kubernetes.configure(3)
    kubernetes.settle()
    assert serving(kubernetes) == [1, 2, 3, 4, 5]
    assert "these topics have more replicas: orders (4)" in message(kubernetes)


def test_a_cluster_that_is_created_with_names_is_told_to_wait() -> None:
    kubernetes = Copying(3)
    kubernetes.annotate(remove_broker_ids="2")
    one_plan(kubernetes)
    assert f"{ANNOTATION} names broker 2, which never existed: wait for the brokers, or" in (
        message(kubernetes, "Warning")
    )
    kubernetes.run()
    assert message(kubernetes, "Warning") == ""


@pytest.mark.parametrize("seed", range(20))
def test_without_names_the_lowest_ids_stay(seed: int) -> None:
    """Of those that are not retired, whether they exist or were lost."""
    rng = Random(seed)  # noqa: S311 - a cluster is to be the same every time
    kubernetes = five()
    kubernetes.configure(rng.randint(2, 4))
    kubernetes.settle()
    brokers = {one: it for one, it in kubernetes.brokers.items() if rng.random() < 0.8}
    retired = {one for one, it in brokers.items() if it.spec.retired}
    free = [BrokerId(one) for one in range(1, 30) if one not in retired]
    for replicas in range(1, 9):
        assert staying_ids(brokers, replicas, ()) == free[:replicas]
