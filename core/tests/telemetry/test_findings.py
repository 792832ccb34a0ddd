"""What a check by a person says in all."""

from chiplog_core.telemetry.findings import Finding, are_ok


def test_everything_is_in_order_as_long_as_no_finding_has_a_problem() -> None:
    good, bad = Finding("brokers"), Finding("topics", "orders has no leader")

    assert are_ok([])
    assert are_ok([good, good])
    assert not are_ok([good, bad])
