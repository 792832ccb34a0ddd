"""What a follower has and its leader never had is cut off, and nothing else."""

import pytest

from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run


def plant(brokers: Brokers, broker_id: int, epoch: int, *values: bytes) -> None:
    """Records that this broker has alone."""
    log = brokers.up[broker_id].replica().log
    log.append_as_leader(memoryview(bytearray(brokers.kit.batch(*values))), epoch, 1)


def test_a_follower_cuts_off_what_its_leader_never_had(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"one", b"two")
        await brokers.part()
        plant(brokers, 3, 1, b"never", b"acknowledged", b"anywhere")
        assert brokers.ends() == {1: 2, 2: 2, 3: 5}
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"three")
        await brokers.equal(3)
        assert [m.replica().log.last_epoch for m in brokers.up.values()] == [3, 3, 3]

    run(brokers, scenario)


def test_histories_that_part_more_than_once(brokers: Brokers) -> None:
    """Two unclean reigns on one side, one on the other: found in steps (KIP-279)."""

    async def scenario() -> None:
        await brokers.begin_with(b"one", b"two")
        await brokers.part()
        plant(brokers, 1, 3, b"a")
        plant(brokers, 1, 6, b"b")
        plant(brokers, 3, 4, b"x", b"y", b"z")
        plant(brokers, 3, 5, b"v", b"w")
        plant(brokers, 2, 2, b"q")
        brokers.epoch = 6
        brokers.lead(1)
        await brokers.settled(1)
        await brokers.produce(1, b"c")
        await brokers.equal(5)
        assert {m.replica().log.last_epoch for m in brokers.up.values()} == {7}

    run(brokers, scenario)


def test_nothing_is_cut_off_below_the_high_watermark(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that lacks acknowledged records must not make others lose them too."""

    async def scenario() -> None:
        await brokers.begin_with(b"one", b"two")
        await brokers.all_know_high_watermark(2)
        await brokers.part()
        faulty = brokers.up[1].replica()
        await faulty.log.truncate_to(0, 1)
        faulty.high_watermark = 0
        brokers.lead(1, isr=(1,))
        await brokers.settled(1)
        following = brokers.up[3].replica().following
        assert following is not None
        await brokers.eventually(lambda: following.is_over)
        assert brokers.ends()[3] == 2
        assert "epoch" in following.why_over
        await brokers.eventually(lambda: brokers.status(3).halted_replicas)
        (told,) = brokers.status(3).halted_replicas
        assert (told.leader_epoch, told.log_end_offset, told.high_watermark) == (3, 2, 2)
        # The right leader ends it.
        await brokers.stop(1)
        brokers.fence(1)
        brokers.lead(2, isr=(2, 3))
        await brokers.settled(2)
        await brokers.produce(2, b"three")
        await brokers.equal(3)
        await brokers.eventually(lambda: not brokers.status(3).halted_replicas)

    run(brokers, scenario)
    assert any(record.message == "follower_halted" for record in caplog.records)


def test_an_accepted_loss_is_cut_off_everywhere(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a replica was away while it was accepted, and led by others since."""

    async def scenario() -> None:
        await brokers.begin_with(b"one", b"two")
        await brokers.all_know_high_watermark(2)
        await brokers.stop(3)
        brokers.fence(3)
        await brokers.part()
        left = brokers.up[1].replica()
        await left.log.truncate_to(0, 1)
        left.high_watermark = 0
        brokers.lead(1, isr=(1,), unclean=True)
        await brokers.settled(1)
        await brokers.produce(1, b"three")
        await brokers.equal(1)
        brokers.lead(2, isr=(1, 2))
        await brokers.start(3)
        brokers.lead(2, isr=(1, 2))
        await brokers.settled(2)
        await brokers.equal(1)
        assert not any(brokers.status(one).halted_replicas for one in ALL)

    run(brokers, scenario)
    cut = [one for one in caplog.records if one.message == "acknowledged_records_cut_off"]
    assert len(cut) == 2
