"""Consumer groups with four libraries: members share partitions and continue after a restart."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from e2e.clients.first_hour.lesson import Lesson, NewTopic, Place, Start
from e2e.clients.group_member import GroupMember, have_read, wait_shared, wait_until
from e2e.clients.group_members import MEMBERS, CooperativeMember, KafkaPythonMember

RECORDS = 200


def in_every_library(task: Callable[[type[GroupMember]], None]) -> None:
    """Run the task with each kind of member, at the same time, since members mostly wait.

    Raises an `ExceptionGroup` of the failures, each with a note that names the library.
    """
    with ThreadPoolExecutor(len(MEMBERS)) as pool:
        running = [(kind, pool.submit(task, kind)) for kind in MEMBERS]
    failed: list[Exception] = []
    for kind, one in running:
        error = one.exception()
        if isinstance(error, Exception):
            error.add_note(f"library: {kind.name}")
            failed.append(error)
    if failed:
        raise ExceptionGroup("the task failed with some libraries", failed)


class TestGroups(Lesson):
    """Groups with the members of `MEMBERS`: threads of this process, Java's in its own process."""

    def test_a_member_that_comes_back_goes_on_where_it_was(
        self, place: Place, new_topic: NewTopic, start: Start
    ) -> None:
        def comes_back(kind: type[GroupMember]) -> None:
            topic = new_topic(4, f"hour-comes-back-{kind.slug()}")
            place.produce(topic, RECORDS)
            first = start(kind, topic, topic)
            have_read([first], RECORDS)
            first.stop()
            place.produce(topic, RECORDS)
            second = start(kind, topic, topic)
            have_read([second], RECORDS)
            read = [*first.read, *second.read]
            assert len(read) == len(set(read)) == 2 * RECORDS, "nothing twice, nothing left out"

        in_every_library(comes_back)

    def test_partitions_are_assigned_again_as_members_come_and_go(
        self, new_topic: NewTopic, start: Start
    ) -> None:
        def shares(kind: type[GroupMember]) -> None:
            topic = new_topic(4, f"hour-shares-{kind.slug()}")
            members = [start(kind, topic, topic) for _ in range(2)]
            wait_shared(members, [2, 2])
            members.append(start(kind, topic, topic))
            wait_shared(members, [2, 1, 1])
            members.pop(0).stop()
            wait_shared(members, [2, 2])

        in_every_library(shares)

    def test_members_beyond_the_partitions_rest(self, new_topic: NewTopic, start: Start) -> None:
        topic = new_topic(8)
        members = [start(KafkaPythonMember, topic, topic) for _ in range(10)]

        def most_have_one() -> bool:
            owned = sorted(len(one.assigned or ()) for one in members)
            return owned == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]

        wait_until("eight have one each", members, most_have_one)

    def test_groups_do_not_know_of_each_other(
        self, place: Place, new_topic: NewTopic, start: Start
    ) -> None:
        topic = new_topic(2)
        place.produce(topic, RECORDS)
        members = [
            start(KafkaPythonMember, f"{topic}-first", topic),
            start(CooperativeMember, f"{topic}-second", topic),
        ]
        for one in members:
            have_read([one], RECORDS)
            assert len(set(one.read)) == len(one.read) == RECORDS
