"""Faults of consumer groups: of their members and coordinators, and requests of users.

Only seeds with groups have them. Faults of a coordinator hit a broker that leads a partition of
`__consumer_offsets` at that moment.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final
from uuid import UUID

from chiplog_core.topic_name import CONSUMER_OFFSETS
from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from e2e.sim.faults import scene
from e2e.sim.faults.admins import as_client, send
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.groups.crowd import Crowd, Seat
from e2e.sim.groups.notes import place_of
from e2e.sim.groups.replay import serving
from e2e.sim.groups.wire import Identity
from e2e.sim.kubelet import NAMESPACE, Node
from e2e.sim.maps import states_in
from e2e.sim.roles import ACTING, MEMBER
from e2e.sim.wire import PORT, UNREACHED, Wire

MOST_SEATS: Final = 5
"""The most members of a group."""
POLL_S: Final = 0.01
PATIENCE_S: Final = 15.0
ASKED_AT_MOST: Final = 8
GONE: Final = frozenset({0, int(ErrorCode.group_id_not_found)})
"""Error codes of a DeleteGroups after which the group does not exist."""
NOBODYS: Final = "nobodys"
"""A group that never has members."""
IN_A_ROW: Final = 6
ASKED: Final = (
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.HEARTBEAT,
    ApiKey.SYNC_GROUP,
    ApiKey.LEAVE_GROUP,
    ApiKey.JOIN_GROUP,
    ApiKey.OFFSET_COMMIT,
)

MemberAct = Callable[[Stage, Crowd, Seat], Awaitable[None]]


def _of_a_member(act: MemberAct) -> Act:
    """A fault that applies `act` to a random running member; it does nothing if there is none."""

    @wraps(act)
    async def acting(stage: Stage) -> None:
        crowd = stage.crowd
        seat = crowd.somebody() if crowd is not None else None
        if crowd is not None and seat is not None:
            stage.world.hits[ACTING.get(), MEMBER] += 1
            await act(stage, crowd, seat)

    return acting


async def _restart_member(crowd: Crowd, seat: Seat) -> None:
    """Start the member of a seat again, if it ended and is still wanted."""
    if seat.is_wanted and seat.member is None and not crowd.is_over:
        crowd.sit(seat)


@_of_a_member
async def kill_member(stage: Stage, crowd: Crowd, seat: Seat) -> None:
    """Kill a member, and start it again before or after its session has ended."""
    crowd.kill(seat)
    await asyncio.sleep(stage.chance.uniform(0.2, 2.0 * crowd.habits.session_s))
    await _restart_member(crowd, seat)


@_of_a_member
async def freeze_member(stage: Stage, crowd: Crowd, seat: Seat) -> None:
    """Pause a member; it continues where it was, often when others have its partitions."""
    crowd.freeze(seat)
    await asyncio.sleep(stage.chance.uniform(0.5, 2.5 * crowd.habits.session_s))
    crowd.thaw(seat)


@_of_a_member
async def cut_member(stage: Stage, crowd: Crowd, seat: Seat) -> None:
    """Cut the network between a member and all brokers, in one or both directions."""
    assert seat.process is not None
    network, host = stage.world.network, seat.process.host
    to_it, from_it = stage.chance.choice(((True, True), (True, False), (False, True)))
    for node in stage.world.nodes.values():
        if to_it:
            network.cut(node.host, host)
        if from_it:
            network.cut(host, node.host)
    await asyncio.sleep(stage.chance.uniform(0.5, 2.0 * crowd.habits.session_s))
    network.heal()


@_of_a_member
async def leave(stage: Stage, crowd: Crowd, seat: Seat) -> None:
    """Let a member leave its group, and start it again some seconds later."""
    crowd.leave(seat)
    await asyncio.sleep(stage.chance.uniform(0.2, 2.0 * crowd.habits.session_s))
    await _restart_member(crowd, seat)


@_of_a_member
async def join(stage: Stage, crowd: Crowd, seat: Seat) -> None:
    """Add a member to a group for good; if the group is full, let one leave for good."""
    seats = [one for one in crowd.seats if one.group == seat.group and one.is_wanted]
    if len(seats) < MOST_SEATS:
        crowd.sit(crowd.add_seat(seat.group))
    elif len(seats) > 1:
        seat.is_wanted = False
        crowd.leave(seat)


@_of_a_member
async def dawdle(_stage: Stage, _crowd: Crowd, seat: Seat) -> None:
    """A member processes records for longer than its session lasts, and then commits them."""
    if seat.member is not None:
        seat.member.is_to_dawdle = True


@_of_a_member
async def double(stage: Stage, crowd: Crowd, seat: Seat) -> None:
    """Start a second process for a static member while the first one runs: it fences that one."""
    statics = [one for one in crowd.seats if one.instance and one.member is not None]
    if statics:
        crowd.sit(stage.chance.choice(statics))


@_of_a_member
async def abandon(stage: Stage, crowd: Crowd, seat: Seat) -> None:
    """End all members of a group by leaving or killing, and start them again some time later.

    With a short retention their committed offsets may have expired by then.
    """
    seats = [one for one in crowd.seats if one.group == seat.group]
    is_orderly = stage.chance.random() < 0.5
    for one in seats:
        (crowd.leave if is_orderly else crowd.kill)(one)
    longest_s = 130.0 if crowd.habits.retention_minutes else 3 * crowd.habits.session_s
    await asyncio.sleep(stage.chance.uniform(1.0, longest_s))
    for one in seats:
        await _restart_member(crowd, one)


# -- coordinators


def coordinator(stage: Stage, topic: str = CONSUMER_OFFSETS) -> Node | None:
    """A broker that leads a partition of `__consumer_offsets`, or of `topic`; None where none
    does."""
    leaders = sorted(
        state.leader.broker_id
        for partition, state in states_in(stage.world.store)
        if partition.topic == topic and state.leader is not None
    )
    if not leaders:
        return None
    node = stage.world.nodes[stage.chance.choice(leaders)]
    stage.world.count_hit(node)
    return node


async def kill_coordinator(stage: Stage, topic: str = CONSUMER_OFFSETS) -> None:
    if (node := coordinator(stage, topic)) is not None:
        node.kill()


async def freeze_coordinator(stage: Stage, topic: str = CONSUMER_OFFSETS) -> None:
    """Pause a coordinator, sometimes so long that another broker takes over."""
    if (node := coordinator(stage, topic)) is not None:
        node.pause()
        await asyncio.sleep(stage.chance.uniform(0.5, 15.0))
        node.resume()


async def cut_power_of_coordinator(stage: Stage, topic: str = CONSUMER_OFFSETS) -> None:
    node = coordinator(stage, topic)
    if node is not None and node.has_power:
        node.cut_power()
        await asyncio.sleep(stage.chance.uniform(0.5, 15.0))
        node.power_on()


async def move_coordinator(stage: Stage, topic: str = CONSUMER_OFFSETS) -> None:
    """Delete the coordinator's pod: it shuts down cleanly, and another broker leads."""
    if (node := coordinator(stage, topic)) is None:
        return
    if stage.world.store.find(kinds.PODS, NAMESPACE, node.host) is not None:
        stage.world.store.delete(kinds.PODS, ObjectKey(NAMESPACE, node.host))


