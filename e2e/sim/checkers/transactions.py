"""Transactions: all or nothing, once, for good, in their order, and never by a fenced producer."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import inf
from typing import Final

from e2e.sim.checkers.anomaly import Anomaly, Checker
from e2e.sim.history import History
from e2e.sim.transactions.history import CommittedOffset, Given, Initialized, Transaction


def of_records(history: History) -> dict[str, Transaction]:
    """Value of each record -> its transaction."""
    return {
        value: one
        for one in history.transactions.transactions
        for values in one.records.values()
        for value in values
    }


def _all_read(history: History) -> Iterator[tuple[str, int, str, str]]:
    """(partition, offset, value, reader) of each record that a reader of committed records got."""
    noted = history.transactions
    for piece in noted.pieces:
        for offset, value in piece.records:
            yield piece.partition, offset, value, piece.reader
    for partition, found in sorted(noted.final.items()):
        for offset, value in found:
            yield partition, offset, value, "the last reader"


def aborted_read(history: History) -> Iterator[Anomaly]:
    """A reader of committed records got a record whose producer never asked to commit it, or to
    which nobody sent it."""
    owners, seen = of_records(history), set[tuple[str, int]]()
    for partition, offset, value, who in _all_read(history):
        owner = owners.get(value)
        if (owner is None or owner.commit_asked_s == inf) and (partition, offset) not in seen:
            seen.add((partition, offset))
            if owner is None or not owner.may_get_late_requests:
                yield Anomaly("aborted-read", partition, f"{who} read {value} at {offset}")


def _by_partition(history: History) -> dict[str, set[str]]:
    """Partition -> the values that were committed in the end; without those that were not read."""
    final = history.transactions.final
    return {partition: {value for _, value in found} for partition, found in final.items()}


def _found_and_missing(one: Transaction, final: dict[str, set[str]]) -> tuple[list[str], list[str]]:
    """The values of a transaction that are there in the end, and those that are not."""
    found: list[str] = []
    missing: list[str] = []
    for partition, values in one.records.items():
        if partition in final:
            for value in values:
                (found if value in final[partition] else missing).append(value)
    return found, missing


def lost_transaction(history: History) -> Iterator[Anomaly]:
    """Records are missing of a transaction whose commit was acknowledged."""
    final = _by_partition(history)
    for one in history.transactions.transactions:
        _, missing = _found_and_missing(one, final)
        if one.is_committed and missing and not one.may_get_late_requests:
            what = f"{one.name} was committed, and {len(missing)} records are missing"
            yield Anomaly("lost-transaction", one.transactional_id, f"{what}: {missing[0]}")


def torn_transaction(history: History) -> Iterator[Anomaly]:
    """Some records of a transaction are there, others not."""
    final = _by_partition(history)
    for one in history.transactions.transactions:
        found, missing = _found_and_missing(one, final)
        if found and missing and not one.may_get_late_requests:
            yield Anomaly(
                "torn-transaction", one.transactional_id, f"{found[0]} and not {missing[0]}"
            )


def doubled_record(history: History) -> Iterator[Anomaly]:
    """A committed record is at two offsets."""
    for partition, found in sorted(history.transactions.final.items()):
        at: dict[str, int] = {}
        for offset, value in found:
            if at.setdefault(value, offset) != offset:
                yield Anomaly("doubled-record", partition, f"{value} at {at[value]} and {offset}")


def unlike_final(history: History) -> Iterator[Anomaly]:
    """A reader got other records of a range of offsets than those that are committed there in the
    end: too early ones, or it missed some."""
    for piece in history.transactions.pieces:
        final = history.transactions.final.get(piece.partition)
        if final is None:
            continue
        begin, end = (bisect_left(final, (one,)) for one in (piece.from_offset, piece.to_offset))
        expected = final[begin:end]
        if expected != list(piece.records):
            more = sorted(set(piece.records) - set(expected))
            less = sorted(set(expected) - set(piece.records))
            what = f"{piece.reader} read {more[:2]} and missed {less[:2]}"
            yield Anomaly("unlike-final", piece.partition, f"{what}, t={piece.at_s:.3f}")


def stable_offset_wrong(history: History) -> Iterator[Anomaly]:
    """A last stable offset is above the high watermark, below a record that was read, or lower
    than before."""
    furthest: dict[tuple[str, str], int] = {}
    for piece in history.transactions.pieces:
        if piece.stable < 0:
            continue
        if piece.stable > piece.high_watermark or piece.to_offset > piece.stable:
            what = f"{piece.reader} read up to {piece.to_offset}, the last stable offset was "
            what += f"{piece.stable}, the high watermark {piece.high_watermark}"
            yield Anomaly("stable-offset-wrong", piece.partition, what)
    for one in history.transactions.stables:
        key = one.reader, one.partition
        if one.offset < furthest.get(key, 0):
            what = f"{one.reader} got {one.offset} after {furthest[key]}, t={one.at_s:.3f}"
            yield Anomaly("stable-offset-back", one.partition, what)
        furthest[key] = max(furthest.get(key, 0), one.offset)


def transactions_reordered(history: History) -> Iterator[Anomaly]:
    """Records of one process's transactions are in another order than it sent them."""
    order = {
        value: (one.process, place, index)
        for place, one in enumerate(history.transactions.transactions)
        for values in one.records.values()
        for index, value in enumerate(values)
    }
    for partition, found in sorted(history.transactions.final.items()):
        last: dict[str, tuple[int, int]] = {}
        for offset, value in found:
            if value not in order:
                continue
            process, place, index = order[value]
            if (place, index) < last.get(process, (-1, -1)):
                yield Anomaly("transactions-reordered", partition, f"{value} at {offset}")
            last[process] = place, index


