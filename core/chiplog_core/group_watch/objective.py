"""Whether a group's lag is within what its `spec.maxLag` allows."""

from collections.abc import Iterator

from chiplog_core.group_watch.lags import UNKNOWN_S, Lags
from chiplog_core.model.conditions import ConditionStatus, ConditionType, Verdict
from chiplog_core.model.consumer_group import MaxLag
from chiplog_core.model.group_status import NO_COMMIT, PartitionLag

WITHIN, TOO_LARGE, TOO_OLD = "WithinObjective", "LagTooLarge", "RecordsTooOld"
UNKNOWN = "LagUnknown"


def objective(max_lag: MaxLag, lags: Lags | None) -> Verdict:
    """The verdict for the condition LagWithinObjective. `lags` is None if they are not known now.

    The messages do not contain the exact lag: a message that changes in every pass would cause a
    write of the status in every pass.
    """
    if lags is None:
        message = (
            "the group's lag is unknown until its coordinator and the leaders of its partitions "
            "answer; see the conditions Ready and Warning"
        )
        return _verdict(ConditionStatus.UNKNOWN, UNKNOWN, message)
    exceeded = list(_exceeded(max_lag, lags))
    if exceeded:
        reasons, messages = zip(*exceeded, strict=True)
        return _verdict(ConditionStatus.FALSE, reasons[0], "; ".join(messages))
    unknown = [
        partition_lag for partition_lag in lags.partitions if _is_unknown(max_lag, partition_lag)
    ]
    if unknown:
        message = (
            f"the lag of {len(unknown)} partitions is unknown, for example of {unknown[0].topic}-"
            f"{unknown[0].partition}: the group has committed no offset for them, or their records "
            "have no timestamp"
        )
        return _verdict(ConditionStatus.UNKNOWN, UNKNOWN, message)
    return _verdict(ConditionStatus.TRUE, WITHIN)


def _exceeded(max_lag: MaxLag, lags: Lags) -> Iterator[tuple[str, str]]:
    """The reason and message of each limit that the lags exceed."""
    if max_lag.records is not None and (lags.max or 0) > max_lag.records:
        yield (
            TOO_LARGE,
            (
                f"a partition has more than {max_lag.records} records left to consume, the limit "
                "in spec.maxLag.records"
            ),
        )
    if max_lag.seconds is not None and (lags.max_seconds or 0) > max_lag.seconds:
        yield (
            TOO_OLD,
            (
                f"the oldest record that is not consumed is older than {max_lag.seconds} seconds, "
                "the limit in spec.maxLag.seconds"
            ),
        )


def _is_unknown(max_lag: MaxLag, partition_lag: PartitionLag) -> bool:
    """Whether the lag of a partition is unknown in a unit (records, seconds) that has a limit."""
    if partition_lag.end_offset == 0:
        return False  # the log was always empty
    by_records = max_lag.records is not None and partition_lag.lag == NO_COMMIT
    return by_records or (max_lag.seconds is not None and partition_lag.lag_seconds == UNKNOWN_S)


def _verdict(status: ConditionStatus, reason: str, message: str = "") -> Verdict:
    return Verdict(
        type=ConditionType.LAG_WITHIN_OBJECTIVE.value,
        status=status,
        reason=reason,
        message=message,
    )
