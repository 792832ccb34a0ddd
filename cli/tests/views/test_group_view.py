"""Groups, states and members in the shapes of `kafka-consumer-groups.sh`."""

from dataclasses import replace

from chiplog_cli import group_view
from chiplog_cli.facts import GroupListing
from tests.views.facts import at, group, member

STATIC = member("static", at(1), at(0), at(0, "small"), instance="worker-1")
PLAIN = member("plain")


def test_a_listing() -> None:
    listings = [GroupListing(group_id="billing", state="Stable", type="Classic")]
    assert group_view.list_text(listings, states=False) == "billing"
    assert group_view.list_text(listings, states=True) == (
        "GROUP    TYPE     STATE\nbilling  Classic  Stable"
    )
    assert group_view.list_documents(listings) == [
        {"group": "billing", "type": "Classic", "state": "Stable"}
    ]


def test_states() -> None:
    nobody = replace(group(state="Empty", name="old"), coordinator=None)
    assert group_view.state_text([group(PLAIN), nobody]) == (
        "GROUP    COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE   #MEMBERS\n"
        "billing  b1:9092 (1)       range                Stable  1\n"
        "old      -                 -                    Empty   0"
    )


def test_members() -> None:
    assert group_view.members_text([group(PLAIN)], verbose=False) == (
        "GROUP    CONSUMER-ID  HOST       CLIENT-ID  #PARTITIONS\n"
        "billing  plain-id     /10.0.0.1  plain      0"
    )


def test_members_with_all_there_is_to_tell() -> None:
    assert group_view.members_text([group(STATIC, PLAIN)], verbose=True) == (
        "GROUP    CONSUMER-ID  GROUP-INSTANCE-ID  HOST       CLIENT-ID  #PARTITIONS  "
        "CURRENT-ASSIGNMENT\n"
        "billing  static-id    worker-1           /10.0.0.1  static     3            "
        "orders:0,1;small:0\n"
        "billing  plain-id     -                  /10.0.0.1  plain      0            -"
    )


def test_a_document() -> None:
    assert group_view.document(group(STATIC)) == {
        "group": "billing",
        "state": "Stable",
        "assignmentStrategy": "range",
        "coordinator": 1,
        "members": [
            {
                "consumerId": "static-id",
                "groupInstanceId": "worker-1",
                "host": "/10.0.0.1",
                "clientId": "static",
                "assignment": [
                    {"topic": "orders", "partition": 1},
                    {"topic": "orders", "partition": 0},
                    {"topic": "small", "partition": 0},
                ],
            }
        ],
    }


def test_what_is_said_of_a_state() -> None:
    assert group_view.remark(group(state="Stable")) is None
    assert "no active members" in (group_view.remark(group(state="Empty")) or "")
    assert "rebalancing" in (group_view.remark(group(state="PreparingRebalance")) or "")
    assert group_view.does_not_exist(group(state="Dead"))
