"""Lanes: every one is a marker, and one that is not there is refused by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import lanes
from e2e.side_by_side import group_of


def make_e2e(checkout: Path, lane: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "e2e.lanes", "--collect-only", "-q"],
        cwd=checkout,
        env={**os.environ, "LANE": lane, "FULL": ""},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("lane", ["repartition", "spork"])
def test_a_lane_without_tests_is_refused_with_the_lanes_there_are(
    checkout: Path, lane: str
) -> None:
    done = make_e2e(checkout, lane)
    assert done.returncode == 2
    assert done.stdout.startswith(f"e2e: LANE={lane} ")
    assert all(name in done.stdout for name in lanes.LANES)


def test_every_lane_is_a_marker(pytestconfig: pytest.Config) -> None:
    markers = {line.partition(":")[0] for line in pytestconfig.getini("markers")}
    assert set(lanes.LANES) <= markers
    assert not set(lanes.PLANNED) & set(lanes.LANES)


def test_make_test_runs_every_lane() -> None:
    assert {*lanes.ALL.split(" or "), "lifecycle"} == set(lanes.LANES)


def test_a_lane_has_its_tests_and_no_others(checkout: Path) -> None:
    done = make_e2e(checkout, "main")
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert collected, done.stdout
    assert all(line.startswith(("e2e/chaos/", "e2e/demo/", "e2e/main/")) for line in collected)


def test_a_users_first_hour_is_spent_twice(checkout: Path) -> None:
    collected = make_e2e(checkout, "clients").stdout.splitlines()
    alone, on_kubernetes = (
        {line.partition("::")[2] for line in collected if line.startswith(f"e2e/{directory}::")}
        for directory in (
            "clients/tests/test_first_hour.py",
            "main/tests/first_hour/test_first_hour_on_kubernetes.py",
        )
    )
    assert alone
    assert alone == on_kubernetes


def test_what_needs_more_than_python_and_a_moment_is_kept_out_of_make_check(checkout: Path) -> None:
    makefile = (checkout / "Makefile").read_text()
    kept_out = " and ".join(f"not {name}" for name in lanes.ALL.split(" or "))
    assert f'-m "{kept_out}"' in makefile


@pytest.mark.parametrize("lane", ["cluster", "main"])
def test_what_needs_the_cluster_is_run_by_one_process(checkout: Path, lane: str) -> None:
    collected = [line for line in make_e2e(checkout, lane).stdout.splitlines() if "::" in line]
    # These want its programs only.
    programs = ("charts/", "e2e/cluster/tests/test_agent_unit.py")
    alone = {line for line in collected if line.startswith(programs)}
    assert set(collected) - alone
    assert {group_of(line) for line in set(collected) - alone} == {"cluster"}


def test_spark_without_a_cluster_runs_in_one_process(checkout: Path) -> None:
    """Of a JVM for each of two processes one would be too many."""
    collected = [line for line in make_e2e(checkout, "spark").stdout.splitlines() if "::" in line]
    with_a_cluster = {
        f"e2e/{name}.py"
        for name in (
            "cluster/tests/test_image_contents",
            "cluster/tests/test_spark_image",
            "spark/tests/test_rebalance",
            "spark/tests/test_verification",
        )
    }
    found = {line.partition("::")[0] for line in collected if group_of(line) == "cluster"}
    assert found == with_a_cluster
    assert {group_of(line) for line in collected} == {"cluster", "without a cluster"}


def test_spark_jobs_on_kubernetes_are_run_beside_no_other_user_of_it() -> None:
    assert group_of("e2e/spark/tests/test_verification.py::test") == "cluster"


@pytest.mark.parametrize(
    "name",
    ["clients/tests/test_crash.py", "sim/tests/test_seeds.py", "spark/tests/test_stock_batch.py"],
)
def test_what_needs_no_cluster_is_run_beside_it(name: str) -> None:
    assert group_of(f"e2e/{name}::test") != "cluster"


def test_only_the_short_form_of_all_lanes_runs_side_by_side() -> None:
    assert "--dist=loadscope" in lanes.arguments_for("", full=False)
    for lane, full in (("main", False), ("", True), ("main", True)):
        assert "--dist=loadscope" not in lanes.arguments_for(lane, full=full)
