"""The requests to a transaction coordinator, independent of wire formats and versions.

They have no transactional id: the caller has used it to find the state.
"""

from dataclasses import dataclass

from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """An InitProducerId request with a transactional id."""

    transaction_timeout_ms: int
    producer: Producer | None = None
    """From version 3 on (KIP-360): the identity of a producer that continues after an error. None
    for a new one, which fences others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """An AddPartitionsToTxn request, or what another request implies: AddOffsetsToTxn for the
    group's partition of `__consumer_offsets`, and in the second generation Produce and
    TxnOffsetCommit."""

    producer: Producer
    partitions: frozenset[At]
    transaction_version: int
    """The generation: `FIRST_GENERATION` below version 4 of AddPartitionsToTxn, and in
    AddOffsetsToTxn; else `SECOND_GENERATION`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """An EndTxn request."""

    producer: Producer
    is_commit: bool
    transaction_version: int
    """The generation: `FIRST_GENERATION` below version 5 of EndTxn, else `SECOND_GENERATION`."""
