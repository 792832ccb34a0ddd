"""Reading and writing manifests, for a small kind with one field of every shape."""

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Annotated, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.config.topic_keys import TOPIC_KEYS
from chiplog_core.ids import BrokerId, ReplicaRef, Session, TopicId
from chiplog_core.manifest.constraints import Entries, Items, Length, Pattern, Range
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import (
    ChoiceShape,
    TextShape,
    ValueShape,
    first_paragraph,
    manifest_name,
    object_shape,
    shape_of,
)
from chiplog_core.manifest.writing import write
from chiplog_core.problems import InvalidManifest
from chiplog_core.quantities import Quantity


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part.

    With a second paragraph.
    """

    name: Annotated[str, Length(5, minimum=1)]
    weight: Annotated[int, Range(0, 100)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A thing."""

    count: Annotated[int, "How many.", Range(1, 10)]
    flag: bool = False
    colour: Colour = Colour.RED
    code: Annotated[str | None, Length(5), Pattern("[a-z]+", "lower-case letters")] = None
    size: Quantity = Quantity("1")  # noqa: RUF009 - a NewType is the text itself
    since: datetime | None = None
    topic_id: TopicId | None = None
    leader: ReplicaRef | None = None
    brokers: Annotated[tuple[BrokerId, ...], Items(3, minimum=1, unique=True)] | None = None
    parts: Annotated[tuple[Part, ...], Items(3, key=("name",))] = ()
    numbers: Annotated[tuple[BrokerId, ...], Items(2)] = ()
    labels: Annotated[Mapping[str, Annotated[str, Length(3)]], Entries(2)] = field(
        default_factory=dict
    )
    config: Annotated[Mapping[str, Any], TOPIC_KEYS] = field(default_factory=dict)
    owner_uid: Annotated[str, Length(10)] = ""
    class_: Annotated[str, Length(10)] = ""


THING = object_shape(Thing)


def thing(**fields: object) -> Thing:
    found = read(THING, {"count": 1, **fields}, "spec", Unknown.REFUSE)
    assert isinstance(found, Thing)
    return found


def problems(**fields: object) -> list[str]:
    with pytest.raises(InvalidManifest) as caught:
        thing(**fields)
    return [str(problem) for problem in caught.value.problems]


def test_a_full_manifest() -> None:
    found = thing(
        flag=True,
        colour="Blue",
        code="abc",
        size="10Gi",
        since="2026-01-31T13:00:00+01:00",
        topicId="AAECAwQFBgcICQoLDA0ODw",
        leader="1@2",
        brokers=[1, 2],
        parts=[{"name": "a"}, {"name": "b", "weight": 3}],
        labels={"a": "b"},
        config={"retention.ms": 5},
        ownerUID="u-1",
        **{"class": "fast"},
    )

    assert found == Thing(
        count=1,
        flag=True,
        colour=Colour.BLUE,
        code="abc",
        size=Quantity("10Gi"),
        since=datetime(2026, 1, 31, 12, tzinfo=UTC),
        topic_id=TopicId(bytes(range(16))),
        leader=ReplicaRef(BrokerId(1), Session(2)),
        brokers=(BrokerId(1), BrokerId(2)),
        parts=(Part(name="a"), Part(name="b", weight=3)),
        labels={"a": "b"},
        config={"retention.ms": 5},
        owner_uid="u-1",
        class_="fast",
    )


def test_what_has_its_default_is_not_written() -> None:
    assert write(thing()) == {"count": 1}
    assert write(thing(parts=[{"name": "a", "weight": 1}])) == {
        "count": 1,
        "parts": [{"name": "a"}],
    }


def test_a_moment_is_written_in_utc() -> None:
    moment = datetime(2026, 1, 31, 14, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=2)))

    assert write(Thing(count=1, since=moment))["since"] == "2026-01-31T12:00:00.250000Z"


def test_choices_are_written_as_plain_texts() -> None:
    assert type(write(Thing(count=1, colour=Colour.BLUE))["colour"]) is str


def test_null_is_how_json_says_absent() -> None:
    assert thing(code=None, parts=None) == thing()


