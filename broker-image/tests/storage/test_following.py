"""A follower's log under its leader's answers, on a disk that can lose power."""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.partitions import following
from chiplog_broker.partitions.follow_steps import FetchedPartition, FetchPosition
from chiplog_broker.partitions.following import Contact, Taken
from chiplog_broker.storage.config import Durability, LogConfig
from chiplog_broker.storage.names import EPOCH_CHECKPOINT
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import EpochEndOffset, FetchPartitionResponse
from tests.storage.follower import EPOCH, LAG_MAX_S, Follower, follower_of

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

Scenario = Callable[[Follower], Any]


@pytest.fixture
def run(kit: "StorageKit", make_batch: "MakeBatch") -> Callable[[Scenario], None]:
    async def running(scenario: Scenario) -> None:
        _, log = await kit.new_log()
        async with follower_of(kit, make_batch, log) as one:
            await scenario(one)

    def run(scenario: Scenario) -> None:
        kit.run(running(scenario))

    return run


Run = Callable[[Scenario], None]


def test_only_durable_records_are_acknowledged_by_a_fetch(run: Run, kit: "StorageKit") -> None:
    async def scenario(one: Follower) -> None:
        assert one.following.position() == FetchPosition(0, -1, EPOCH, 0)
        assert await one.give(one.batch(0, b"a", b"b")) is Taken.PROGRESS
        assert one.log.end_offset == 2
        assert one.following.position() is None, "the sync has only begun"
        assert one.following.is_syncing
        assert await one.position() == FetchPosition(2, EPOCH, EPOCH, 0)
        kit.cut_power()

    run(scenario)
    assert kit.run(kit.reopened()).end_offset == 2


def test_below_the_leaders_high_watermark_a_fetch_need_not_be_durable(
    run: Run, kit: "StorageKit"
) -> None:
    """It acknowledges nothing: the leader counts only replicas that reach the high watermark."""

    async def scenario(one: Follower) -> None:
        assert await one.give(one.batch(0, b"a"), high_watermark=2) is Taken.PROGRESS
        assert one.following.position() == FetchPosition(1, EPOCH, EPOCH, 0)
        assert (one.following.is_syncing, one.log.durable_end_offset) == (True, 0)
        assert await one.give(one.batch(1, b"b"), high_watermark=2) is Taken.PROGRESS
        assert one.following.position() is None, "a fetch from here counts"
        assert await one.position() == FetchPosition(2, EPOCH, EPOCH, 0)
        kit.cut_power()

    run(scenario)
    assert kit.run(kit.reopened()).end_offset == 2


