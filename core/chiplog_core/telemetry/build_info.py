"""The series by which Prometheus knows which version runs."""

from typing import Final

from chiplog_core.version import VERSION

BUILD_INFO: Final = "chiplog_build_info"
BUILD_INFO_ABOUT: Final = "1, with the version of the process as a label."
BUILD_LABELS: Final = {"version": VERSION}
