"""The negative control: the checkers must report violations that are planted in a run's history.

Without it, "nothing lost" could mean that the checkers see nothing. So each real history is judged
once more with three planted violations: a lost record, a record stored twice, and an offset with
two values. The groups' history gets a forgotten commit, a skipped record and a group without
progress, and that of transactions what `spoiled_transactions` says.
"""

from dataclasses import replace
from math import inf

from e2e.chaos.group_checkers import (
    GROUP_SKIPPED,
    NO_GROUP_PROGRESS,
    OFFSET_REGRESSION,
    check_groups,
)
from e2e.chaos.group_history import Found, GroupHistory, Place, Processed
from e2e.sim.checkers import check
from e2e.sim.history import Event, History, Kind
from e2e.sim.transactions.history import CommittedOffset, Initialized, Piece, Stable, Transaction

MUST_BE_SEEN = frozenset({"lost-write", "duplicate", "inconsistent-offsets"})
MUST_BE_SEEN_OF_GROUPS = frozenset({OFFSET_REGRESSION, GROUP_SKIPPED, NO_GROUP_PROGRESS})
MUST_BE_SEEN_OF_TRANSACTIONS = frozenset(
    {
        "aborted-read",
        "torn-transaction",
        "lost-transaction",
        "doubled-record",
        "unlike-final",
        "stable-offset-back",
        "zombie-committed",
        "lost-offset",
        "poll-skip",
    }
)


def missed(history: History) -> frozenset[str]:
    """The planted violations that the checkers do not report; empty if they report all."""
    return MUST_BE_SEEN - {one.name for one in check(spoiled(history))}


def spoiled(history: History) -> History:
    """The history with a lost, a duplicate and a two-valued record in one partition.

    Raises `ValueError` if no partition has three acknowledged records.
    """
    acked = {one.value: one for one in history.events if one.kind is Kind.ACKED}
    for partition, stored in history.final.items():
        stored_acked = [pair for pair in stored if pair[1] in acked]
        if len(stored_acked) >= 3:
            lost, twice, two_valued = stored_acked[0], stored_acked[1], stored_acked[-1]
            kept = [pair for pair in stored if pair != lost]
            duplicate = (history.ends[partition], twice[1])
            return replace(
                history,
                final={**history.final, partition: [*kept, duplicate]},
                events=[*history.events, another_value(acked[two_valued[1]])],
            )
    raise ValueError("no partition has three acknowledged records: nothing can be planted")


def another_value(acked: Event) -> Event:
    """The event that a reader saw another value at the offset of an acknowledged record."""
    return replace(acked, kind=Kind.READ, client="planted", value=f"not {acked.value}")


def missed_of_groups(groups: GroupHistory, records: History) -> frozenset[str]:
    """As `missed`, for the violations planted in the history of the groups."""
    planted = spoiled_groups(groups, records)
    return MUST_BE_SEEN_OF_GROUPS - {one.name for one in check_groups(planted, records)}


def spoiled_groups(groups: GroupHistory, records: History) -> GroupHistory:
    """The groups' history with all three violations planted in one partition of one group.

    Raises `ValueError` if no group has committed an offset above a stored record.
    """
    for place, end in groups.furthest().items():
        below = [offset for offset, _ in records.final.get(place.partition, ()) if offset < end]
        if below:
            # An answer after everything else that is lower than the acknowledged commit.
            forgotten = Found(float("inf"), place, end - 1, "planted")
            kept = (part for one in groups.processed for part in without(one, place, below[-1]))
            return replace(
                groups,
                # Without the unanswered commits, which would excuse the lower offset.
                commits=[one for one in groups.commits if one.is_acknowledged],
                found=[*groups.found, forgotten],
                processed=[*kept],
                final={**groups.final, place: records.ends[place.partition] - 1},
            )
    raise ValueError("no group committed anything that is there: nothing can be planted")


def without(one: Processed, place: Place, offset: int) -> tuple[Processed, ...]:
    """The processed range without this offset: the range itself, or the parts before and after
    it."""
    if one.place != place or not one.first <= offset <= one.last:
        return (one,)
    parts = one._replace(last=offset - 1), one._replace(first=offset + 1)
    return tuple(part for part in parts if part.first <= part.last)


def missed_of_transactions(history: History) -> frozenset[str]:
    """As `missed`, for the violations planted in the history of transactions."""
    planted = spoiled_transactions(history)
    return MUST_BE_SEEN_OF_TRANSACTIONS - {one.name for one in check(planted)}


def spoiled_transactions(history: History) -> History:
    """The history with violations of all guarantees of transactions.

    A committed transaction lacks one of its records and has another one twice, and its process had
    been fenced; a record of an aborted one was read as committed; a last stable offset and a
    committed offset went back; and a reader of all records skipped one.

    Raises `ValueError` if no transaction is committed with two records or more, none with an
    offset, or none is aborted.
    """
    noted = history.transactions
    whole = next((one for one in noted.transactions if is_whole(one, history)), None)
    aborted = next((one for one in noted.transactions if one.is_aborted and one.records), None)
    offset = next((one for one in noted.transactions if one.is_committed and one.offset > 0), None)
    if whole is None or aborted is None or offset is None:
        raise ValueError("too few transactions have ended: nothing can be planted")
    partition, (lost, *_) = next(iter(whole.records.items()))
    *_, twice = [*whole.records.values()][-1]
    last_partition = [*whole.records][-1]
    final = {one: [pair for pair in found if pair[1] != lost] for one, found in noted.final.items()}
    end = history.ends[last_partition]
    final[last_partition].append((end, twice))
    never = next(values[0] for values in aborted.records.values())
    return replace(
        history,
        events=[*history.events, *skipping(history, partition, lost)],
        transactions=replace(
            noted,
            final=final,
            pieces=[
                *noted.pieces,
                Piece(inf, "planted", partition, end, end + 1, ((end, never),), -1, -1),
            ],
            stables=[*noted.stables, *(Stable(inf, "planted", partition, one) for one in (2, 1))],
            initialized=[*noted.initialized, fencing(whole)],
            offsets=[
                *noted.offsets,
                CommittedOffset(inf, inf, offset.transactional_id, -1, ""),
            ],
        ),
    )


def is_whole(one: Transaction, history: History) -> bool:
    """Whether it is committed with two records or more, which all are there."""
    stored = {value for found in history.transactions.final.values() for _, value in found}
    values = [value for some in one.records.values() for value in some]
    return one.is_committed and len(values) > 1 and stored.issuperset(values)


def fencing(one: Transaction) -> Initialized:
    """The beginning of another process between the transaction's beginning and its commit."""
    at_s = one.began_s
    return Initialized(at_s, at_s, one.transactional_id, "planted", -1, -1, is_new=True)


def skipping(history: History, partition: str, value: str) -> list[Event]:
    """The events of a reader of all records that got what is beside this one, and not it."""
    offset = next(at for at, found in history.final[partition] if found == value)
    return [
        Event(inf, Kind.SOUGHT, "planted", partition, offset=offset),
        Event(inf, Kind.READ, "planted", partition, f"not {value}", offset + 1),
    ]