async def cut_coordinator(stage: Stage, topic: str = CONSUMER_OFFSETS) -> None:
    """Cut a coordinator off from the other brokers, the API server, or both.

    Without the API server it is deposed without noticing it.
    """
    if (node := coordinator(stage, topic)) is None:
        return
    world, network = stage.world, stage.world.network
    brokers = [one.host for one in world.nodes.values() if one is not node]
    for other in stage.chance.choice((["api", *brokers], ["api", *brokers], brokers, ["api"])):
        network.cut(node.host, other)
        network.cut(other, node.host)
    await asyncio.sleep(stage.chance.uniform(0.5, 20.0))
    network.heal()


async def kill_at_commit(stage: Stage) -> None:
    """End a coordinator while a commit is in flight: sent, appended, or replicated."""
    history = stage.world.notebook.history.groups
    if await _until_longer(stage, lambda: len(history.commits)):
        await asyncio.sleep(stage.chance.choice((0.0, 0.001, 0.003, 0.006)))
        if (node := coordinator(stage)) is not None:
            stage.count_effect("killed at a commit")
            stage.chance.choice((node.kill, node.cut_power))()
            await asyncio.sleep(stage.chance.uniform(0.5, 8.0))
            node.power_on()


async def kill_at_rebalance(stage: Stage) -> None:
    """Kill a coordinator when it has answered some members, not all, about a new generation."""
    history = stage.world.notebook.history.groups
    if await _until_longer(stage, lambda: len(history.joined)):
        await asyncio.sleep(stage.chance.choice((0.0, 0.001, 0.004, 0.01)))
        if (node := coordinator(stage)) is not None:
            stage.count_effect("killed at a rebalance")
            node.kill()


