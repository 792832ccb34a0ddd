"""How many transactional producers a run has, and how they behave."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionHabits:
    """The transactional producers and their readers; times are in seconds."""

    producers: int = 2
    """Number of transactional ids, each used by one process at a time."""
    readers: int = 2
    partitions: int = 3
    """Partitions of the topic that only transactional producers write to."""
    timeout_s: float = 12.0
    """`transaction.timeout.ms` of the producers."""
    pause_s: float = 0.6
    """The longest pause between two requests of a transaction, and between two transactions."""
    abort_share: float = 0.2
    """Share of transactions that are aborted."""
    offsets_share: float = 0.5
    """Share of transactions that commit an offset of a consumer group, too."""
    asks_s: float = 4.0
    """Average time between two requests for a group's committed offset."""
    second_share: float = 0.5
    """Share of processes that speak the second generation of the protocol (KIP-890)."""
    last_epoch: int = 0
    """The last epoch that a client gets before its producer gets another id; 0 for Kafka's, which
    no run is long enough to reach."""
    overtaking_share: float = 0.0
    """Share of batches whose answer a producer does not wait for: it aborts the transaction while
    they are on their way, as librdkafka does."""
    overtakes_offsets: bool = False
    """Whether it also does so with that share of the offsets that it commits."""
    reuses_epoch_share: float = 0.0
    """Share of producers of the first generation that continue with the same epoch after a request
    to a coordinator without an answer, as Kafka's clients do. A late one may end the next
    transaction then (KIP-890)."""
