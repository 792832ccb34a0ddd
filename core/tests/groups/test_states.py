"""The table of states, and the descriptions that name them."""

import pytest

from chiplog_core.groups.description import Description, MemberDescription
from chiplog_core.groups.states import TRANSITIONS, GroupEvent, after
from chiplog_core.model.group_status import GroupState
from tests.groups.coordinator import Coordinator


def test_what_the_table_does_not_list_cannot_happen() -> None:
    with pytest.raises(AssertionError, match="in Empty it cannot happen that the leader brings"):
        after(GroupState.EMPTY, GroupEvent.ASSIGNED)


def test_every_state_can_be_reached_and_left_but_for_the_last() -> None:
    reached = {state for (before, _), state in TRANSITIONS.items() if before is not state}
    left = {before for (before, _), state in TRANSITIONS.items() if before is not state}

    assert reached == left | {GroupState.DEAD}


def test_a_description_of_a_stable_group_has_everything() -> None:
    one = Coordinator()
    (a,) = one.stable_group("a", group_instance_id="pod-0")

    member = MemberDescription(
        member_id=a,
        group_instance_id="pod-0",
        client_id="a",
        client_host="/10.0.0.1",
        metadata=b"topics",
        assignment=a.encode(),
    )
    assert one.group.describe() == Description(
        state=GroupState.STABLE,
        generation=1,
        protocol_type="consumer",
        protocol="range",
        members=(member,),
    )


def test_a_description_of_another_group_has_no_protocol_yet() -> None:
    one = Coordinator()
    one.joined_group("a")
    described = one.group.describe()

    assert (described.protocol_type, described.protocol) == ("consumer", "")
    assert (described.members[0].metadata, described.members[0].assignment) == (b"", b"")


def test_a_group_that_never_was_can_be_described() -> None:
    one = Coordinator()

    assert one.group.describe() == Description(
        state=GroupState.EMPTY, generation=0, protocol_type="", protocol="", members=()
    )
