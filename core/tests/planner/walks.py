"""Random walks of brokers, operator and store; a seed is always the same walk."""

from random import Random

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_status import Tail
from tests.planner.moving import Moving
from tests.planner.replicas import Key, Loss, Replication, unanswered

STEPS = 200

WORK = ("append", "fetch", "fetch", "acknowledge", "propose", "publish", "see", "repeat")
FAULTS = (
    "kill",
    "start",
    "suspect",
    "damage",
    "give_up",
    "renew",
    "drain",
    "operate_stale",
    "operate_half",
    "do_late",
    "stop_all",
    "copy",
    "put_back",
)
LIES = ("lose_tail", "cut", "put_back_unseen", "fail_disk")
"""What a disk lost that says nothing of it, or that may as well have lost nothing."""
LOSSES = {
    "lose_tail": Loss.TAIL,
    "cut": Loss.CUT,
    "put_back": Loss.BACK,
    "put_back_unseen": Loss.BACK_UNSEEN,
}


def walk(
    seed: int,
    *,
    durability: str = "Fsync",
    restores: bool = False,
    lies: bool = False,
    moves: bool = False,
) -> Replication:
    """Faults and work in any order, then everything is well. Raises where a rule is broken."""
    rng = Random(seed)  # noqa: S311 - a walk is to be the same every time
    found = (Moving if moves else Replication)(rng, durability)
    faults = rng.sample(FAULTS, rng.randint(2, len(FAULTS)))
    if lies:
        faults += ["copy", *LIES, *rng.sample(LIES, 2)]
    else:
        # After a minute one that vouches is believed, also one that lies.
        faults += ["wait"]
    if restores:
        faults += ["restore", "restore"]
    if moves:
        faults += ["move"] * len(faults)
    for _ in range(STEPS):
        broker_id = BrokerId(rng.randint(1, len(found.kubernetes.brokers)))
        key = next(found.keys())
        roll = rng.random()
        if roll < 0.10:
            fault(found, rng.choice(faults), broker_id)
        elif roll < 0.32:
            operate(found)
        else:
            work(found, rng.choice(WORK), broker_id, key)
        check(found)
    for broker_id in found.kubernetes.brokers:
        found.register(broker_id)
    found.heal()
    check_answers(found)
    return found


def operate(found: Replication) -> None:
    found.operate()
    for broker_id in found.kubernetes.brokers:
        if found.rng.random() < 0.7:
            found.register(broker_id)
            found.see(broker_id)
    if found.rng.random() < 0.1:
        found.back_up()


def work(found: Replication, name: str, broker_id: BrokerId, key: Key) -> None:
    if name == "fetch":
        for one in found.kubernetes.brokers:
            if found.rng.random() < 0.5:
                found.fetch(one, key, found.rng.choice((1, 3, 100)))
    elif name == "see":
        found.see(broker_id)
    else:
        for one in found.kubernetes.brokers:
            if name in {"publish", "repeat"}:
                found.publish(one, is_old=name == "repeat")
            else:
                getattr(found, name)(one, key)


def fault(found: Replication, name: str, broker_id: BrokerId) -> None:
    if name in {"kill", "start", "give_up", "renew", "drain", "copy", "fail_disk", "move"}:
        getattr(found, name)(broker_id)
    elif name == "suspect":
        found.start(broker_id, Tail.SUSPECT)
    elif name in LOSSES:
        found.start(broker_id, loss=LOSSES[name])
    elif name == "damage":
        # One disk at a time: of what only damaged disks have, nobody can make a leader.
        if not found.damaged:
            found.start(broker_id, damage=True)
    elif name == "operate_stale":
        found.operate(is_stale=True)
    elif name == "operate_half":
        found.operate(part=0.5)
    elif name == "restore":
        found.restore()
        # The new operator hears of a death before anybody else has spoken.
        found.kill(broker_id)
        found.operate()
    else:
        getattr(found, name)()


def late_join(seed: int) -> None:
    """A follower that was let in, fell behind and was put out; then its admission comes again."""
    rng = Random(seed)  # noqa: S311 - a walk is to be the same every time
    found = Replication(rng)
    key = next(found.keys())
    one, two, three = sorted(found.kubernetes.brokers)
    for without in (three, None, three):
        found.append(one, key)
        for follower in (two, three):
            found.fetch(follower, key)
        found.acknowledge(one, key)
        found.propose(one, key, is_greedy=True, without=without)
        found.publish(one)
        found.operate()
        for broker_id in (one, two, three):
            found.see(broker_id)
        check(found)
    found.append(one, key)
    found.fetch(two, key)
    found.acknowledge(one, key)
    found.processes[one].said = found.processes[one].said[1:2]
    found.publish(one, is_old=True)
    found.operate()
    check(found)


def check(found: Replication) -> None:
    """Who is listed and present has everything that was acknowledged."""
    for key, state in found.states.items():
        acknowledged = found.acknowledged.get(key, set())
        if state.reports_wanted or _went_back(found, key):
            continue
        for ref in state.isr:
            process = found.processes.get(ref.broker_id)
            if process is not None and process.ref == ref:
                log = found.log(ref.broker_id, key)
                assert acknowledged <= set(log), f"{ref} is listed and lacks records"


def check_answers(found: Replication) -> None:
    """After a whole plan nothing is left that waits for an answer of a living leader."""
    found.operate()
    found.operate()
    assert not unanswered(found)


def _went_back(found: Replication, key: Key) -> bool:
    state = found.states[key]
    epoch = state.partition_epoch
    return any(
        one.views[key].partition_epoch > epoch
        for one in found.processes.values()
        if key in one.views
    )
