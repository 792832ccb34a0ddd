"""The JVM of Java's transactional client ends whatever it was doing, and leaves nothing open."""

import pytest

from e2e.transactions.by_java import Jvm
from e2e.transactions.client import TransactionFailedError

pytestmark = [pytest.mark.transactions, pytest.mark.timeout(300)]

UNREACHABLE = "127.0.0.1:1"


def test_a_jvm_that_was_killed_refuses_and_can_be_ended() -> None:
    jvm = Jvm()
    # Until the thread that takes answers has seen the end, a question fails when it is sent.
    jvm._process.kill()
    with pytest.raises(TransactionFailedError):
        jvm.ask("one", "producer", UNREACHABLE, "an-id", 1_000)
    jvm._thread.join()
    with pytest.raises(TransactionFailedError):
        jvm.ask("one", "commit")
    jvm.end()
    assert jvm._process.stdin is not None
    assert jvm._process.stdin.closed
    assert jvm._errors.closed


def test_a_question_that_cannot_be_sent_any_more_is_dropped() -> None:
    jvm = Jvm()
    jvm._process.kill()
    jvm._process.wait()
    assert jvm._process.stdin is not None
    jvm._process.stdin.write("a question that was not flushed")
    jvm.end()
    assert jvm._errors.closed
