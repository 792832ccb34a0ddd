"""The results of a chaos campaign as a table, and as lines."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from e2e.chaos.run import Result

NUMBERS = (
    "hits",
    "acknowledged",
    "records/s",
    "unavailable s",
    "given up",
    "anomalies",
    "commits",
    "of groups",
    "transactions",
    "of transactions",
)


def table(results: Iterable[Result]) -> Table:
    """A row for each kind of fault.

    `unavailable s` is the longest time in which no record of some partition was acknowledged;
    `of groups` are the anomalies of consumer groups, after the offsets they committed, and
    `of transactions` those of transactions, after the number that was committed.
    """
    drawn = Table(box=SIMPLE_HEAD)
    drawn.add_column("fault", no_wrap=True)
    for heading in NUMBERS:
        drawn.add_column(heading, no_wrap=True, justify="right")
    drawn.add_column("")
    for one in results:
        drawn.add_row(escape(one.name), *numbers(one), escape(remark(one)))
    return drawn


def numbers(one: Result) -> tuple[str, ...]:
    """The cells of a result's row, in the order of the columns of `table`."""
    return (
        str(one.hits),
        f"{one.acknowledged:,}",
        f"{one.records_per_s:.0f}",
        f"{one.unavailable_s:.1f}",
        str(len(one.errors)),
        str(len(one.anomalies)),
        f"{one.commits:,}",
        str(len(one.group_anomalies)),
        f"{one.transactions.committed:,}",
        str(len(one.transaction_anomalies)),
    )


def remark(one: Result) -> str:
    """The last column: the names of the anomalies, or why the run is invalid; "" if all is well."""
    if one.missed:
        return f"invalid: the checkers do not report the planted {', '.join(sorted(one.missed))}"
    found = (*one.anomalies, *one.group_anomalies, *one.transaction_anomalies)
    return ", ".join(sorted({anomaly.name for anomaly in found}))


def line(one: Result) -> str:
    """A result in one line, for the summary of all tests."""
    return (
        f"chaos, {one.name}: {one.hits} hits, {one.acknowledged:,} records acknowledged, "
        f"{one.records_per_s:.0f}/s, a partition unavailable for at most "
        f"{one.unavailable_s:.1f} s, {len(one.anomalies)} anomalies; {one.commits:,} offsets "
        f"committed by groups, {len(one.group_anomalies)} anomalies; {one.transactions.text}, "
        f"{len(one.transaction_anomalies)} anomalies"
    )