async def _until_longer(stage: Stage, length: Callable[[], int]) -> bool:
    """Wait until `length` returns another number; False if it does not within `PATIENCE_S`."""
    before, until_s = length(), stage.world.loop.time() + PATIENCE_S
    while length() == before:
        if stage.world.loop.time() > until_s:
            return False
        await asyncio.sleep(POLL_S)
    return True


async def depose_and_ask(stage: Stage) -> None:
    """Cut a coordinator off from the API server, or pause it, until another broker takes over.

    A client commits at the new coordinator, and then asks the old one for the committed offset.
    The old one may not know yet that it is deposed, but must not answer with its old offset.
    """
    crowd, node = stage.crowd, coordinator(stage)
    if crowd is None or node is None:
        return
    name = f"deposed-{stage.world.store.version}"
    try:
        await stage.world.as_client(name, _as_far_as_reached(stage, crowd, node))
    finally:
        node.resume()
        stage.world.network.heal()


async def _as_far_as_reached(stage: Stage, crowd: Crowd, node: Node) -> None:
    """Run the steps of `depose_and_ask`; they end early if a broker is not reached."""
    try:
        await _depose_and_ask(stage, crowd, node)
    except UNREACHED as unreached:
        crowd.notes.error(type(unreached).__name__)


async def _depose_and_ask(stage: Stage, crowd: Crowd, node: Node) -> None:
    """The steps of `depose_and_ask`. Raises one of `UNREACHED`."""
    world, old, new = stage.world, crowd.new_watcher(NOBODYS), crowd.new_watcher(NOBODYS)
    for one in (old, new):
        await one.wire.wire.learn()
    mine = old.partitions(crowd.habits.topics)[:1]
    old.at = node.host, PORT
    if not mine or await old.send_commit(old.at, Identity(), dict.fromkeys(mine, 1)):
        return
    pauses = stage.chance.random() < 0.5
    if pauses:
        node.pause()
    else:
        scene.cut_api(stage, node)
    others = [one.host for one in world.nodes.values() if one is not node]
    until_s = world.loop.time() + scene.PATIENCE_S
    while not (new_hosts := [one for one in others if serving(world, one, NOBODYS)]):
        if world.loop.time() > until_s:
            return
        await asyncio.sleep(POLL_S)
    if await new.send_commit((new_hosts[0], PORT), Identity(), dict.fromkeys(mine, 2)):
        return
    stage.count_effect("deposed and asked")
    asked = asyncio.ensure_future(old.fetch_committed(old.at, mine))
    await asyncio.sleep(stage.chance.uniform(0.0, 0.5))
    node.resume()
    await asked


# -- requests of users


async def delete_group(stage: Stage) -> None:
    """Let all members of a group leave, delete the group, and start the members again."""
    crowd = stage.crowd
    if crowd is None:
        return
    group = stage.chance.choice(crowd.groups)
    seats = [one for one in crowd.seats if one.group == group and one.is_wanted]
    for one in seats:
        one.is_wanted = False
        crowd.leave(one)
    try:
        await asyncio.sleep(stage.chance.uniform(0.5, crowd.habits.session_s))
        name = f"delete-{stage.world.store.version}"
        await stage.world.as_client(name, _delete(stage, crowd, group))
    finally:
        for one in seats:
            one.is_wanted = True
            await _restart_member(crowd, one)


async def _delete(stage: Stage, crowd: Crowd, group: str) -> None:
    """Send DeleteGroups until the group is gone, `ASKED_AT_MOST` times at most."""
    watcher = crowd.new_watcher(group)
    for _ in range(ASKED_AT_MOST):
        removal = None
        try:
            if watcher.at is None and not await watcher.find_coordinator():
                await watcher.back_off()
                continue
            assert watcher.at is not None
            removal = crowd.notes.removal(group)
            error = await watcher.wire.delete(watcher.at)
        except UNREACHED as unreached:
            crowd.notes.error(type(unreached).__name__)
            watcher.at = None
        else:
            if error in GONE:
                removal.done_s = crowd.notes.now_s()
                stage.count_effect("group was deleted")
                return
            removal.is_refused = error == ErrorCode.non_empty_group
            watcher.note_error(error)
        await watcher.back_off()


