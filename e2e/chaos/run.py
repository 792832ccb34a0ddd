"""Causes faults repeatedly while clients run, and judges what the clients saw."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from e2e.chaos.controls import missed, missed_of_groups, missed_of_transactions
from e2e.chaos.faults import Fault
from e2e.chaos.files import replicas_in
from e2e.chaos.group_checkers import check_groups
from e2e.chaos.group_history import GroupHistory
from e2e.chaos.scene import Scene
from e2e.chaos.transactions import Outcomes, Transactions, identities, outcomes
from e2e.chaos.workload import Workload
from e2e.main.replicas import wait_in_sync
from e2e.sim.checkers import Anomaly, check
from e2e.sim.history import History

PAUSE_S = 3
# Longer than the time without an acknowledgement that counts as no progress at all.
SETTLE_S = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run with one kind of fault, or with several one after the other."""

    name: str
    hits: int
    """How often a fault was caused."""
    acknowledged: int
    """Records that were acknowledged to a producer."""
    records_per_s: float
    unavailable_s: float
    """The longest time between two acknowledgements in any one partition."""
    anomalies: tuple[Anomaly, ...]
    commits: int
    """Offsets whose commit was acknowledged to a member of a group."""
    group_anomalies: tuple[Anomaly, ...]
    transactions: Outcomes
    transaction_anomalies: tuple[Anomaly, ...]
    errors: tuple[str, ...]
    """What clients gave up, although they are configured with very long timeouts."""
    missed: frozenset[str]
    """Violations planted in the history that the checkers did not report: if any, the run is
    invalid."""

    def check(self) -> None:
        """Raise `AssertionError` unless the run is valid and nothing is wrong."""
        assert not self.missed, (
            f"the run is invalid: the checkers do not report the planted {set(self.missed)}"
        )
        assert not self.anomalies, (
            f"{len(self.anomalies)} anomalies: {self.anomalies[:5]}; "
            f"what clients gave up, the likely cause: {self.errors[:5]}"
        )
        found = self.group_anomalies
        assert not found, f"{len(found)} anomalies of groups: {found[:5]}"
        found = self.transaction_anomalies
        assert not found, f"{len(found)} anomalies of transactions: {found[:5]}"
        assert not self.errors, (
            f"{len(self.errors)} failures, like records given up: {self.errors[:5]}"
        )


def run(scene: Scene, faults: Sequence[Fault], seconds: float, directory: Path) -> Result:
    """Cause each fault repeatedly for about `seconds`, at least once, while clients run.

    Each time all replicas must be in sync again first. Raises `HadNoEffect` if a fault had no
    effect, and `TimeoutError` if the brokers do not recover.
    """
    with Workload(scene.cluster.bootstrap, scene.topic, directory) as load:
        hits = sum(hit_repeatedly(scene, one, seconds - SETTLE_S) for one in faults)
        load.all_is_well()
        time.sleep(SETTLE_S)
    return judged_scene(", ".join(one.name for one in faults), hits, load, scene, directory)


def judged_scene(name: str, hits: int, load: Workload, scene: Scene, directory: Path) -> Result:
    """As `judged`, for a topic whose partitions may have different numbers of replicas."""
    places = scene.places()
    volumes = {broker: scene.volume(broker) for broker in scene.brokers()}
    replicas = sum(len(one.replicas) for one in places)
    result = judged(name, hits, load, volumes, directory, replicas)
    with suppress(KafkaException):  # what is left takes some space only
        load.transactions.delete_topic()
    return result


def hit_repeatedly(scene: Scene, fault: Fault, seconds: float) -> int:
    """Cause the fault again and again for `seconds`; returns how often.

    Returns when all replicas are in sync again after the last time.
    """
    hits, until_s = 0, time.monotonic() + seconds
    while not hits or time.monotonic() < until_s:
        time.sleep(PAUSE_S)
        with fault.strike(scene):
            time.sleep(fault.lasts_s)
        wait_in_sync(scene.cluster)
        hits += 1
    return hits


def judged(
    name: str,
    hits: int,
    load: Workload,
    volumes: Mapping[int, Path],
    directory: Path,
    replicas: int | None = None,
) -> Result:
    """The result of a run, from what the clients saw and what is stored on the brokers' disks.

    `volumes` is broker id -> its data volume. They must have `replicas` of the topic's partitions;
    by default, one of each partition. If there are anomalies, the history is written to
    `directory`, and what clients reported.
    """
    ledger = load.ledger
    load.history.replicas.extend(replicas_in(volumes, ledger.topic, ledger.partitions))
    found, expected = len(load.history.replicas), replicas or len(volumes) * ledger.partitions
    assert found >= expected, f"the disks have {found} replicas, not {expected}"
    anomalies = check(load.history)
    if anomalies:
        keep(load.history, directory / "history.jsonl")
        said = [*ledger.errors, "", *ledger.disturbances]
        (directory / "errors-and-disturbances.txt").write_text("\n".join(said))
    group_anomalies = check_groups(ledger.groups, load.history)
    if group_anomalies:
        keep_groups(ledger.groups, directory / "groups.jsonl")
    transaction_anomalies = judged_transactions(load.transactions, volumes, directory)
    with_transactions = load.transactions.history
    return Result(
        name=name,
        hits=hits,
        acknowledged=ledger.acknowledged(),
        records_per_s=load.records_per_s(),
        unavailable_s=ledger.unavailable_s(),
        anomalies=tuple(anomalies),
        commits=ledger.groups.acknowledged(),
        group_anomalies=tuple(group_anomalies),
        transactions=outcomes(with_transactions.transactions),
        transaction_anomalies=tuple(transaction_anomalies),
        errors=tuple(ledger.errors),
        missed=missed(load.history)
        | missed_of_groups(ledger.groups, load.history)
        | missed_of_transactions(with_transactions),
    )


def judged_transactions(
    load: Transactions, volumes: Mapping[int, Path], directory: Path
) -> list[Anomaly]:
    """The anomalies of the topic with transactions; its history is written like the others."""
    history, ledger = load.history, load.ledger
    history.replicas.extend(replicas_in(volumes, ledger.topic, ledger.partitions))
    assert history.replicas, f"the disks have no replica of {ledger.topic}"
    history.transactions.given.extend(identities(history))
    anomalies = check(history)
    if anomalies:
        keep(history, directory / "transactions.jsonl")
        (directory / "disturbances.txt").write_text("\n".join(ledger.disturbances))
    return anomalies


def keep(history: History, path: Path) -> None:
    """Write a JSON line for each event, and one for each partition with its final records."""
    with path.open("w") as file:
        for one in history.events:
            file.write(json.dumps(asdict(one)) + "\n")
        for partition, stored in history.final.items():
            file.write(json.dumps({"final": partition, "stored": stored}) + "\n")
        for name, noted in asdict(history.transactions).items():
            for entry in noted.items() if isinstance(noted, dict) else noted:
                file.write(json.dumps({name: entry}) + "\n")


def keep_groups(groups: GroupHistory, path: Path) -> None:
    """Write a JSON line for each entry of the groups' history, one kind after the other."""
    with path.open("w") as file:
        for kind in (groups.commits, groups.found, groups.processed, groups.said):
            for one in kind:
                file.write(json.dumps({type(one).__name__: one._asdict()}) + "\n")
        for place, offset in groups.final.items():
            file.write(json.dumps({"final": place, "offset": offset}) + "\n")
        for group, state in groups.late.items():
            file.write(json.dumps({"late": group, "told": state}) + "\n")
