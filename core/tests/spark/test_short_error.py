"""One line out of pages of stack trace."""

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.spark.short_error import MAX_ERROR_LENGTH, short_error

CALLS = "\n".join(f"\tat org.apache.spark.Some{at}.call(Some.scala:{at})" for at in range(150))

SUBMISSION = f"""failed to run spark-submit: 26/11/25 10:00:01 WARN NativeCodeLoader: no native code
Exception in thread "main" org.apache.spark.SparkException: External scheduler cannot be made
{CALLS}
Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Operation: [get]  failed.
{CALLS}
Caused by: java.net.UnknownHostException: kubernetes.default.svc: Name does not resolve
{CALLS}
\t... 24 more
"""

IN_A_TASK = f"""py4j.protocol.Py4JJavaError: An error occurred while calling o64.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
{CALLS}
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/pyspark/worker.py", line 1, in main
    process()
  File "/app/chiplog_spark/verify/reading.py", line 45, in rows_of
    raise ValueError("no such thing")
ValueError: no such thing

{CALLS}
"""


def test_the_last_cause_of_java() -> None:
    assert len(SUBMISSION) > 10_000
    expected = "java.net.UnknownHostException: kubernetes.default.svc: Name does not resolve"
    assert short_error(SUBMISSION) == expected


def test_the_error_of_python_that_java_quotes() -> None:
    assert short_error(IN_A_TASK) == "ValueError: no such thing"


def test_an_error_of_java_without_a_cause() -> None:
    text = f'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n{CALLS}'
    assert short_error(text) == "java.lang.OutOfMemoryError: Java heap space"


def test_an_error_of_python() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1\n    f()\nKeyError: 7\n'
    assert short_error(text) == "KeyError: 7"


def test_what_has_no_calls_stays_as_it_is() -> None:
    text = "pods is forbidden: exceeded quota: few,\nrequested: cpu=2, used: cpu=1, limited: cpu=2"
    assert short_error(text) == text
    assert short_error("") == ""
    assert short_error("x" * 5_000) == "x" * (MAX_ERROR_LENGTH - 1) + "…"


@given(st.lists(st.sampled_from([*SUBMISSION.splitlines(), *IN_A_TASK.splitlines(), ""])))
def test_whatever_is_read_is_bounded(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert len(short_error(text)) <= MAX_ERROR_LENGTH
    assert bool(short_error(text)) == bool(text.strip())


def test_calls_without_an_error_leave_the_first_line() -> None:
    assert short_error(f"\n  it went wrong here  \n{CALLS}") == "it went wrong here"
    assert short_error(CALLS) == "at org.apache.spark.Some0.call(Some.scala:0)"
