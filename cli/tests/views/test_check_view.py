"""What `check` makes of what brokers said."""

from dataclasses import replace

from chiplog_cli import check_view
from chiplog_cli.errors import CannotDo
from chiplog_core.telemetry.findings import Finding
from tests.views.facts import CLUSTER, ONE, ORDERS, SMALL, TWO


def test_a_broker_that_answers_as_the_others_do() -> None:
    what = "broker 1 at b1:9092 answers"
    assert check_view.of_broker(ONE, CLUSTER, CLUSTER) == Finding(what)
    gone = check_view.of_broker(ONE, CLUSTER, CannotDo("no broker can be reached", "look"))
    assert gone == Finding(what, "no broker can be reached: look")
    other = check_view.of_broker(ONE, CLUSTER, replace(CLUSTER, cluster_id="c-2"))
    assert other.problem == "it belongs to cluster c-2, the others belong to c-1"
    alone = check_view.of_broker(ONE, CLUSTER, replace(CLUSTER, brokers=(ONE,)))
    assert alone.problem == f"it does not know brokers {TWO.id}"


def test_partitions_without_a_leader_are_named() -> None:
    assert check_view.of_partitions([SMALL]).problem == ""
    assert check_view.of_partitions([ORDERS, SMALL]).problem == "no leader: orders-1"
    many = [replace(ORDERS, name=f"t{number}") for number in range(7)]
    assert check_view.of_partitions(many).problem.endswith("t4-1 and 2 more")


def test_what_is_printed() -> None:
    findings = [Finding("3 brokers"), Finding("a broker answers", "no")]
    assert check_view.text(findings) == (
        "CHECK             OK   PROBLEM\n3 brokers         yes  -\na broker answers  no   no"
    )
    assert check_view.document(findings)["ok"] is False
