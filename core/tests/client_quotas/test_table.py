"""Which quota applies to a client, and which entities a filter matches."""

import math

import pytest

from chiplog_core.client_quotas.entities import (
    DEFAULT,
    Entity,
    Quota,
    why_not_a_value,
    why_not_an_entity,
)
from chiplog_core.client_quotas.listed import listed_quotas
from chiplog_core.client_quotas.table import EntityFilter, Found, QuotaChange, QuotaTable
from chiplog_core.model.access_list import AccessListSpec, ListedUser, Quotas

RATE = Quota.PRODUCER_BYTE_RATE
MOST_SPECIFIC_FIRST = [
    Entity("alice", "app"),
    Entity("alice", DEFAULT),
    Entity("alice"),
    Entity(DEFAULT, "app"),
    Entity(DEFAULT, DEFAULT),
    Entity(DEFAULT),
    Entity(None, "app"),
    Entity(None, DEFAULT),
]
"""The order that Kafka documents for `ClientQuotaManager`."""
SHARED_BY = [
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("alice", "app"),
    ("alice", "app"),
    ("alice", ""),
    ("", "app"),
    ("", "app"),
]


@pytest.mark.parametrize("place", range(len(MOST_SPECIFIC_FIRST)))
def test_the_most_specific_entity_applies(place: int) -> None:
    entities = MOST_SPECIFIC_FIRST[place:]
    table = QuotaTable({one: {RATE: float(number)} for number, one in enumerate(entities)})
    assert table.find(RATE, "alice", "app") == Found(0.0, *SHARED_BY[place], entities[0])


def test_each_quota_is_looked_for_on_its_own() -> None:
    table = QuotaTable(
        {Entity("alice"): {RATE: 1.0}, Entity(DEFAULT): {RATE: 2.0, Quota.REQUEST_PERCENTAGE: 3.0}}
    )
    assert table.find(RATE, "alice", "") == Found(1.0, "alice", "", Entity("alice"))
    assert table.find(Quota.REQUEST_PERCENTAGE, "alice", "") == Found(
        3.0, "alice", "", Entity(DEFAULT)
    )
    assert table.find(Quota.CONSUMER_BYTE_RATE, "alice", "") is None
    assert QuotaTable({Entity("alice"): {RATE: 1.0}}).find(RATE, "bob", "alice") is None


def test_a_default_of_client_ids_is_no_quota_of_users() -> None:
    table = QuotaTable({Entity(None, DEFAULT): {RATE: 1.0}})
    assert table.find(RATE, "alice", "") == Found(1.0, "", "", Entity(None, DEFAULT))
    assert table.find(RATE, "bob", "app") == Found(1.0, "", "app", Entity(None, DEFAULT))


def test_changes_set_and_remove_values_and_leave_the_others() -> None:
    before = QuotaTable({Entity("alice"): {RATE: 1.0}, Entity("bob"): {RATE: 2.0}})
    after = before.changed(
        [
            QuotaChange(Entity("alice"), {RATE: None, Quota.CONSUMER_BYTE_RATE: None}),
            QuotaChange(Entity("carol"), {RATE: 3.0}),
        ]
    )
    assert after.entities == {Entity("bob"): {RATE: 2.0}, Entity("carol"): {RATE: 3.0}}
    assert Entity("alice") in before.entities
    assert after != before


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        (EntityFilter({}), range(8)),
        (EntityFilter({}, is_strict=True), []),
        (EntityFilter({"user": "alice"}), [0, 1, 2]),
        (EntityFilter({"user": "alice"}, is_strict=True), [2]),
        (EntityFilter({"user": DEFAULT}), [3, 4, 5]),
        (EntityFilter({}, frozenset({"user"}), is_strict=True), [2, 5]),
        (EntityFilter({}, frozenset({"client-id"})), [0, 1, 3, 4, 6, 7]),
        (EntityFilter({"client-id": "app"}, frozenset({"user"})), [0, 3]),
        (EntityFilter({"ip": "::1"}), []),
        (EntityFilter({"user": "bob"}), []),
    ],
)
def test_a_filter_matches_as_in_kafka(wanted: EntityFilter, places: list[int]) -> None:
    found = [number for number, one in enumerate(MOST_SPECIFIC_FIRST) if wanted.matches(one)]
    assert found == list(places)


@pytest.mark.parametrize(
    ("quota", "value", "is_valid"),
    [
        (RATE, 0.0, False),
        (RATE, 1024.0, True),
        (RATE, 1.5, False),
        (RATE, -1.0, False),
        (RATE, math.nan, False),
        (RATE, math.inf, False),
        (Quota.REQUEST_PERCENTAGE, 0.5, True),
        (Quota.CONTROLLER_MUTATION_RATE, 1e30, False),
    ],
)
def test_values(quota: Quota, value: float, is_valid: bool) -> None:
    assert (not why_not_a_value(quota, value)) is is_valid


def test_entities() -> None:
    assert why_not_an_entity(Entity())
    assert why_not_an_entity(Entity("x" * 1025))
    assert not why_not_an_entity(Entity(DEFAULT, "app"))


def test_the_quotas_of_an_access_list_are_those_of_its_users() -> None:
    spec = AccessListSpec(
        users=(
            ListedUser(name="a", principal="User:CN=a", quotas=Quotas(producer_byte_rate=5)),
            ListedUser(name="b", principal="User:b", quotas=Quotas(controller_mutation_rate=0.5)),
            ListedUser(name="c", principal="User:c"),
        )
    )
    assert listed_quotas(spec).entities == {
        Entity("CN=a"): {RATE: 5.0},
        Entity("b"): {Quota.CONTROLLER_MUTATION_RATE: 0.5},
    }
