"""The series with the version."""

from chiplog_core.telemetry.build_info import BUILD_INFO, BUILD_INFO_ABOUT, BUILD_LABELS
from chiplog_core.telemetry.series import Series, labels, series_text
from chiplog_core.version import VERSION


def test_the_series_names_the_version_in_a_label() -> None:
    series: Series[int] = Series(BUILD_INFO, BUILD_INFO_ABOUT, lambda value: value)
    text = "".join(series_text(series, [(labels(**BUILD_LABELS), 1)]))

    assert text.splitlines()[-1] == f'chiplog_build_info{{version="{VERSION}"}} 1'
