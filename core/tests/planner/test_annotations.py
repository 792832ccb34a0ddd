"""Annotations that mean nothing keep the safe side, and are reported."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model import annotations
from chiplog_core.model.annotations import (
    MANAGED,
    MANUAL_ROLLING_UPDATE,
    MAX_UNKNOWN,
    PAUSE,
    shown,
    unknown_keys,
)
from chiplog_core.model.conditions import Condition
from chiplog_core.model.metadata import Metadata
from chiplog_core.naming import labels
from chiplog_core.observed.world import StatefulSetState
from chiplog_core.problems import nearest
from tests.planner.model import Kubernetes
from tests.planner.objects import topic


def running() -> Kubernetes:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=3))
    kubernetes.run()
    return kubernetes


def annotate_cluster(kubernetes: Kubernetes, **annotations: str) -> None:
    given = {f"chiplog.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    meta = replace(kubernetes.cluster.metadata, annotations=given)
    kubernetes.cluster = kubernetes.stored(replace(kubernetes.cluster, metadata=meta))


def condition(of: Any, type_: str) -> Condition | None:
    return next((one for one in of.status.conditions if one.type == type_), None)


def message(of: Any, type_: str) -> str:
    found = condition(of, type_)
    return "" if found is None else found.message


@pytest.mark.parametrize(
    ("value", "is_paused", "is_managed", "is_restarted"),
    [
        (None, False, True, False),
        ("true", True, True, True),
        ("false", False, False, False),
        *((odd, True, False, False) for odd in ("yes", "True", "1", "", " true")),
    ],
)
def test_what_a_switch_is_taken_for(
    value: str | None, is_paused: bool, is_managed: bool, is_restarted: bool
) -> None:
    def given(key: str) -> dict[str, str]:
        return {} if value is None else {key: value}

    assert PAUSE.is_set(given(labels.PAUSE)) is is_paused
    assert MANAGED.is_set(given(labels.MANAGED)) is not is_managed
    wish = given(labels.MANUAL_ROLLING_UPDATE)
    assert MANUAL_ROLLING_UPDATE.is_set(wish) is is_restarted
    assert (PAUSE.problem(given(labels.PAUSE)) is None) is (value in {None, "true", "false"})


def test_a_cluster_that_is_paused_by_another_word_stays_paused_and_says_so() -> None:
    kubernetes = running()
    annotate_cluster(kubernetes, pause_reconciliation="yes")
    kubernetes.settle()

    assert not kubernetes.plan().may_apply
    assert message(kubernetes.cluster, "ReconciliationPaused") == (
        "metadata.annotations[chiplog.dev/pause-reconciliation] is 'yes', so the object is "
        "treated as paused: set it to true or false, or remove it"
    )

    annotate_cluster(kubernetes, pause_reconciliation="false")
    kubernetes.settle()
    assert kubernetes.plan().may_apply
    assert condition(kubernetes.cluster, "ReconciliationPaused") is None


def test_a_topic_whose_annotation_says_neither_is_left_alone_and_its_records_kept() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=9, annotations={labels.MANAGED: "no"}))
    kubernetes.settle()

    found = kubernetes.topics["orders"]
    assert found.status.partitions == 3
    assert message(found, "Unmanaged") == (
        "metadata.annotations[chiplog.dev/managed] is 'no', so the operator does not manage the "
        "topic: set it to "
        "false or true, or remove it"
    )
    kubernetes.delete("orders")
    kubernetes.settle()
    assert not kubernetes.buried


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "pause-reconcilation",
            "true",
            (
                "metadata.annotations[chiplog.dev/pause-reconcilation] is unknown: write "
                "chiplog.dev/pause-reconciliation, or remove it"
            ),
        ),
        (
            "unclean-election",
            "3@17,4",
            (
                "metadata.annotations[chiplog.dev/unclean-election] has '4', which is not a valid "
                "value: copy the value that the Ready condition shows, like 3@17 or 3@17/2+5"
            ),
        ),
    ],
)
def test_what_nobody_reads_is_reported(key: str, value: str, told: str) -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=3, annotations={f"chiplog.dev/{key}": value}))
    kubernetes.settle()

    assert message(kubernetes.topics["orders"], "Warning") == told
    assert condition(kubernetes.topics["orders"], "Ready").status == "True"  # type: ignore[union-attr]


def test_of_a_thousand_that_nobody_reads_a_few_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at in every plan, of every Topic."""
    asked = []

    def counted(*given: Any) -> str | None:
        asked.append(given)
        return nearest(*given)

    monkeypatch.setattr(annotations, "nearest", counted)
    keys = {f"chiplog.dev/pause-reconciliatio{number}": "x" for number in range(1_000)}
    found = list(unknown_keys(Metadata(name="a", annotations=keys)))

    assert len(found) == len(asked) == MAX_UNKNOWN


def test_what_is_read_is_no_problem() -> None:
    known = {labels.PAUSE: "x", labels.UNCLEAN_ELECTION: "x", labels.ADMIN_REQUEST: "x"}
    others = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "chiplog.dev.other/a": "b"}

    assert not list(unknown_keys(Metadata(name="a", annotations={**known, **others})))


def test_a_restart_that_is_asked_for_in_the_wrong_place_or_word() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=3, annotations={labels.MANUAL_ROLLING_UPDATE: "true"}))
    odd = StatefulSetState(
        name="demo-broker-1", annotations={labels.MANUAL_ROLLING_UPDATE: "please"}
    )
    kubernetes.stateful_sets = {BrokerId(1): odd}
    kubernetes.settle()

    assert message(kubernetes.topics["orders"], "Warning") == (
        "metadata.annotations[chiplog.dev/manual-rolling-update] has no effect on this object: "
        "annotate the BrokerCluster"
    )
    assert message(kubernetes.cluster, "Warning") == (
        "StatefulSet demo-broker-1 metadata.annotations[chiplog.dev/manual-rolling-update] is "
        "'please', so no broker is restarted: set it to true or false, or remove it"
    )


def test_a_long_value_is_cut() -> None:
    assert len(shown("x" * 10_000)) < 70


def test_a_new_volume_is_requested_on_a_pod() -> None:
    annotations = {labels.DELETE_POD_AND_PVC: "true"}
    (problem,) = unknown_keys(Metadata(name="demo", annotations=annotations))
    assert str(problem) == (
        "metadata.annotations[chiplog.dev/delete-pod-and-pvc] deletes nothing on this object: "
        "annotate the pod of a broker"
    )
