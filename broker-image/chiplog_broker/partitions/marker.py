"""The marker of a transaction, for any of its partitions."""

from dataclasses import dataclass

from chiplog_core.transactions.stored import SECOND_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker that ends a producer's transaction in a partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition of `__transaction_state`."""
    transaction_version: int = 0
    """2 if the producer's epoch was raised for this marker (KIP-890), else 0."""

    @property
    def epoch_is_raised(self) -> bool:
        """Whether the marker has a higher epoch than the transaction that it ends."""
        return self.transaction_version >= SECOND_GENERATION
