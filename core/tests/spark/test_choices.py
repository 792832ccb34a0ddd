"""Who may choose the image and the account of a Spark job, and where."""

from dataclasses import fields

import pytest

from chiplog_core.model.spark import SparkOverrides, SparkSettings
from chiplog_core.spark.choices import Allowed, check_choice, check_own_choice, in_namespace

LISTED = Allowed(images=frozenset({"ours:1"}), service_accounts=frozenset({"team/spark"}))
JUDGED = Allowed(is_judged_at_admission=True)
THEIRS = SparkOverrides(image="theirs:1", service_account_name="admin")
CLUSTERS = SparkSettings(image="cluster:1", service_account_name="runner", retries=7)


def test_nothing_is_named_so_nothing_is_wrong() -> None:
    assert check_choice(SparkSettings(), "team", Allowed()) == ()
    assert check_choice(SparkOverrides(), "team", Allowed()) == ()


def test_what_is_not_listed_is_refused_with_field_and_remedy() -> None:
    image, account = check_choice(THEIRS, "team", LISTED)
    assert image.field == "spec.spark.image"
    assert account.field == "spec.spark.serviceAccountName"
    assert "spark.allowedImages" in image.remedy
    assert "spark.allowedServiceAccounts" in account.remedy
    assert "create pods in namespace team" in account.remedy


def test_what_is_listed_may_be_named() -> None:
    listed = SparkOverrides(image="ours:1", service_account_name="spark")
    assert check_choice(listed, "team", LISTED) == ()


@pytest.mark.parametrize("image", ["ours", "ours:11", "evil/ours:1", "ours:1@sha256:00"])
def test_an_image_is_listed_as_a_whole(image: str) -> None:
    assert check_choice(SparkOverrides(image=image), "team", LISTED)


def test_an_account_is_listed_for_its_namespace_alone() -> None:
    spark = SparkOverrides(service_account_name="spark")
    assert check_choice(spark, "team", LISTED) == ()
    assert [one.field for one in check_choice(spark, "other", LISTED)] == [
        "spec.spark.serviceAccountName"
    ]


def test_what_the_api_server_has_judged_is_not_judged_again() -> None:
    assert check_choice(THEIRS, "team", JUDGED) == ()


def test_an_object_may_repeat_what_its_cluster_of_the_same_namespace_has() -> None:
    same = SparkOverrides(image="cluster:1", service_account_name="runner")
    home = in_namespace(CLUSTERS, "team", "team")
    assert check_own_choice(same, home, "team", LISTED) == ()
    away = in_namespace(CLUSTERS, "platform", "team")
    assert len(check_own_choice(same, away, "team", LISTED)) == 2


def test_a_clusters_image_and_account_stay_in_its_namespace() -> None:
    assert in_namespace(CLUSTERS, "team", "team") == CLUSTERS
    away = in_namespace(CLUSTERS, "platform", "team")
    assert (away.image, away.service_account_name) == (None, None)
    others = {one.name for one in fields(CLUSTERS)} - {"image", "service_account_name"}
    assert all(getattr(away, name) == getattr(CLUSTERS, name) for name in others)
    assert in_namespace(None, "platform", "team") == SparkSettings()