async def forget_offset(stage: Stage) -> None:
    """Delete a committed offset of the loner, the consumer without a group membership."""
    crowd = stage.crowd
    if crowd is None or crowd.loner is None:
        return
    name = f"forget-{stage.world.store.version}"
    await stage.world.as_client(name, _forget(stage, crowd))


async def _forget(stage: Stage, crowd: Crowd) -> None:
    """Send one OffsetDelete for a partition that the loner commits, and note its answer."""
    watcher = crowd.new_watcher("loner")
    try:
        await watcher.wire.wire.learn()
        mine = watcher.partitions(crowd.habits.topics[:1])[:1]
        if not mine or not await watcher.find_coordinator():
            return
        assert watcher.at is not None
        place = mine[0].topic, mine[0].number
        removal = crowd.notes.removal("loner", place_of(*place))
        error = await watcher.wire.forget(watcher.at, place)
    except UNREACHED as unreached:
        crowd.notes.error(type(unreached).__name__)
        return
    if not error:
        removal.done_s = crowd.notes.now_s()
        stage.count_effect("offset was deleted")


async def ask_about(stage: Stage) -> None:
    """Send requests about groups as tools do, in any version, to any broker; some are wrong."""
    await as_client(stage, lambda wire, chance: _ask_about(stage, wire, chance))


async def _ask_about(stage: Stage, wire: Wire, chance: random.Random) -> None:
    """Send random requests about groups; `values` has the fields of all of them."""
    crowd = stage.crowd
    known = [*crowd.groups, "loner"] if crowd is not None else []
    for _ in range(IN_A_ROW):
        group = chance.choice([*known, "no-such-group", ""])
        topic = chance.choice(("orders", "clicks", "no-such-topic"))
        one = {
            "name": topic,
            "topic_id": UUID(int=chance.randint(1, 9)),
            "partition_indexes": [0, 7],
            "partitions": [{"partition_index": 7, "committed_offset": 1}],
        }
        who = {"member_id": "nobody", "group_instance_id": None, "reason": None}
        values: dict[str, Any] = {
            "group_id": group,
            "groups": [group, "no-such-group"],
            "states_filter": chance.choice(([], ["Stable"], ["Empty"])),
            "types_filter": chance.choice(([], ["classic"], ["consumer"])),
            "topics": chance.choice(([one], None)),
            "generation_id": 1,
            "generation_id_or_member_epoch": chance.choice((-1, 1)),
            "protocol_type": chance.choice(("consumer", "connect")),
            "protocol_name": "range",
            "protocols": chance.choice(([], [{"name": "sticky", "metadata": b""}])),
            "session_timeout": chance.choice((10, 10_000)),
            "rebalance_timeout": 10_000,
            "members": [who],
            **who,
        }
        key = chance.choice(ASKED)
        if key is ApiKey.OFFSET_FETCH:
            of_group = {"group_id": group, "topics": values["topics"]}
            values["groups"] = [of_group, of_group | {"group_id": "no-such-group"}]
        elif key is not ApiKey.LIST_GROUPS and values["topics"] is None:
            values["topics"] = [one]
        await send(stage, wire, chance, key, values)


ACTS: Final[dict[str, Act]] = {
    "member killed": kill_member,
    "member frozen": freeze_member,
    "member cut off": cut_member,
    "member left": leave,
    "member joined": join,
    "member slow": dawdle,
    "member twice": double,
    "group abandoned": abandon,
    "coordinator killed": kill_coordinator,
    "coordinator frozen": freeze_coordinator,
    "coordinator's power cut": cut_power_of_coordinator,
    "coordinator moved": move_coordinator,
    "coordinator cut off": cut_coordinator,
    "coordinator deposed": depose_and_ask,
    "coordinator at a commit": kill_at_commit,
    "coordinator at a rebalance": kill_at_rebalance,
    "group deleted": delete_group,
    "offset deleted": forget_offset,
    "groups asked about": ask_about,
}
