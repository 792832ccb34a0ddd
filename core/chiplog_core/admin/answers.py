"""The operator's answer to one operation, as it is put into `Broker.spec.answers` and read there.

A request holds one operation, so an answer has one result. A name that no topic can have would
make the whole Broker object invalid: what is wrong with it is said of the request instead.
"""

from dataclasses import dataclass

from chiplog_core.admin.codes import Code
from chiplog_core.admin.topic_names import why_not_a_topic_name
from chiplog_core.model.admin import AdminAnswer, AdminResult

MAX_ERROR_MESSAGE_LENGTH = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of an operation."""

    code: Code = Code.NONE
    message: str = ""
    topic_uid: str | None = None
    """metadata.uid of the Topic; None too where nothing was changed or the topic is deleted."""


def to_answer(request_id: str, topic: str, verdict: Verdict) -> AdminAnswer:
    """The answer that says this of a topic."""
    message = verdict.message[:MAX_ERROR_MESSAGE_LENGTH]
    if why_not_a_topic_name(topic):
        return AdminAnswer(id=request_id, error_code=int(verdict.code), error_message=message)
    result = AdminResult(
        topic=topic,
        error_code=int(verdict.code),
        error_message=message,
        topic_uid=verdict.topic_uid,
    )
    return AdminAnswer(id=request_id, results=(result,))


def from_answer(answer: AdminAnswer) -> Verdict:
    """What an answer says; a code that only a newer version knows is an unknown error."""
    if answer.error_code or not answer.results:
        return Verdict(code=_code(answer.error_code), message=answer.error_message)
    result = answer.results[0]
    return Verdict(
        code=_code(result.error_code), message=result.error_message, topic_uid=result.topic_uid
    )


def _code(number: int) -> Code:
    return Code(number) if number in tuple(Code) else Code.UNKNOWN_SERVER_ERROR
