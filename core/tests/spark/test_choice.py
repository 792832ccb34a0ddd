"""Which launcher is taken, and what it may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.spark import SparkLauncher
from chiplog_core.problems import Problem, Reason
from chiplog_core.spark import access
from chiplog_core.spark.application import Application
from chiplog_core.spark.choice import LAUNCHER_FIELD, choose, launch

KUBEFLOW = "sparkoperator.k8s.io/v1beta2"
APACHE = "spark.apache.org/v1"


@pytest.mark.parametrize(
    ("wanted", "offered", "chosen"),
    [
        (SparkLauncher.AUTO, {KUBEFLOW, APACHE}, SparkLauncher.KUBEFLOW),
        (SparkLauncher.AUTO, {APACHE}, SparkLauncher.APACHE),
        (SparkLauncher.AUTO, set(), SparkLauncher.JOB),
        (SparkLauncher.AUTO, {"spark.apache.org/v1alpha1"}, SparkLauncher.JOB),
        (SparkLauncher.KUBEFLOW, {KUBEFLOW, APACHE}, SparkLauncher.KUBEFLOW),
        (SparkLauncher.APACHE, {KUBEFLOW, APACHE}, SparkLauncher.APACHE),
        (SparkLauncher.JOB, {KUBEFLOW, APACHE}, SparkLauncher.JOB),
    ],
)
def test_the_launcher_that_is_taken(
    wanted: SparkLauncher, offered: set[str], chosen: SparkLauncher
) -> None:
    assert choose(wanted, offered) is chosen


@pytest.mark.parametrize(
    ("wanted", "offered", "said"),
    [
        (SparkLauncher.KUBEFLOW, {APACHE}, f"no SparkApplication of {KUBEFLOW}"),
        (SparkLauncher.KUBEFLOW, {"sparkoperator.k8s.io/v1beta1"}, "only sparkoperator.k8s.io/v1b"),
        (SparkLauncher.APACHE, {"spark.apache.org/v1alpha1"}, "only spark.apache.org/v1alpha1"),
    ],
)
def test_a_launcher_that_is_not_there_is_told_of(
    wanted: SparkLauncher, offered: set[str], said: str
) -> None:
    problem = choose(wanted, offered)
    assert isinstance(problem, Problem)
    assert problem.field == LAUNCHER_FIELD
    assert problem.reason is Reason.NOT_SUPPORTED
    assert said in problem.message
    assert "Auto or Job" in problem.remedy


@given(st.sampled_from(SparkLauncher), st.sets(st.text(max_size=30)))
def test_auto_is_never_the_answer(wanted: SparkLauncher, offered: set[str]) -> None:
    assert choose(wanted, offered) is not SparkLauncher.AUTO


def test_auto_launches_nothing(plain: Application) -> None:
    with pytest.raises(ValueError, match="Auto"):
        launch(SparkLauncher.AUTO, plain)


def test_the_driver_writes_its_own_result_and_no_other_config_map(plain: Application) -> None:
    (role,) = [one for one in access.objects(plain) if one["kind"] == "Role"]
    (rule,) = [one for one in role["rules"] if one["resources"] == ["configmaps"]]
    assert rule["resourceNames"] == [plain.result_config_map]
    assert rule["verbs"] == ["patch"]
    assert {one for rule in role["rules"] for one in rule["resources"]} == {"configmaps", "pods"}


def test_nobody_has_a_right_to_everything_or_to_more_than_the_operator(
    plain: Application, rich: Application
) -> None:
    operator = {
        (resource, verb)
        for rule in access.OPERATOR_RULES
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for application in (plain, rich):
        (role,) = [one for one in access.objects(application) if one["kind"] == "Role"]
        rights = {
            (resource, verb)
            for rule in role["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert rights <= operator
        assert ("pods", "patch") not in rights, "it would reach pods of others"
        assert "*" not in str(role["rules"])


def test_an_account_that_a_user_named_is_not_made(plain: Application, rich: Application) -> None:
    def accounts(application: Application) -> list[str]:
        made = access.objects(application)
        return [one["metadata"]["name"] for one in made if one["kind"] == "ServiceAccount"]

    assert accounts(plain) == [plain.own_service_account, plain.executor_service_account]
    assert accounts(rich) == [rich.executor_service_account]
    (binding,) = [one for one in access.objects(rich) if one["kind"] == "RoleBinding"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "readers", "namespace": "data"}
    ]
