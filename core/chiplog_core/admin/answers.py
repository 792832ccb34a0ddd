"""The operator's answer to one admin operation, as it is stored in `Broker.spec.answers`.

A request has one operation, so an answer has one result, or one for each partition. If the request
names a topic with an invalid name, the answer has no result but an error for the whole request: a
result with that name would make the Broker object invalid.
"""

from dataclasses import dataclass

from chiplog_core.admin.codes import Code
from chiplog_core.admin.topic_names import why_not_a_topic_name
from chiplog_core.ids import PartitionIndex
from chiplog_core.model.admin import AdminAnswer, AdminResult

MAX_ERROR_MESSAGE_LENGTH = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """The result of an operation for one partition."""

    partition: PartitionIndex
    code: Code = Code.NONE
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounts:
    """The numbers of partitions and replicas of a topic."""

    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of an operation."""

    code: Code = Code.NONE
    message: str = ""
    topic_uid: str | None = None
    """metadata.uid of the Topic; None if nothing was changed or the topic was deleted."""
    partitions: tuple[PartitionVerdict, ...] = ()
    """One result for each partition; if there are any, the other fields are not used."""
    would_have: TopicCounts | None = None
    """Only for a creation with validate_only: the size of the topic. None if an older operator
    answered."""


def to_answer(request_id: str, topic: str, verdict: Verdict) -> AdminAnswer:
    """The AdminAnswer with the result of an operation on this topic."""
    message = verdict.message[:MAX_ERROR_MESSAGE_LENGTH]
    if why_not_a_topic_name(topic):
        # An AdminResult must have a valid topic name, so the error is that of the whole request.
        return AdminAnswer(id=request_id, error_code=int(verdict.code), error_message=message)
    if verdict.partitions:
        return AdminAnswer(
            id=request_id,
            results=tuple(
                AdminResult(
                    topic=topic,
                    partition=partition.partition,
                    error_code=int(partition.code),
                    error_message=partition.message[:MAX_ERROR_MESSAGE_LENGTH],
                )
                for partition in verdict.partitions
            ),
        )
    counts = verdict.would_have
    result = AdminResult(
        topic=topic,
        error_code=int(verdict.code),
        error_message=message,
        topic_uid=verdict.topic_uid,
        partitions=None if counts is None else counts.partitions,
        replicas=None if counts is None else counts.replicas,
    )
    return AdminAnswer(id=request_id, results=(result,))


def from_answer(answer: AdminAnswer) -> Verdict:
    """The result of an operation, from an answer. An error code that this version does not know
    becomes UNKNOWN_SERVER_ERROR."""
    if answer.error_code or not answer.results:
        return Verdict(code=_code(answer.error_code), message=answer.error_message)
    of_partitions = tuple(
        PartitionVerdict(
            partition=result.partition, code=_code(result.error_code), message=result.error_message
        )
        for result in answer.results
        if result.partition is not None
    )
    if of_partitions:
        return Verdict(partitions=of_partitions)
    result = answer.results[0]
    counts = None
    if result.partitions is not None and result.replicas is not None:
        counts = TopicCounts(partitions=result.partitions, replicas=result.replicas)
    return Verdict(
        code=_code(result.error_code),
        message=result.error_message,
        topic_uid=result.topic_uid,
        would_have=counts,
    )


def _code(number: int) -> Code:
    """The error code of this number; UNKNOWN_SERVER_ERROR if this version does not know it."""
    return Code(number) if number in tuple(Code) else Code.UNKNOWN_SERVER_ERROR
