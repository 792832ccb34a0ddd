"""What is said of features that are not built."""

import pytest

from chiplog_core.naming import api
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate import unbuilt
from chiplog_core.validate.unbuilt import UNBUILT, Feature, Field, is_built, notices, unless_built


def test_who_asks_for_a_feature_that_is_not_built_reads_what_to_do() -> None:
    assert not is_built(Feature.TRASH)
    assert unless_built(Feature.TRASH, "spec.trashTTL") == (
        Problem(
            "spec.trashTTL",
            "asks for the trash for deleted topics, which is not built yet",
            UNBUILT[Feature.TRASH],
            Reason.NOT_SUPPORTED,
        ),
    )


def test_a_feature_that_is_built_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unbuilt, "UNBUILT", {})

    assert is_built(Feature.TRASH)
    assert unless_built(Feature.TRASH, "spec.trashTTL") == ()
    assert list(notices(api.TOPIC)) == []


def test_each_field_of_a_kind_has_a_sentence_for_its_description(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {
        Feature.TRASH: (
            Field(api.TOPIC, "spec.deletionPolicy", "Trash"),
            Field(api.TOPIC, "spec.trashTTL"),
        ),
        Feature.HIBERNATION: (Field(api.BROKER_CLUSTER, "spec.hibernate", "true"),),
    }
    monkeypatch.setattr(unbuilt, "FIELDS", fields)
    monkeypatch.setattr(
        unbuilt,
        "UNBUILT",
        {Feature.TRASH: "set it to Delete", Feature.HIBERNATION: "set it to false"},
    )

    assert list(notices(api.TOPIC)) == [
        ("spec.deletionPolicy", "Trash is not built yet: set it to Delete."),
        ("spec.trashTTL", "Not built yet: set it to Delete."),
    ]
    assert list(notices(api.BROKER_CLUSTER)) == [
        ("spec.hibernate", "true is not built yet: set it to false.")
    ]
    assert list(notices(api.CONSUMER_GROUP)) == []
