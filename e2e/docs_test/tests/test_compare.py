"""What counts as the same output, and what does not."""

import pytest

from e2e.docs_test.compare import difference

PAGE_OF_TOPICS = """\
Topic: orders	TopicId: oh_y-mAOQpau3Og33qq7fg	PartitionCount: 6
NAME            READY   AGE
chiplog-operator-6d5f7c9b8-x2x4z   1/1   3m12s
at 127.0.0.1:31543, 2026-11-23T02:53:36Z, chiplog/broker:0.1.0-ab12
✓ starting three nodes (4.2 s)
"""
ANOTHER_RUN = """\
Topic: orders	TopicId: yCAeK-DqSaC5i3ZHTWyscw	PartitionCount: 6
NAME      READY   AGE
chiplog-operator-75b8d4dc96-q9zrb   1/1   9s
at 127.0.0.1:30001, 2027-01-02T03:04:05.678+01:00, chiplog/broker:0.2.0-cd34
✓ starting three nodes (11.9 s)

"""


def test_ids_times_and_widths_are_nothing_to_compare() -> None:
    assert difference(PAGE_OF_TOPICS, ANOTHER_RUN) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("PartitionCount: 6", "PartitionCount: 5"),
        ("1/1", "0/1"),
        ("starting", "stopping"),
        ("READY ", ""),
        ("Topic: orders", "Topic: order"),
    ],
)
def test_everything_else_is(right: str, wrong: str) -> None:
    changed = ANOTHER_RUN.replace(right, wrong, 1)
    assert changed != ANOTHER_RUN

    assert difference(PAGE_OF_TOPICS, changed)


def test_a_line_more_or_less_differs() -> None:
    assert difference("a\nb\n", "a\n")
    assert difference("a\n", "a\nb\n")
    assert difference("", "a\n")
    assert difference("a\n", "")
    assert difference("a", "a\n\n") == ""


def test_what_differs_is_shown_as_it_was_compared() -> None:
    assert difference("a  1\nb 5s\n", "a 2\nb 7s\n").splitlines()[3:] == [
        "-a 1",
        "+a 2",
        " b <duration>",
    ]


def test_the_page_may_leave_something_open() -> None:
    assert difference("…\nend\n", "end\n") == ""
    assert difference("…\nend\n", "1\n2\nend\n") == ""
    assert difference("…\nend\n", "1\n2\n")
    assert difference("offset … of 6\n", "offset 123 of 6\n") == ""
    assert difference("offset … of 6\n", "offset 123 of 7\n")
    assert difference("a … c\n", "a\nc\n"), "within a line, not beyond it"


def test_a_name_as_long_as_an_id_is_a_name() -> None:
    assert difference("chiplog-for-customer-1", "chiplog-for-customer-2")


@pytest.mark.parametrize(
    "text", ["5", "10Gi", "v1alpha1", "--timeout=5m", "demo-broker-1-0", "1.5"]
)
def test_numbers_and_names_are_compared(text: str) -> None:
    assert difference(text, text.replace("1", "2").replace("5", "6"))
