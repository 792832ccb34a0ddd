"""The metric that shows the version of a process to Prometheus."""

from typing import Final

from chiplog_core.version import VERSION

BUILD_INFO: Final = "chiplog_build_info"
BUILD_INFO_ABOUT: Final = "Always 1; the label is the version of the process."
BUILD_LABELS: Final = {"version": VERSION}
