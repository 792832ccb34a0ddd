"""Leader epochs: the questions replicas ask each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.storage.epochs import EpochEnd, EpochHistory, EpochStart, decode_epochs


def history(*entries: tuple[int, int]) -> EpochHistory:
    return EpochHistory(EpochStart(*entry) for entry in entries)


def test_an_epoch_ends_where_the_next_begins() -> None:
    epochs = history((2, 10), (4, 30), (7, 50))
    assert epochs.end_offset_for(7, 60) == EpochEnd(7, 60)
    assert epochs.end_offset_for(4, 60) == EpochEnd(4, 50)
    assert epochs.end_offset_for(5, 60) == EpochEnd(4, 50)
    assert epochs.end_offset_for(2, 60) == EpochEnd(2, 30)


def test_what_the_history_cannot_say() -> None:
    epochs = history((2, 10), (4, 30))
    assert epochs.end_offset_for(-1, 60) == (-1, -1)
    assert epochs.end_offset_for(5, 60) == (-1, -1)
    assert history().end_offset_for(0, 0) == (-1, -1)
    # Before the first known epoch: its records are gone, what is left starts there.
    assert epochs.end_offset_for(1, 60) == EpochEnd(1, 10)


def test_known_epochs_keep_their_start() -> None:
    epochs = history((2, 10))
    epochs.assign(2, 40)
    epochs.assign(1, 40)
    assert epochs.entries == ((2, 10),)
    assert epochs.version == 0


def test_an_epoch_that_wrote_nothing_gives_way() -> None:
    epochs = history((2, 10), (3, 40))
    epochs.assign(4, 40)
    assert epochs.entries == ((2, 10), (4, 40))


@pytest.mark.parametrize(
    ("end", "left"), [(61, 3), (60, 3), (50, 2), (49, 2), (30, 1), (10, 0), (0, 0)]
)
def test_truncation_drops_epochs_from_its_offset_on(end: int, left: int) -> None:
    """Also when no bytes go: an epoch that began at the log end is dropped."""
    epochs = history((2, 10), (4, 30), (7, 50))
    epochs.truncate_end(end)
    assert len(epochs.entries) == left
    assert epochs.last_epoch == (epochs.entries[-1].epoch if left else -1)


def test_the_epoch_in_force_at_the_log_start_is_kept() -> None:
    epochs = history((2, 10), (4, 30), (7, 50))
    epochs.truncate_start(35)
    assert epochs.encode() == b"0\n2\n4 35\n7 50\n"
    epochs.truncate_start(50)
    assert epochs.encode() == b"0\n1\n7 50\n"
    version = epochs.version
    epochs.truncate_start(50)
    epochs.truncate_start(20)
    assert epochs.version == version


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=12), st.data())
def test_every_offset_has_the_epoch_it_was_written_under(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    epochs, epoch = EpochHistory(), 0
    written: list[int] = []
    for step, count in steps:
        epoch += step
        epochs.assign(epoch, len(written))
        written += [epoch] * count
        if data.draw(st.booleans()):
            cut = data.draw(st.integers(0, len(written)))
            del written[cut:]
            epochs.truncate_end(cut)
    assert [epochs.epoch_at(offset) for offset in range(len(written))] == written
    assert decode_epochs(epochs.encode()).entries == epochs.entries
    for asked in range(epoch + 1):
        found = epochs.end_offset_for(asked, len(written))
        if asked in written:
            last = len(written) - 1 - written[::-1].index(asked)
            assert found == EpochEnd(asked, last + 1)