def zombie_committed(history: History) -> Iterator[Anomaly]:
    """A process asked for a commit after another one had taken its transactional id, and the
    transaction was committed."""
    noted, final = history.transactions, _by_partition(history)
    fences: defaultdict[str, list[Initialized]] = defaultdict(list)
    for init in noted.initialized:
        if init.is_new:
            fences[init.transactional_id].append(init)
    for one in noted.transactions:
        if one.commit_asked_s == inf:
            continue
        later = [
            init
            for init in fences[one.transactional_id]
            if init.process != one.process and one.began_s <= init.at_s < one.commit_asked_s
        ]
        found, _ = _found_and_missing(one, final)
        if later and (one.is_committed or found):
            what = f"{one.name} after {later[0].process} at t={later[0].at_s:.3f}"
            yield Anomaly("zombie-committed", one.transactional_id, what)


def wrong_offset(history: History) -> Iterator[Anomaly]:
    """A stable offset of a group comes from a transaction that did not commit it, is older than one
    that was committed before, or is not committed like the records of its transaction."""
    final = _by_partition(history)
    by_name = {one.name: one for one in history.transactions.transactions}
    for found in history.transactions.offsets:
        one = by_name.get(found.name)
        if found.offset < 0 or (one is not None and one.may_get_late_requests):
            continue
        if one is None or one.offset != found.offset or one.commit_asked_s > found.at_s:
            what = f"offset {found.offset} of {found.name}, t={found.at_s:.3f}"
            yield Anomaly("aborted-offset", found.transactional_id, what)
        elif one.records and _found_and_missing(one, final)[1]:
            what = f"offset {found.offset} of {found.name} is committed, its records are not"
            yield Anomaly("torn-transaction", found.transactional_id, what)
    yield from _lost_offsets(history, final)


def _lost_offsets(history: History, final: dict[str, set[str]]) -> Iterator[Anomaly]:
    """A stable offset is lower than one of a transaction that was committed before."""
    for found in history.transactions.offsets:
        before = [
            one
            for one in history.transactions.transactions
            if one.transactional_id == found.transactional_id
            and one.offset > found.offset
            and one.ended_s < found.asked_s
            and one.is_committed
            and not one.may_get_late_requests
        ]
        if before:
            what = f"{found.offset} although {before[-1].name} committed {before[-1].offset}"
            yield Anomaly("lost-offset", found.transactional_id, f"{what}, t={found.at_s:.3f}")
    for last in history.transactions.last_offsets.values():
        yield from _unlike_records(history, final, last)


def _unlike_records(
    history: History, final: dict[str, set[str]], last: CommittedOffset
) -> Iterator[Anomaly]:
    """In the end, records are committed of a transaction with a higher offset than the last."""
    for one in history.transactions.transactions:
        is_later = one.transactional_id == last.transactional_id and one.offset > last.offset
        if is_later and not one.may_get_late_requests and _found_and_missing(one, final)[0]:
            what = f"records of {one.name} are committed, its offset {one.offset} is not"
            yield Anomaly("torn-transaction", one.transactional_id, what)


def refused_request(history: History) -> Iterator[Anomaly]:
    """A correct request was refused for good."""
    for at_s, what, error in history.transactions.refused:
        yield Anomaly("transaction-refused", "", f"{what}: {error}, t={at_s:.3f}")


def hanging_transaction(history: History) -> Iterator[Anomaly]:
    """A transaction is open, although all have ended or timed out."""
    for partition, stable, end in history.transactions.open_in:
        yield Anomaly("hanging-transaction", partition, f"stable up to {stable} of {end}")


def fenced_for_nothing(history: History) -> Iterator[Anomaly]:
    """A process was fenced although no other one of its transactional id asked for an identity, and
    no late request of its own."""
    noted = history.transactions
    for fence in noted.fences:
        since_s = min(
            (one.at_s for one in noted.initialized if one.process == fence.process), default=-inf
        )
        causes = [
            one
            for one in noted.openings
            if one.transactional_id == fence.transactional_id
            and one.asked_s < fence.at_s
            and (one.answered_s > since_s or since_s == -inf)
        ]
        if not causes and not fence.is_late:
            what = f"{fence.process} at t={fence.at_s:.3f}"
            yield Anomaly("fenced-for-nothing", fence.transactional_id, what)


def doubled_identity(history: History) -> Iterator[Anomaly]:
    """Two processes, or two transactional ids, got the same producer id and epoch."""
    noted, owners = history.transactions, dict[tuple[int, int], str]()
    identities: list[Initialized | Given] = [*noted.initialized, *noted.given]
    for one in identities:
        if one.producer_id < 0:
            continue
        owner = owners.setdefault((one.producer_id, one.epoch), one.process)
        if owner != one.process:
            what = f"{owner} and {one.process} have {one.producer_id} with epoch {one.epoch}"
            yield Anomaly("doubled-identity", one.transactional_id, what)


def unwell(history: History) -> Iterator[Anomaly]:
    """A producer commits nothing although the cluster is well."""
    for transactional_id, why in history.transactions.unwell:
        yield Anomaly("transactor-unwell", transactional_id, why)


CHECKERS: Final[tuple[Checker, ...]] = (
    aborted_read,
    lost_transaction,
    torn_transaction,
    doubled_record,
    unlike_final,
    stable_offset_wrong,
    transactions_reordered,
    zombie_committed,
    wrong_offset,
    refused_request,
    hanging_transaction,
    fenced_for_nothing,
    doubled_identity,
    unwell,
)
