"""The example of one values file per environment: what Helm makes of it, the operator takes."""

import pytest
import yaml

from charts.tests.files import CLUSTER, OPERATOR, Manifest, by_kind, manifests, render
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.topic import Topic
from chiplog_core.model.verification import Verification
from chiplog_core.problems import Problem
from chiplog_core.validate.broker_cluster import check_cluster
from chiplog_core.validate.consumer_group import check_group
from chiplog_core.validate.topic import check_topic
from chiplog_core.validate.verification import check_verification
from e2e.cluster import build
from e2e.cluster.shell import run

EXAMPLES = CLUSTER / "examples" / "environments"
ENVIRONMENTS = ("dev", "staging", "production")
COMMON = EXAMPLES / "common.yaml"


def problems_of(manifest: Manifest) -> tuple[Problem, ...]:
    """What the operator would say against it; an unreadable one raises."""
    match manifest["kind"]:
        case "BrokerCluster":
            return check_cluster(BrokerCluster.from_manifest(manifest))
        case "Topic":
            return check_topic(Topic.from_manifest(manifest))
        case "ConsumerGroup":
            return check_group(ConsumerGroup.from_manifest(manifest))
        case "Verification":
            return check_verification(Verification.from_manifest(manifest))
    raise AssertionError(f"the chart makes a {manifest['kind']}")


def rendered(environment: str) -> str:
    return render(
        *(build.program("helm"), CLUSTER, "-f", str(COMMON)),
        *("-f", str(EXAMPLES / f"{environment}.yaml"), "--namespace", environment),
        release=environment,
    )


def test_there_is_a_file_for_each_environment() -> None:
    assert {path.stem for path in EXAMPLES.iterdir()} == {*ENVIRONMENTS, "common"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_says_nothing_that_is_in_common(environment: str) -> None:
    """Helm merges maps and replaces lists: a list in both would be one of them."""
    own = yaml.safe_load((EXAMPLES / f"{environment}.yaml").read_text())
    assert not set(own) & set(yaml.safe_load(COMMON.read_text()))
    assert own["topicPrefix"] == own["groupPrefix"] == f"{environment}."


def test_production_names_the_image_of_its_brokers() -> None:
    """The one that the operator's chart would choose, so that the example can be installed."""
    own = yaml.safe_load((EXAMPLES / "production.yaml").read_text())
    version = yaml.safe_load((OPERATOR / "Chart.yaml").read_text())["appVersion"]
    repository = yaml.safe_load((OPERATOR / "values.yaml").read_text())["brokerImage"]["repository"]
    assert own["cluster"]["spec"]["image"] == f"{repository}:{version}"


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_lint_finds_nothing(environment: str) -> None:
    values = ("-f", str(COMMON), "-f", str(EXAMPLES / f"{environment}.yaml"))
    told = run(str(build.program("helm")), "lint", "--strict", str(CLUSTER), *values)
    assert "0 chart(s) failed" in told


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_operator_takes_what_is_made_of_it(environment: str) -> None:
    found = manifests(rendered(environment))
    kinds = {manifest["kind"] for manifest in found}
    assert kinds >= {"BrokerCluster", "Topic", "ConsumerGroup"}
    for manifest in found:
        assert problems_of(manifest) == (), manifest["metadata"]["name"]


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_name_that_clients_see_tells_the_environment(environment: str) -> None:
    found = manifests(rendered(environment))
    topics = {Topic.from_manifest(one).topic_name for one in by_kind(found, "Topic")}
    groups = {ConsumerGroup.from_manifest(one).group_id for one in by_kind(found, "ConsumerGroup")}
    assert topics == {f"{environment}.orders", f"{environment}.order_placed"}
    assert groups == {f"{environment}.invoice-writer", f"{environment}.Fraud_Check"}
    for one in by_kind(found, "Verification"):
        assert set(one["spec"]["topics"]) <= topics


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_same_files_make_the_same_bytes(environment: str) -> None:
    """Else whatever compares them with the cluster sees a change where there is none."""
    assert len({rendered(environment) for _ in range(3)}) == 1
