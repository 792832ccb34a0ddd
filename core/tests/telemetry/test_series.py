"""The text that Prometheus reads: heads, slices, labels."""

from chiplog_core.telemetry.series import SLICE, Series, labels, of_partition, series_text


def test_many_series_come_in_slices() -> None:
    rows = [(of_partition("orders", index), index) for index in range(SLICE + 1)]
    one: Series[int] = Series("a_b", "Text.", lambda index: None if index == 1 else index)
    head, first, last = series_text(one, rows)
    assert head == "# HELP a_b Text.\n# TYPE a_b gauge\n"
    assert first.startswith(
        'a_b{topic="orders",partition="0"} 0\na_b{topic="orders",partition="2"}'
    )
    assert last == f'a_b{{topic="orders",partition="{SLICE}"}} {SLICE}\n'


def test_a_counter_says_so() -> None:
    counter: Series[int] = Series("a_total", "Text.", lambda value: value, is_counter=True)
    assert "".join(series_text(counter, [("{}", 3)])) == (
        "# HELP a_total Text.\n# TYPE a_total counter\na_total{} 3\n"
    )


def test_labels_may_hold_anything() -> None:
    assert labels(topic="orders", partition=3) == of_partition("orders", 3)
    hard = 'a"b\\c\nd'
    assert labels(group=hard) == '{group="a\\"b\\\\c\\nd"}'
