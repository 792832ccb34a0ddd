"""What a broker's error code means to a reader, and what a user is told."""

import pickle

import pytest

from chiplog_spark.wire import errors
from chiplog_spark.wire.errors import WireError
from chiplog_spark.wire.verdicts import LEADER, Verdict, behind, judged
from chiplog_wire.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "replica", "verdict", "kind"),
    [
        (ErrorCode.unknown_topic_or_partition, LEADER, Verdict.OVER, errors.UnknownTopic),
        (ErrorCode.unknown_topic_id, LEADER, Verdict.OVER, errors.UnknownTopic),
        (ErrorCode.invalid_topic_exception, LEADER, Verdict.OVER, errors.UnknownTopic),
        (ErrorCode.offset_out_of_range, LEADER, Verdict.OVER, errors.OffsetOutOfRange),
        (ErrorCode.topic_authorization_failed, LEADER, Verdict.OVER, errors.NotAuthorized),
        (ErrorCode.sasl_authentication_failed, LEADER, Verdict.OVER, errors.NotAuthorized),
        (ErrorCode.not_leader_or_follower, LEADER, Verdict.AGAIN, errors.NoLeader),
        (ErrorCode.not_leader_or_follower, 3, Verdict.AGAIN, errors.ReplicaNotThere),
        (ErrorCode.offset_not_available, LEADER, Verdict.AGAIN, errors.NoLeader),
        (ErrorCode.offset_not_available, 3, Verdict.AGAIN, errors.ReplicaBehind),
        (ErrorCode.kafka_storage_error, LEADER, Verdict.AGAIN, errors.ReplicaDamaged),
        (ErrorCode.kafka_storage_error, 3, Verdict.OVER, errors.ReplicaDamaged),
        (ErrorCode.unsupported_version, LEADER, Verdict.OVER, errors.ProtocolError),
        (ErrorCode.unknown_server_error, 3, Verdict.OVER, errors.ProtocolError),
    ],
)
def test_codes(code: ErrorCode, replica: int, verdict: Verdict, kind: type[WireError]) -> None:
    found = judged(code, "orders", 2, replica, 17)
    assert (found.verdict, type(found.error)) == (verdict, kind)


@pytest.mark.parametrize("replica", [LEADER, 3])
@pytest.mark.parametrize("code", [one for one in ErrorCode if one is not ErrorCode.none])
def test_every_code_is_reported_with_place_and_remedy(code: ErrorCode, replica: int) -> None:
    error = judged(code, "orders", 2, replica, 17).error
    assert str(error).startswith(f"{error.reason}: orders-2: ")
    assert error.what
    assert error.remedy
    assert (error.topic, error.partition) == ("orders", 2)


def test_an_error_survives_the_way_from_an_executor() -> None:
    error = behind(3, 17, "orders", 2)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
    assert (type(again), str(again)) == (errors.ReplicaBehind, str(error))


def test_an_error_of_a_whole_topic_or_of_none_says_so() -> None:
    assert WireError("it broke", "mend it", "orders").place == "orders"
    assert str(WireError("it broke", "mend it")) == "ReadFailed: it broke; mend it"