def test_a_quantity_may_be_a_number() -> None:
    assert thing(size=5).size == "5"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"count": 0}, "spec.count is 0: set it to a number from 1 to 10"),
        ({"count": "1"}, "spec.count is the string '1': write a whole number"),
        ({"count": True}, "spec.count is true: write a whole number"),
        ({"count": 1.5}, "spec.count is the number 1.5: write a whole number"),
        ({"flag": 1}, "spec.flag is the number 1: write true or false"),
        ({"colour": "Green"}, "spec.colour is 'Green': set it to one of Red, Blue"),
        ({"colour": 3}, "spec.colour is 3: set it to one of Red, Blue"),
        ({"code": "abcdef"}, "spec.code has 6 characters: write 0 to 5 characters"),
        ({"code": "A"}, "spec.code is 'A': write lower-case letters"),
        ({"code": "a\n"}, "spec.code is 'a\\n': write lower-case letters"),
        ({"code": []}, "spec.code is a list: write a string"),
        ({"size": "big"}, "spec.size is 'big': write a Kubernetes quantity, like 100Gi or 500m"),
        ({"size": True}, "spec.size is true: write a Kubernetes quantity, like 100Gi or 500m"),
        ({"since": 5}, "spec.since is the number 5: write a time with its time zone"),
        ({"since": "today"}, "spec.since is 'today': write a time with its time zone"),
        ({"since": "2026-01-31T12:00:00"}, "write a time with its time zone"),
        ({"topicId": 5}, "spec.topicId is the number 5: write a Kafka UUID"),
        ({"topicId": "x"}, "spec.topicId is not valid ('x' is not a Kafka UUID"),
        ({"topicId": "AAAAAAAAAAAAAAAAAAAAAA"}, "is reserved by Kafka"),
        ({"leader": "1"}, "spec.leader is not valid ('1' is not a broker id"),
        ({"brokers": {}}, "spec.brokers is an object: write a list"),
        ({"brokers": []}, "spec.brokers has 0 entries: list 1 to 3"),
        ({"brokers": [1, 2, 3, 4]}, "spec.brokers has 4 entries: list 1 to 3"),
        ({"brokers": [1, 1]}, "spec.brokers has an item twice: remove one of them"),
        ({"brokers": [1, 0]}, "spec.brokers[1] is 0: set it to a number from 1 to 32767"),
        ({"parts": [{}]}, "spec.parts[0].name is missing: add it"),
        ({"parts": [None]}, "spec.parts[0] is empty: write an object"),
        (
            {"parts": [{"name": "a"}, {"name": "a", "weight": 2}]},
            "spec.parts has two items with the same name: remove one of them",
        ),
        ({"labels": 5}, "spec.labels is the number 5: write an object"),
        ({"labels": {"a": "long"}}, "spec.labels[a] has 4 characters: write 0 to 3 characters"),
        ({"labels": {"a": "", "b": "", "c": ""}}, "spec.labels has 3 entries: list 0 to 2"),
        ({"config": "x"}, "spec.config is the string 'x': write an object"),
        ({"config": dict.fromkeys(map(str, range(101)), 1)}, "spec.config has 101 entries"),
        ({"colr": 1}, "spec.colr is not a field of this kind: did you mean colour?"),
        ({"zzz": 1}, "spec.zzz is not a field of this kind: remove it"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(fields: dict[str, Any], problem: str) -> None:
    (found,) = problems(**fields)

    assert problem in found


def test_every_problem_is_found_in_one_pass() -> None:
    assert len(problems(count=0, flag="x", colour="x", parts=[{}, {"name": "toolong"}])) == 5


def test_what_is_no_object_at_all() -> None:
    with pytest.raises(InvalidManifest, match="spec is a list: write an object"):
        read(THING, [], "spec", Unknown.REFUSE)


def test_unknown_fields_can_be_ignored() -> None:
    manifest = {"count": 1, "colr": 1, "parts": [{"name": "a", "new": 1}]}

    assert read(THING, manifest, "spec", Unknown.IGNORE).parts == (Part(name="a"),)


def test_items_may_repeat_where_nothing_forbids_it() -> None:
    assert thing(numbers=[1, 1]).numbers == (1, 1)


@given(data=st.data())
def test_what_was_written_reads_as_it_was(
    data: st.DataObject, values_of: Callable[[type[Any]], st.SearchStrategy[Any]]
) -> None:
    value = data.draw(values_of(Thing))

    assert read(THING, write(value), "spec", Unknown.REFUSE) == value


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([f.name for f in THING.fields]), inner, max_size=4),
    ),
    max_leaves=8,
)


@given(json_values)
def test_anything_is_either_read_or_refused(value: object) -> None:
    with contextlib.suppress(InvalidManifest):
        assert isinstance(read(THING, value, "spec", Unknown.IGNORE), Thing)


def test_a_declaration_without_a_bound_is_an_error() -> None:
    with pytest.raises(TypeError, match="needs a Length"):
        shape_of(str)
    with pytest.raises(TypeError, match="needs a Range"):
        shape_of(Annotated[int, "A number."])
    with pytest.raises(TypeError, match="needs a Items"):
        shape_of(tuple[bool, ...])
    with pytest.raises(TypeError, match="needs a Entries"):
        shape_of(Mapping[str, bool])


def test_a_value_type_brings_its_pattern() -> None:
    shape = shape_of(ReplicaRef)

    assert isinstance(shape, ValueShape)
    assert re.fullmatch(shape.pattern.regex, "3@17")
    assert shape.pattern.meaning == ReplicaRef.MEANING


def test_a_type_without_a_form_in_a_manifest_is_an_error() -> None:
    with pytest.raises(TypeError, match="has no form in a manifest"):
        shape_of(bytes)
    with pytest.raises(TypeError, match="no reader"):
        read(cast("Any", object()), {}, "spec", Unknown.IGNORE)


def test_constraints_of_an_alias_hold_where_it_is_used() -> None:
    code = Annotated[str, Length(5)]

    assert shape_of(Annotated[code | None, "A code."]) == TextShape(0, 5)
    assert shape_of(Colour) == ChoiceShape(Colour)


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("count", "count"),
        ("topic_id", "topicId"),
        ("owner_uid", "ownerUID"),
        ("trash_ttl", "trashTTL"),
        ("storage_uuids", "storageUUIDs"),
        ("class_", "class"),
    ],
)
def test_names_in_manifests(attribute: str, name: str) -> None:
    assert manifest_name(attribute) == name


def test_descriptions_come_from_declarations() -> None:
    assert THING.fields[0].description == "How many."
    assert THING.description == "A thing."
    assert first_paragraph(Part.__doc__ or "") == "A part."