def test_no_more_is_fetched_than_the_disk_can_sync(
    run: Run, kit: "StorageKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each sync takes longer than the one before, and so more is written during it."""
    monkeypatch.setattr(following, "MOST_UNSYNCED_BYTES", 1_000)
    may_sync = asyncio.Event()

    async def slowly(_: str) -> None:
        await may_sync.wait()

    async def scenario(one: Follower) -> None:
        kit.disk.device = slowly
        fetched = 0
        while one.following.position() is not None and fetched < 100:
            await one.give(one.batch(fetched, bytes(100)), high_watermark=200)
            fetched += 1
        may_sync.set()
        assert 1_000 <= one.log.size_bytes <= 1_200
        assert await one.position() == FetchPosition(fetched, EPOCH, EPOCH, 0)

    run(scenario)


def test_the_high_watermark_of_another_leader_epoch_does_not_replace_a_sync(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a"), high_watermark=2)
        await one.begin(EPOCH + 1)
        one.log.append_as_follower(memoryview(one.batch(one.log.end_offset, b"b")), EPOCH, 0)
        assert one.following.position() is None

    run(scenario)


def test_records_are_removed_during_their_sync(run: Run, kit: "StorageKit") -> None:
    """That is no failure, which would take the replica offline."""

    async def slowly(path: str) -> None:
        for _ in range(100 if path.endswith(".log") else 1):
            await asyncio.sleep(0)

    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a"))
        await one.position()
        kit.disk.device = slowly
        assert await one.give(one.batch(1, b"b"), high_watermark=3) is Taken.PROGRESS
        assert one.following.is_syncing
        code = ErrorCode.offset_out_of_range
        assert await one.give(error_code=code, log_start_offset=7) is Taken.PROGRESS
        assert (one.log.log_start_offset, one.log.end_offset) == (7, 7)
        assert await one.position() == FetchPosition(7, -1, EPOCH, 7)
        assert await one.give(one.batch(7, b"c"), high_watermark=8) is Taken.PROGRESS
        assert await one.position() == FetchPosition(8, EPOCH, EPOCH, 7)
        kit.cut_power()

    run(scenario)
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset) == (7, 8)


def test_a_sync_that_waits_for_room_holds_up_no_removal_of_records(
    run: Run, kit: "StorageKit"
) -> None:
    """The removal may make the room. And waiting here would hold up all other partitions that are
    fetched from this leader."""

    def fill_again() -> None:
        kit.disk.fail_next("replace", errno.ENOSPC, EPOCH_CHECKPOINT, fill_again)

    async def scenario(one: Follower) -> None:
        fill_again()
        assert await one.give(one.batch(0, b"a"), high_watermark=3) is Taken.PROGRESS
        code = ErrorCode.offset_out_of_range
        taking = asyncio.ensure_future(one.give(error_code=code, log_start_offset=7))
        for _ in range(1_000):
            await asyncio.sleep(0)
        is_held_up = not taking.done()
        kit.disk.fail_no_more()
        await taking
        assert not is_held_up
        assert await one.position() == FetchPosition(7, -1, EPOCH, 7)

    run(scenario)


def test_the_page_cache_is_enough_where_the_topic_says_so(run: Run, kit: "StorageKit") -> None:
    kit.config = LogConfig(durability=Durability.PAGE_CACHE)

    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a"))
        await one.position()  # the epoch's beginning is made durable once
        await one.give(one.batch(1, b"b"))
        assert one.following.position() == FetchPosition(2, EPOCH, EPOCH, 0)
        assert one.log.durable_end_offset < 2

    run(scenario)


def test_a_caller_that_waits_for_a_sync_is_notified(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        contact = Contact()
        one.following.use_contact(contact)
        await one.give(one.batch(0, b"a"))
        await contact.news.wait()
        assert one.following.position() is not None

    run(scenario)


def test_the_high_watermark_is_the_leaders_as_far_as_we_are(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a", b"b"), high_watermark=9)
        assert (one.replica.high_watermark, one.following.lag) == (2, 7)
        assert await one.give(high_watermark=1) is Taken.NOTHING_NEW
        assert one.replica.high_watermark == 2, "it never goes back"

    run(scenario)


def test_answers_to_something_else_change_nothing(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        requested = await one.position()
        await one.give(one.batch(0, b"a"))
        late = FetchedPartition(requested, FetchPartitionResponse(0, 0, 5, records=b""))
        assert await one.following.take(late) is Taken.IGNORED
        await one.position()
        assert await one.following.take(late) is Taken.IGNORED
        position = await one.position()
        await one.following.stop()
        answer = FetchPartitionResponse(0, 0, 9, records=memoryview(one.batch(1, b"b")))
        assert await one.following.take(FetchedPartition(position, answer)) is Taken.IGNORED
        assert (one.log.end_offset, one.replica.high_watermark) == (1, 0)

    run(scenario)


def test_gaps_are_taken_where_the_leader_says_that_it_has_some(run: Run, kit: "StorageKit") -> None:
    """Whatever the topic's policy is now: it may have been compacted once."""

    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a"))
        assert await one.give(one.batch(3, b"d"), high_watermark=9) is Taken.FAILED
        gap = {"high_watermark": 9, "may_have_gaps": True}
        assert await one.give(one.batch(1, b"b"), **gap) is Taken.PROGRESS
        assert one.log.gap_end_offset == 0, "nothing is missing"
        gap["high_watermark"] = 4  # so that it waits for the sync
        assert await one.give(one.batch(3, b"d"), **gap) is Taken.PROGRESS
        assert one.log.gap_end_offset == 3
        assert await one.position() == FetchPosition(4, EPOCH, EPOCH, 0)
        assert await one.give(one.batch(2, b"c"), **gap) is Taken.FAILED
        assert one.log.end_offset == 4
        kit.cut_power()

    run(scenario)
    assert kit.run(kit.reopened()).end_offset == 4


@pytest.mark.parametrize("damage", ["gap", "again", "crc", "before", "after", "rest"])
def test_records_that_do_not_continue_the_log_are_not_taken(run: Run, damage: str) -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a"))
        good = one.batch(1, b"good")
        bad = {
            "gap": one.batch(3, b"b"),
            "crc": bytes(good[:-1]) + bytes([good[-1] ^ 1]),
            "again": one.batch(0, b"a"),
            "before": one.batch(1, b"b", epoch=EPOCH - 1),
            "after": one.batch(1, b"b", epoch=EPOCH + 1),
            "rest": good[:-1],
        }[damage]
        assert await one.give(bad, high_watermark=7) is Taken.FAILED
        assert (one.log.end_offset, one.replica.high_watermark) == (1, 0)
        assert await one.give(good) is Taken.PROGRESS
        assert one.log.end_offset == 2

    run(scenario)


def test_an_empty_log_does_not_insist_on_an_epoch(run: Run, kit: "StorageKit") -> None:
    """A bit of its history changed, so no leader's records would ever continue it."""

    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a"))
        await one.log.truncate_fully_and_start_at(1, 0)
        one.log.begin_epoch(7)
        await one.begin(9)
        records = one.batch(1, b"b") + one.batch(2, b"c", epoch=8)
        assert await one.give(records) is Taken.PROGRESS
        assert await one.position() == FetchPosition(3, 8, 9, 1)
        kit.cut_power()

    run(scenario)
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset, log.last_epoch) == (1, 3, 8)
    assert log.epoch_at(1) == EPOCH


def test_truncation_to_where_histories_part(run: Run, kit: "StorageKit") -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a", epoch=1) + one.batch(1, b"b", b"c", epoch=3))
        diverging = EpochEndOffset(1, 1)
        assert await one.give(diverging_epoch=diverging) is Taken.PROGRESS
        assert await one.position() == FetchPosition(1, 1, EPOCH, 0)
        await one.give(one.batch(1, b"d"))
        await one.position()
        kit.cut_power()

    run(scenario)
    log = kit.run(kit.reopened())
    assert (log.end_offset, log.last_epoch) == (2, EPOCH)


def test_a_halted_follower_takes_nothing_more(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a", epoch=1) + one.batch(1, b"b", epoch=3))
        await one.give(high_watermark=2)
        assert await one.give(diverging_epoch=EpochEndOffset(1, 1)) is Taken.OVER
        assert one.following.is_halted
        assert one.halted == ["halted"]
        assert one.following.position() is None
        assert one.log.end_offset == 2

    run(scenario)


def test_an_accepted_loss_goes_below_the_high_watermark(run: Run, kit: "StorageKit") -> None:
    async def scenario(one: Follower) -> None:
        await one.begin(3)
        await one.give(one.batch(0, b"a", epoch=1) + one.batch(1, b"b", epoch=3))
        await one.give(high_watermark=2)
        await one.begin(EPOCH, unclean_epoch=4)
        assert await one.give(diverging_epoch=EpochEndOffset(1, 1)) is Taken.PROGRESS
        assert (one.log.end_offset, one.replica.high_watermark) == (1, 1)
        assert await one.give(one.batch(1, b"c"), high_watermark=2) is Taken.PROGRESS
        assert one.replica.high_watermark == 2
        # What was agreed since is as safe as ever.
        assert await one.give(diverging_epoch=EpochEndOffset(1, 1)) is Taken.OVER
        assert (one.log.end_offset, one.halted) == (2, ["halted"])

    run(scenario)


def test_a_loss_accepted_before_what_was_agreed_since_allows_nothing(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        await one.begin(4, unclean_epoch=4)
        await one.give(one.batch(0, b"a", epoch=1) + one.batch(1, b"b", epoch=3))
        await one.give(high_watermark=2)
        await one.begin(EPOCH, unclean_epoch=4)
        assert await one.give(diverging_epoch=EpochEndOffset(1, 1)) is Taken.OVER
        assert (one.log.end_offset, one.halted) == (2, ["halted"])

    run(scenario)


def test_an_accepted_loss_of_everything(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        await one.begin(3)
        await one.give(one.batch(0, b"a", b"b", epoch=1), high_watermark=2)
        await one.begin(EPOCH, unclean_epoch=EPOCH)
        assert await one.give(diverging_epoch=EpochEndOffset(1, 0)) is Taken.PROGRESS
        assert (one.log.end_offset, one.replica.high_watermark) == (0, 0)
        assert await one.give(one.batch(0, b"c")) is Taken.PROGRESS

    run(scenario)


def test_a_high_watermark_does_not_outlive_its_records(run: Run, kit: "StorageKit") -> None:
    """Else a start after it would vouch for what comes in their place."""

    async def scenario(one: Follower) -> None:
        await one.begin(3)
        await one.give(one.batch(0, b"a", b"b", epoch=1), high_watermark=2)
        checkpoint = one.log._state.env.checkpoints.high_watermarks
        await checkpoint.put(one.log.partition, 2)
        await one.begin(EPOCH, unclean_epoch=EPOCH)
        await one.give(diverging_epoch=EpochEndOffset(1, 0))
        assert checkpoint.get(one.log.partition) == 0

    run(scenario)


def test_a_leader_whose_log_begins_later(run: Run, kit: "StorageKit") -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a", epoch=1), high_watermark=1)
        code = ErrorCode.offset_out_of_range
        taken = await one.give(error_code=code, high_watermark=-1, log_start_offset=100)
        assert taken is Taken.PROGRESS
        assert await one.position() == FetchPosition(100, -1, EPOCH, 100)
        assert one.replica.high_watermark == 100
        # Its log start lies within a batch, which comes whole.
        batch = one.batch(98, b"a", b"b", b"c", b"d")
        assert await one.give(batch, high_watermark=102, log_start_offset=100) is Taken.PROGRESS
        assert (one.log.log_start_offset, one.log.end_offset) == (100, 102)
        await one.position()
        kit.cut_power()

    run(scenario)
    log = kit.run(kit.reopened())
    assert (log.log_start_offset, log.end_offset) == (100, 102)


def test_the_log_start_follows_the_leaders_up_to_the_high_watermark(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a", b"b", b"c"), high_watermark=2, log_start_offset=3)
        assert one.log.log_start_offset == 2

    run(scenario)


def test_a_leadership_that_is_over_waits_for_metadata(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        assert await one.give(error_code=ErrorCode.fenced_leader_epoch) is Taken.OVER
        assert one.following.is_over
        assert not one.following.is_halted

    run(scenario)


def test_stop_waits_for_what_has_begun(run: Run) -> None:
    async def scenario(one: Follower) -> None:
        await one.give(one.batch(0, b"a", epoch=1))
        position = await one.position()
        code = ErrorCode.offset_out_of_range
        answer = FetchPartitionResponse(0, code, -1, log_start_offset=50)
        taking = asyncio.ensure_future(one.following.take(FetchedPartition(position, answer)))
        await asyncio.sleep(0)
        assert one.following.position() is None, "the log is being emptied"
        assert not taking.done()
        await one.following.stop()
        assert (one.log.log_start_offset, one.log.end_offset) == (50, 50)
        assert await taking is Taken.PROGRESS

    run(scenario)


def test_a_follower_that_waits_is_a_warning_only_when_it_lasts(
    run: Run, kit: "StorageKit", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(one: Follower) -> None:
        refusal = int(ErrorCode.not_leader_or_follower)
        for seconds in (0.0, LAG_MAX_S / 2, LAG_MAX_S, 1.0):
            kit.clock.time_ms += int(seconds * 1000)
            assert await one.give(error_code=refusal) is Taken.FAILED

    run(scenario)
    levels = [one.levelname for one in caplog.records if one.message == "follower_waits"]
    assert levels == ["INFO", "WARNING"]
