"""Checkers: each is a pure function that finds one kind of anomaly in a history.

Anomalies have the names that `jepsen/tests/kafka.clj` uses, where it has one. A record that was
sent without getting an answer may or may not be stored: both is correct.
"""

from e2e.sim.checkers import groups, moves, transactions, upkeep, users
from e2e.sim.checkers.anomaly import Anomaly, Checker
from e2e.sim.checkers.deleted_keys import deleted_key_back
from e2e.sim.checkers.liveness import no_progress, stuck_reader
from e2e.sim.checkers.log_starts import log_start_back, log_start_unexplained
from e2e.sim.checkers.maps import epoch_back, isr_below_floor
from e2e.sim.checkers.places import duplicate, inconsistent_offsets
from e2e.sim.checkers.readers import (
    dirty_read,
    end_regression,
    never_sent,
    old_in_new,
    out_of_range,
    polls,
)
from e2e.sim.checkers.replicas import epoch_fork, forked_files, replica_divergence
from e2e.sim.checkers.vouching import not_durable
from e2e.sim.checkers.writes import (
    g1a,
    lost_write,
    nonmonotonic_send,
    reordered,
    sequence_refused,
    unseen,
)
from e2e.sim.history import History

__all__ = ["CHECKERS", "Anomaly", "Checker", "check"]

CHECKERS: tuple[Checker, ...] = (
    lost_write,
    unseen,
    inconsistent_offsets,
    duplicate,
    nonmonotonic_send,
    reordered,
    sequence_refused,
    g1a,
    never_sent,
    old_in_new,
    dirty_read,
    polls,
    out_of_range,
    end_regression,
    epoch_fork,
    forked_files,
    replica_divergence,
    deleted_key_back,
    log_start_back,
    log_start_unexplained,
    not_durable,
    isr_below_floor,
    epoch_back,
    no_progress,
    stuck_reader,
    *moves.CHECKERS,
    *upkeep.CHECKERS,
    *groups.CHECKERS,
    *users.CHECKERS,
    *transactions.CHECKERS,
)


def check(history: History) -> list[Anomaly]:
    """All anomalies in a history."""
    return [found for checker in CHECKERS for found in checker(history)]
