"""Converts options to ranges of offsets, and checks them against the offsets of the partitions."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from chiplog_spark.source.options import ENDING, PARTITIONS, STARTING, BadOption, Bound
from chiplog_spark.wire import errors
from chiplog_spark.wire.facts import EARLIEST, LATEST, TopicFacts
from chiplog_spark.wire.verdicts import LEADER, out_of_range


class Held(NamedTuple):
    """The offsets of a partition, from the log start offset to the end of what may be read: the
    last stable offset, or with `READ_UNCOMMITTED` the high watermark."""

    start: int
    end: int


class Range(NamedTuple):
    """Offsets of one partition to be read, from `start` to `end`, exclusive."""

    partition: int
    start: int
    end: int


def chosen(topic: TopicFacts, wanted: frozenset[int] | None, replica: int) -> list[int]:
    """The partitions to be read: the wanted ones (None for all) with a replica on broker `replica`.

    Raises `BadOption` if a wanted one does not exist, and `WireError` if the broker has no replica.
    """
    nonexistent = sorted((wanted or frozenset()) - set(topic.partitions))
    if nonexistent:
        count = len(topic.partitions)
        remedy = f"{topic.name} has partitions 0 to {count - 1}"
        raise BadOption(PARTITIONS, f"there is no partition {nonexistent[0]}", remedy)
    held = topic.held_by(replica)
    if replica != LEADER and not held:
        raise errors.ReplicaNotThere(
            f"broker {replica} has no replica of any partition",
            f"choose one of {', '.join(map(str, sorted(topic.brokers)))}, or replica=leader",
            topic.name,
        )
    return [index for index in held if wanted is None or index in wanted]


def places(option: str, bound: Bound, partitions: Iterable[int]) -> dict[int, int]:
    """Where to begin or end in each partition: `EARLIEST`, `LATEST` or an offset.

    `bound` is the parsed value of `option`. Raises `BadOption` unless it names every partition, as
    in Spark's Kafka source.
    """
    if isinstance(bound, int):
        return dict.fromkeys(partitions, bound)
    expected = set(partitions)
    for problem_of_each, wrong in (
        ("is missing", expected - set(bound)),
        ("is not read", set(bound) - expected),
    ):
        if wrong:
            known = ", ".join(map(str, sorted(expected)))
            problem = f"partition {min(wrong)} {problem_of_each}"
            raise BadOption(
                option, problem, f"give an offset for exactly the partitions that are read: {known}"
            )
    return dict(bound)


def ranges_between(
    topic: str, starts: Mapping[int, int], ends: Mapping[int, int], held: Mapping[int, Held]
) -> list[Range]:
    """The ranges of a batch read; `held` are the offsets that exist.

    Raises `OffsetOutOfRange` for an offset that does not exist, and `BadOption` for a range that
    ends before it starts.
    """
    found = []
    for partition in sorted(starts):
        held_here = held[partition]
        start, end = (resolved(offsets[partition], held_here) for offsets in (starts, ends))
        for offset in (start, end):
            if not held_here.start <= offset <= held_here.end:
                bounds = f": offsets {held_here.start} to {held_here.end} can be read"
                raise out_of_range(offset, topic, partition, bounds)
        if start > end:
            what = f"partition {partition} would be read from {start} back to {end}"
            raise BadOption(ENDING, what, f"set it to at least {STARTING}")
        found.append(Range(partition, start, end))
    return found


def resolved(place: int, held: Held) -> int:
    """The offset for a position: `EARLIEST`, `LATEST`, or the offset itself."""
    return {EARLIEST: held.start, LATEST: held.end}.get(place, place)


def ranges_of_stream(
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    log_starts: Mapping[int, int],
    *,
    fails_on_data_loss: bool,
) -> list[Range]:
    """The ranges of one trigger of a stream; new partitions begin at their log start offset.

    If records were deleted before they were read, this raises `OffsetOutOfRange`, or skips them
    without `fails_on_data_loss`.
    """
    found = []
    for partition in sorted(ends):
        end, log_start = ends[partition], log_starts[partition]
        start = starts.get(partition, log_start)
        # If everything up to `end` was deleted, the log starts after it.
        if start < min(log_start, end):
            if fails_on_data_loss:
                raise lost_error(start, log_start, topic, partition)
            start = min(log_start, end)
        if start < end:
            found.append(Range(partition, start, end))
    return found


def lost_error(offset: int, log_start: int, topic: str, partition: int) -> errors.OffsetOutOfRange:
    """The error for records from `offset` on that were deleted before they were read."""
    return errors.OffsetOutOfRange(
        f"records from offset {offset} on were deleted; the log now starts at {log_start}",
        "raise the topic's retention, or set failOnDataLoss=false to continue from there",
        topic,
        partition,
    )


def ends_of_trigger(
    topic: str, starts: Mapping[int, int], held: Mapping[int, Held], max_records: int | None
) -> dict[int, int]:
    """The end offsets of the next trigger of a stream, which begins at `starts`.

    At most `max_records` offsets (None for no limit) are distributed to the partitions in
    proportion to their lag. Raises `OffsetOutOfRange` if a partition now ends below the offset up
    to which it was read, and `UnknownTopic` if one does not exist any more.
    """
    begins = {index: max(starts.get(index, bounds.start), 0) for index, bounds in held.items()}
    for index, bounds in held.items():
        if begins[index] > bounds.end:
            raise errors.OffsetOutOfRange(
                f"it was read up to {begins[index]}, but now it ends at {bounds.end}",
                "if the topic was deleted and created again, start with a new checkpoint",
                topic,
                index,
            )
    missing = sorted(set(starts) - set(held))
    if missing:
        remedy = "if the topic was deleted and created again, start with a new checkpoint"
        raise errors.UnknownTopic(
            "the partition does not exist any more", remedy, topic, missing[0]
        )
    lags = {
        index: bounds.end - max(begins[index], bounds.start)
        for index, bounds in held.items()
        if bounds.end > begins[index]
    }
    ends = {index: begins[index] for index in held}
    limit = sum(lags.values()) if max_records is None else max_records
    shares = shared_out(limit, lags)
    for index, share in shares.items():
        ends[index] = max(begins[index], held[index].start) + share
    return ends


def shared_out(limit: int, lags: Mapping[int, int]) -> dict[int, int]:
    """Distribute at most `limit` offsets to the partitions, in proportion to their lags.

    The shares add up to the limit, or to all lags if they are less.
    """
    total = sum(lags.values())
    if total <= limit:
        return dict(lags)
    shares = {index: lag * limit // total for index, lag in lags.items()}
    remainder = limit - sum(shares.values())
    # Rounding leaves less than one offset per partition: those with the most unread get one each.
    for index in sorted(lags, key=lambda index: (shares[index] - lags[index], index)):
        more = min(remainder, lags[index] - shares[index], 1)
        shares[index] += more
        remainder -= more
    return shares
