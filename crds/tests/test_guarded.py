"""The cases of topic policies, judged by the program."""

import pytest

from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.topic_policies import TopicPolicies
from crds.tests.guarded import CASES, Case, filled, refusals

HOME, TEAM, CLUSTER = "home", "team-a", "prod"


def by_id(case: Case) -> str:
    return case.id


@pytest.mark.parametrize("case", CASES, ids=by_id)
def test_the_program_says_what_the_case_says(case: Case) -> None:
    cluster = filled(case.cluster(CLUSTER, HOME), CLUSTER, TEAM)
    topic = filled(case.topic(case.spec, CLUSTER, TEAM, HOME), CLUSTER, TEAM)
    before = None
    if case.before is not None:
        before = filled(case.topic(case.before, CLUSTER, TEAM, HOME), CLUSTER, TEAM)

    expected = [filled(case.text, CLUSTER, TEAM)] if case.text else []
    assert refusals(cluster, topic, before) == expected


def test_every_policy_has_a_case_that_breaks_it() -> None:
    broken = {name for case in CASES if case.text for name in case.policies}

    assert broken == {one.name for one in object_shape(TopicPolicies).fields}


def test_object_names_differ() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
