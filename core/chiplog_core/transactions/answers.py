"""What a request finds, and what is decided about it."""

from dataclasses import dataclass
from typing import Final

from chiplog_core.groups.at import At
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import NO_PRODUCER, Producer
from chiplog_core.transactions.states import PREPARED
from chiplog_core.transactions.stored import StoredTransaction

LASTING: Final = frozenset(
    {
        Code.INVALID_TXN_STATE,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.PRODUCER_FENCED,
        Code.TRANSACTION_ABORTABLE,
    }
)
"""Codes after which a producer aborts its transaction, or gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What the coordinator has of a transactional id when it decides."""

    stored: StoredTransaction | None
    """The last record below the high watermark; None without one, or after a tombstone."""
    is_pending: bool = False
    """Whether a later record or tombstone of the id is in the log, and not yet below the high
    watermark."""

    @property
    def is_busy(self) -> bool:
        """Whether requests must wait: until the pending record is safe, and until the markers of an
        ended transaction are written.

        It is checked before ids and epochs. The client may have the answer to its EndTxn, with an
        id and epoch that only the record after this one has (kafka#18730).
        """
        return self.is_pending or (self.stored is not None and self.stored.state in PREPARED)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    code: Code
    producer: Producer = NO_PRODUCER
    """With NONE, for InitProducerId and for EndTxn of the second generation: the identity with
    which the client continues."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a request, and the record to append before.

    The answer is due when the record is below the high watermark, and the state changes then. If
    the record cannot be appended, nothing has changed, and the request may be decided again: an
    epoch is never raised for a record that is not stored (kafka#8239).
    """

    answer: Answer
    record: StoredTransaction | None = None
    repeats: bool = False
    """Without a record: the request is taken for one that was carried out already. In the first
    generation, a later transaction may look the same."""

    @property
    def needs_proof(self) -> bool:
        """Whether the coordinator must make sure that it still leads before it gives this answer.

        Without a record nothing shows that. A coordinator that has lost its leadership without
        knowing it would fence a producer that the new coordinator has admitted, or confirm the
        commit of a transaction that began at the new one.
        """
        return self.record is None and (self.repeats or self.answer.code in LASTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """The markers that end a transaction: one in each of its partitions."""

    producer: Producer
    is_commit: bool
    transaction_version: int
    """With the second generation, the epoch of a marker must be larger than that of the
    transaction's records (WriteTxnMarkers 2)."""
    partitions: frozenset[At]


def refused(code: Code) -> Decision:
    """An answer without a record."""
    return Decision(Answer(code))


def check_producer(stored: StoredTransaction | None, producer: Producer) -> Code:
    """NONE if this is the present producer of the transactional id."""
    if stored is None or stored.producer_id != producer.producer_id:
        return Code.INVALID_PRODUCER_ID_MAPPING
    return Code.NONE if stored.producer_epoch == producer.epoch else Code.PRODUCER_FENCED
