"""Hundreds of Topics at once: made in time, usable, and cheap for the operator afterwards."""

import json
import os
import random
import time

import pytest

from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets
from e2e.cluster.kubectl import eventually
from e2e.lanes import is_full
from e2e.main.at_rest import HANG, note_at_rest
from e2e.main.broker_cluster import BrokerClusterUnderTest, is_ready, shown, topic_manifest
from e2e.main.operator import Operator

pytestmark = [pytest.mark.main, pytest.mark.timeout(900)]

TOPICS = 500 if is_full() else 100
READY_LIMIT_S = 60
PRODUCED_TO = 20
MANY = {"e2e": "many-topics"}
SELECTOR = ("-l", "e2e=many-topics")


def manifests(cluster: BrokerClusterUnderTest) -> tuple[list[str], str]:
    """The topics' names and all their manifests in one List."""
    names = [f"many-{number:03}" for number in range(TOPICS)]
    items = []
    for name in names:
        one = topic_manifest(name, 1, cluster.name)
        one["metadata"]["labels"] = MANY
        items.append(one)
    return names, json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_many_topics_together(cluster: BrokerClusterUnderTest, operator: Operator) -> None:
    names, text = manifests(cluster)
    operator.wait_whole()

    def all_ready() -> bool:
        items = cluster.kubectl.get("ct", *SELECTOR)["items"]
        waiting = [one for one in items if not is_ready(one)]
        assert not waiting, f"{len(waiting)} of {len(items)} wait, like {shown(waiting[0])}"
        return len(items) == TOPICS

    try:
        started_s = time.monotonic()
        cluster.kubectl("apply", "--server-side", "-f", "-", input_text=text, timeout_s=120)
        applied_s = time.monotonic() - started_s
        eventually(f"{TOPICS} topics are Ready", all_ready, HANG * READY_LIMIT_S)
        took_s = time.monotonic() - started_s
        measured.note(
            f"{TOPICS} topics: all Ready after {took_s:.1f} s (limit {READY_LIMIT_S} s), "
            f"of which kubectl apply took {applied_s:.1f} s"
        )
        produce_to_some(cluster.bootstrap, names)
        note_at_rest(operator)
    finally:
        cluster.kubectl("delete", "ct", *SELECTOR, "--wait=false", timeout_s=180)

    def none_left() -> bool:
        left = [one for one in cluster.own("pmap") if one["spec"]["topicName"] in set(names)]
        assert not left, f"{len(left)} maps are left"
        return True

    gone_s = eventually("the topics and their maps are gone", none_left, HANG * READY_LIMIT_S)
    measured.note(f"deleted again after {gone_s:.1f} s")


def produce_to_some(bootstrap: str, names: list[str]) -> None:
    seed = int(os.environ.get("SEED") or time.time_ns() % 1_000_000)
    drawn = random.Random(seed).sample(names, PRODUCED_TO)  # noqa: S311 - topics, not secrets
    measured.note(f"SEED={seed}: producing to {PRODUCED_TO} of them")
    for name in drawn:
        Librdkafka().produce(bootstrap, name, [Record(name.encode())])
        assert end_offsets(bootstrap, name, [0]) == [1]
