"""Runs the rule of an API before its handler."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import CoroutineType
from typing import Any, Final

from chiplog_broker.handlers.authorized.asking import (
    NAMES_PER_STEP,
    Asking,
    Guards,
    Merge,
    Reduced,
    Refused,
    Rule,
)
from chiplog_broker.handlers.authorized.changes import CHANGES
from chiplog_broker.handlers.authorized.rules import RULES
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.server.call import Answer, Call, Handler, Outcome, SlowRequest
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.steps import Steps, run_steps

MAX_UNSLICED_STEPS: Final = 5
"""Steps of a check that run at once; a longer check, of many names, runs in slices."""

MAX_UNSLICED_TOPICS: Final = 100
"""Steps of the completion of an answer that run at once: one for each topic of a Metadata."""


def guarded_table(
    table: Mapping[ApiKey, Handler], guards: Guards, long_work: LongWork
) -> dict[ApiKey, Handler]:
    """The handlers, each behind the rule of its API. Raises `KeyError` if an API has no rule."""
    return {
        key: Guard(handler, key, guards, long_work) if RULES[key] is not None else handler
        for key, handler in table.items()
    }


class Guard:
    """A handler behind its rule."""

    def __init__(self, handler: Handler, key: ApiKey, guards: Guards, long_work: LongWork) -> None:
        rule = RULES[key]
        assert rule is not None, "an API without a rule has no guard"
        self._rule: Rule = rule
        self._handler = handler
        self._key = key
        self._guards = guards
        self._long_work = long_work

    def __call__(self, call: Call[Any]) -> Outcome:
        """Check a request, then have it handled. Processes of this cluster are not checked."""
        if call.peer.is_internal:
            return self._handler(call)
        asking = Asking(self._guards, call)
        steps = self._rule(asking)
        try:
            for _ in range(MAX_UNSLICED_STEPS):
                if (in_thread := next(steps)) is not None:
                    steps = resumed(steps, in_thread)
                    break
        except StopIteration as end:
            return self._handle(asking, call, end.value)
        work = self._check_in_slices(asking, call, steps)
        # A Produce must be complete before the next request of its connection begins.
        return SlowRequest(work) if self._key is ApiKey.PRODUCE else work

    async def _check_in_slices(self, asking: Asking, call: Call[Any], steps: Steps[Any]) -> object:
        """Complete a long check, then have the request handled. Returns the answer, a future of the
        encoded answer, or None."""
        verdict = await self._long_work.run(steps, self._long_work.slices())
        outcome = self._handle(asking, call, verdict)
        if isinstance(outcome, SlowRequest):
            return await outcome.work
        return await outcome if isinstance(outcome, CoroutineType) else outcome

    def _handle(self, asking: Asking, call: Call[Any], verdict: Any) -> Outcome:
        """Answer a request that is refused, or have the allowed part of it handled."""
        if isinstance(verdict, Refused):
            return verdict.answer
        merge = self._with_changes(asking, verdict)
        if merge is None:
            return self._handler(call)
        message = verdict.message if isinstance(verdict, Reduced) else call.message

        def encode(_: Call[Any], answer: object) -> Answer:
            return call.encode(run_steps(merge(answer)))

        inner = Call(call.header, message, call.peer, call.began_s, encode, call.usage)
        return self._completed(self._handler(inner), verdict, merge)

    def _completed(self, outcome: Outcome, verdict: Reduced | None, merge: Merge) -> Outcome:
        """What a handler returned for an allowed part, with the completed answer. The answer of a
        future is completed when it is encoded."""
        if isinstance(outcome, asyncio.Future):
            return outcome
        if isinstance(outcome, CoroutineType):
            return self._complete(outcome, verdict, merge)
        if isinstance(outcome, SlowRequest):
            return SlowRequest(self._complete(outcome.work, verdict, merge))
        if outcome is None:
            check_unanswered(verdict)
            return None
        steps = merge(outcome)
        try:
            for _ in range(MAX_UNSLICED_TOPICS):
                next(steps)
        except StopIteration as end:
            answer: object = end.value
            return answer
        return self._long_work.run(steps, self._long_work.slices())

    async def _complete(
        self, work: Coroutine[Any, Any, object], verdict: Reduced | None, merge: Merge
    ) -> object:
        """The completed answer of a handler's coroutine; a future of an encoded answer and None as
        they are."""
        outcome = await work
        if outcome is None:
            check_unanswered(verdict)
        if outcome is None or isinstance(outcome, asyncio.Future):
            return outcome
        return await self._long_work.run(merge(outcome), self._long_work.slices())

    def _with_changes(self, asking: Asking, verdict: Reduced | None) -> Merge | None:
        """What completes the answer; for an API that changes something, with the lines of the audit
        log. None if there is nothing to do."""
        merge = None if verdict is None else verdict.merge
        changes = CHANGES.get(self._key)
        if changes is None:
            return merge
        message = asking.message if verdict is None else verdict.message

        def logged(answer: Any) -> Steps[object]:
            for count, (what, code) in enumerate(changes(message, answer), 1):
                asking.guards.audit.changed(asking.client, asking.api.name, what, code.name)
                if not count % NAMES_PER_STEP:
                    yield None
            if merge is None:
                return answer
            return (yield from merge(answer))

        return logged


def resumed(steps: Steps[Any], call: Callable[[], Any] | None) -> Steps[Any]:
    """The rest of these steps, of which the last one has yielded `call`."""
    while True:
        done = yield call
        try:
            call = steps.send(done)
        except StopIteration as end:
            return end.value


def check_unanswered(verdict: Reduced | None) -> None:
    """A Produce with acks=0 has no answer. Raises `ProtocolViolation` if a part of it was denied,
    because only a closed connection shows this to its client."""
    if verdict is not None:
        raise ProtocolViolation("a batch sent with acks=0 was denied: use acks=1 to get its error")
